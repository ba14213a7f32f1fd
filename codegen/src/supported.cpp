#include "supported.h"

#include <set>
#include <tuple>

#include "kiln/dsl/verify.h"
#include "kiln/dsl/walk.h"
#include "kiln/target/capabilities.h"

namespace kiln::codegen {
namespace {

// Asks the matrix once for all ops that are alike: kernels may have a hundred thousand.
class Refusals {
 public:
  Refusals(const dsl::Kernel& kernel, const target::Processor& processor) : kernel_(kernel), processor_(processor) {}

  // Why the op is refused; "" where it is not.
  std::string of(const dsl::Op& op) {
    // What no target lowers expand_descriptors makes pointers, loads and stores of.
    const dsl::OpInfo& info = dsl::info(op.code);
    if (info.has(dsl::kNoCpu) && info.has(dsl::kNoGpu)) {
      return target::is_gpu(processor_.family) ? "is not lowered to GPUs yet" : "the CPU backend does not compile this";
    }
    const target::OpForm form = target::form_of(op);
    const dsl::ElementType element = target::element_of(kernel_, op);
    if (!asked_.insert({form.op, form.choice, element}).second) return "";
    target::Capability found = target::capability(form, element, processor_);
    return found.support == target::Support::kRefused ? std::move(found.how) : "";
  }

 private:
  const dsl::Kernel& kernel_;
  const target::Processor& processor_;
  std::set<std::tuple<dsl::OpCode, int64_t, dsl::ElementType>> asked_;
};

}  // namespace

Result<void> check_supported(const dsl::Kernel& kernel, const target::Processor& processor, const std::string& name) {
  Refusals refusals(kernel, processor);
  std::string why;
  const dsl::Op* op = find_op(kernel, [&](const dsl::Op& each) { return !(why = refusals.of(each)).empty(); });
  if (!op) return {};
  const std::string what = dsl::info(op->code).name + ": " + why;
  const std::string where = target::is_gpu(processor.family) ? "target `" + name + "`: " : "";
  return error(ErrorCode::kCompileFailed, dsl::diagnostic(kernel, op->loc, where + what));
}

}  // namespace kiln::codegen

#include "gpu/supported.h"

#include "kiln/dsl/verify.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {

Result<void> check_supported(const dsl::Kernel& kernel, const std::string& processor) {
  const dsl::Op* op = find_op(kernel, [](const dsl::Op& each) { return dsl::info(each.code).has(dsl::kNoGpu); });
  if (!op) return {};
  const std::string what = "target `" + processor + "`: " + dsl::info(op->code).name + " is not lowered to GPUs yet";
  return error(ErrorCode::kCompileFailed, dsl::diagnostic(kernel, op->loc, what));
}

}  // namespace kiln::codegen::gpu

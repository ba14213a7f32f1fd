#include "cpu/supported.h"

#include "kiln/dsl/verify.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::cpu {

Result<void> check_supported(const dsl::Kernel& kernel) {
  const dsl::Op* op = find_op(kernel, [](const dsl::Op& each) { return dsl::info(each.code).has(dsl::kNoCpu); });
  if (!op) return {};
  return error(ErrorCode::kCompileFailed,
               dsl::diagnostic(kernel, op->loc, dsl::info(op->code).name + ": the CPU backend does not compile this"));
}

}  // namespace kiln::codegen::cpu

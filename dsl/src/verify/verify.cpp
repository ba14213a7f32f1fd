// The verifier. The kernel may come from hostile bytes: no index is used before it is checked, and no rule assumes that
// another one held.
//
//   1. structure: indices, arity, definitions before uses, regions and their ends; a kernel that fails here stops here
//   2. types: infer_types again for each op, region arguments, yields
//   3. rules that span ops: stores through read-only parameters, names, the grid
#include "kiln/dsl/verify.h"

#include "verify/verify_rules.h"

namespace kiln::dsl {

void Report::add(const Location& loc, const std::string& message) {
  if (++count_ > kMaxShown) return;
  text_ += (text_.empty() ? "" : "\n") + diagnostic(kernel_, loc, message);
}

Result<void> Report::result() const {
  if (count_ == 0) return {};
  std::string text = text_;
  if (count_ > kMaxShown) text += "\n… and " + std::to_string(count_ - kMaxShown) + " more errors";
  return error(ErrorCode::kVerifyFailed, text);
}

Result<void> verify(const Kernel& kernel) {
  Report report(kernel);
  verify_header(kernel, report);
  verify_structure(kernel, report);
  if (report.empty()) {
    verify_types(kernel, report);
    verify_readonly(kernel, report);
  }
  return report.result();
}

}  // namespace kiln::dsl

// The rules of the language, checked on a whole kernel.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// Op arity, types (infer_types), dominance, regions and yields, carried types, stores through read-only parameters,
// names, the grid. The error lists every violation, each with op, operand types, `file:line:column` and, where the file
// can be read, the source line with a caret. Code: kVerifyFailed.
Result<void> verify(const Kernel& kernel);

// One violation as verify() reports it: "FILE:LINE:COL: error: MESSAGE", then source line and caret where readable.
std::string diagnostic(const Kernel& kernel, const Location& loc, const std::string& message);

}  // namespace kiln::dsl

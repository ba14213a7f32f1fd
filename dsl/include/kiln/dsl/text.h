// The text form, `.kiln`; its grammar is docs/reference/kiln-text.md. print and parse are inverse up to locations.
#pragma once

#include <string>
#include <string_view>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

std::string print(const Kernel& kernel);

// Parses exactly one kernel; locations are lines of the text under `file_name`. Any bytes are survived: depth, size and
// counts are limited, and the error names line and column. The result is not yet verified.
Result<Kernel> parse(std::string_view text, std::string_view file_name);

// An expression alone, over a kernel's constexprs and int parameters: "div(rows + 15, 16)*cols".
Result<Expr> parse_expr(const Kernel& kernel, std::string_view text);

}  // namespace kiln::dsl

// Expressions as JSON values: in the binary form of a kernel and in an artifact's metadata.
//
//   expr = [[coefficient, [atom, …]], …]      a sum of products; [] is 0
//   atom = ["c", i]                           constexpr i
//        | ["p", i]                           parameter i
//        | ["div"|"rem"|"min"|"max"|"eq"|"ne"|"lt"|"le", expr, expr]
#pragma once

#include <nlohmann/json.hpp>

#include "kiln/dsl/expr.h"

namespace kiln::dsl {

nlohmann::json expr_to_json(const Expr& expr);
// Survives any value: nesting, terms and atoms are limited. Indices are not checked against a kernel.
Result<Expr> expr_from_json(const nlohmann::json& value);

}  // namespace kiln::dsl

// Expressions in the binary forms: an int where constant, else [[coefficient, atom…]…]; an atom is [kind, index] or
// [kind, expression, expression]. All of it CBOR.
#pragma once

#include <cstddef>
#include <span>

#include "kiln/dsl/cbor_writer.h"
#include "kiln/dsl/expr.h"

namespace kiln::dsl {

void write_expr(const Expr& expr, CborWriter& out);
// The expression that a whole item of CBOR holds, over so many constexprs and parameters. Survives any bytes: nesting,
// terms and factors are limited as in text.
Result<Expr> read_expr(std::span<const std::byte> item, size_t constexprs, size_t params);

}  // namespace kiln::dsl

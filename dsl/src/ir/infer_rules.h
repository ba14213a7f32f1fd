// The type rules by family; each takes an op whose operand count and attribute kinds match the table.
#pragma once

#include <optional>

#include "kiln/dsl/ir.h"

namespace kiln::dsl::infer {

using Types = Result<std::vector<Type>>;

// One op, and how it complains.
struct Rule {
  const OpInfo& op;
  const std::vector<Type>& in;
  const std::vector<Attr>& attrs;
  const ExprNames& names;

  std::string text(const Type& type) const { return to_string(type, names); }
  std::string text(const Expr& expr) const { return to_string(expr, names); }

  int64_t number(size_t attr) const { return std::get<int64_t>(attrs[attr]); }
  const Expr& expr(size_t attr) const { return std::get<Expr>(attrs[attr]); }
  const std::vector<Expr>& list(size_t attr) const { return std::get<std::vector<Expr>>(attrs[attr]); }
  ElementType element(size_t attr) const { return std::get<ElementType>(attrs[attr]); }

  // "op: what (operands: types)".
  Error fail(const std::string& what) const;
};

// Checks shared by the families: nothing, or what is wrong.
using Problem = std::optional<Error>;
Problem check_same_shape(const Rule& rule);
Problem check_same_type(const Rule& rule, size_t first, size_t last);
Problem check_no_pointers(const Rule& rule);
Problem check_axis(const Rule& rule, int64_t axis, int rank);
// Rank and constant extents; symbolic extents are checked at instantiation.
Problem check_extents(const Rule& rule, const std::vector<Expr>& shape);

// A scalar or tile of ints, i1 not among them.
bool is_index(const Type& type);

Types make(const Rule& rule);         // program_id … splat
Types shape(const Rule& rule);        // broadcast … gather
Types elementwise(const Rule& rule);  // arithmetic, bits, cmp, select, math, cast, bitcast, philox, inline_asm
Types memory(const Rule& rule);       // addptr … atomic_cas
Types described(const Rule& rule);    // descriptor … gather_rows
Types algebra(const Rule& rule);      // dot … histogram
Types control(const Rule& rule, const std::vector<Type>& yields);
Types fact(const Rule& rule);  // assume, require, assert, print

}  // namespace kiln::dsl::infer

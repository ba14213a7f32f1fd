// What the type rules share. A rule looks at operands and attributes and gives the types of the results, or an error
// whose message begins with the op's name.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kiln/graph/extents.h"
#include "kiln/graph/infer.h"

namespace kiln::graph {

using Types = std::vector<TensorType>;
using Extents = std::vector<Expr>;  // of a type of the IR; authors have Shape, of Dims (dim.h)

// One application of an op, for its rule.
struct Application {
  const Graph& graph;
  TensorOp op;
  std::span<const TensorType* const> operands;
  const AttrList& attrs;

  const TensorType& in(size_t i) const { return *operands[i]; }
  bool has(size_t i) const { return i < operands.size() && operands[i] != nullptr; }
  std::string name() const { return info(op).name; }
  // "softmax: axis 3 of f32[n, 4]…"
  Error fail(const std::string& what) const { return error(ErrorCode::kVerifyFailed, name() + ": " + what); }
  std::string text(const TensorType& type) const { return to_string(type, graph.expr_names()); }
  std::string text(const Expr& expr) const { return dsl::to_string(expr, graph.expr_names()); }
  std::string text(const Extents& shape) const;

  Known equal(const Expr& a, const Expr& b) const { return graph::equal(graph.dims, a, b); }
  // Errors unless equal for all sizes. `what` says whose extents: "axis 1 of a and axis 0 of b".
  Result<void> same_extent(const Expr& a, const Expr& b, const std::string& what) const;
  Result<void> same_shape(const Extents& a, const Extents& b, const std::string& what) const;
  // 0 ≤ a, or a ≤ b.
  Result<void> not_negative(const Expr& a, const std::string& what) const;
  Result<void> ordered(const Expr& a, const Expr& b, const std::string& what) const;
  // a*b; an error where numbers in it are beyond all sizes.
  Result<Expr> times(const Expr& a, const Expr& b) const;
  // Whether an attribute is a new shape that may be: rank, extents of 0 or more and at most 2^40 elements an axis.
  Result<void> fits(const Extents& shape) const;
  // An axis attribute of a tensor of so many axes.
  Result<int64_t> axis(size_t attr, int rank) const;
  // Different axes, each in range.
  Result<std::vector<bool>> axes(size_t attr, int rank) const;
  // An int attribute in these bounds.
  Result<void> int_between(size_t attr, int64_t low, int64_t high) const;
  // An attribute of `count` numbers of `least` or more.
  Result<void> numbers(size_t attr, size_t count, int64_t least) const;
  Result<void> is_float(size_t i) const;
  Result<void> is_int(size_t i) const;  // i1 is none
  // Operand i has this element type, or this rank.
  Result<void> element_is(size_t i, ElementType element) const;
  Result<void> rank_is(size_t i, int rank) const;
  // "x", "weight": from the table; variadic ones with their number.
  std::string operand_name(size_t i) const;
};

// Returns from the rule with the error, if there is one.
#define KILN_CHECK(expression) \
  if (auto checked = (expression); !checked) return checked.error()

// By family. Arity and kinds of attributes have been checked.
Result<Types> infer_make(const Application& app);
Result<Types> infer_elementwise(const Application& app);
Result<Types> infer_view(const Application& app);
Result<Types> infer_cat(const Application& app);
Result<Types> infer_index(const Application& app);
Result<Types> infer_reduce(const Application& app);
Result<Types> infer_scan(const Application& app);
Result<Types> infer_order(const Application& app);
Result<Types> infer_contract(const Application& app);
Result<Types> infer_conv(const Application& app);
Result<Types> infer_window(const Application& app);
Result<Types> infer_resize(const Application& app);
Result<Types> infer_norm(const Application& app);
Result<Types> infer_optimiser(const Application& app);
Result<Types> infer_control(const Application& app);
Result<Types> infer_kernel(const Application& app);

}  // namespace kiln::graph

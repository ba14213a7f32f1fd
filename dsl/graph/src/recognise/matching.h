// What patterns are written with: a view of the nodes that are there already, and the composite in their place.
//
// Views lie between the ops of a pattern in many ways: a row's greatest element is kept with extent 1 or reshaped to
// it, then broadcast. So an operand is *peeled*: views that only repeat, reorder or insert axes are followed, and what
// is left is the value below and, for each axis of the frame that the search began in, the axis of the value.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kiln/graph/builder.h"

namespace kiln::graph::recognition {

// A value seen from a frame of axes.
struct Seen {
  ValueId value = kNoValue;
  std::vector<int> axes;  // by axis of the frame: that of the value; -1 where it is the same all along
};

// coefficient · factors
struct Product {
  double coefficient = 1;
  std::vector<ValueId> factors;
};

class Matching {
 public:
  Matching(GraphBuilder& builder, Location loc) : builder_(builder), loc_(loc) {}

  // --- nodes ---
  const TensorType& type(ValueId value) const { return builder_.type(value); }
  const std::vector<Expr>& shape(ValueId value) const { return type(value).shape; }
  int rank(ValueId value) const { return type(value).rank(); }
  std::span<const DimInfo> dims() const { return builder_.graph().dims; }
  // What defines a value; null for an input, and for results of ops with several.
  const Node* node(ValueId value) const;
  bool is(ValueId value, TensorOp op) const {
    const Node* found = node(value);
    return found && found->op == op;
  }
  ValueId operand(ValueId value, size_t i) const;
  const AttrList& attrs(ValueId value) const { return builder_.graph().attrs(*node(value)); }
  bool same_extents(std::span<const Expr> a, std::span<const Expr> b) const;
  bool same_extent(const Expr& a, const Expr& b) const { return same_extents({&a, 1}, {&b, 1}); }

  // --- views ---
  Seen peel(ValueId value) const;
  // The operand of an elementwise op, from the same frame.
  Seen peel(const Seen& seen, size_t operand) const;
  ValueId plain(ValueId value) const { return peel(value).value; }
  // A reduction along axes of a tensor of the frame's shape, each row seeing its own: the value is that of an op
  // `reduce`, `mean`, `variance` or `logsumexp`, whose operand and axes are given.
  struct Rows {
    ValueId of = kNoValue;
    std::vector<int64_t> axes;
  };
  std::optional<Rows> rows(const Seen& seen, TensorOp op, std::optional<ReduceKind> kind = {}) const;
  // Whether the value lies along the frame's last axes and is the same along all others.
  bool lies_last(const Seen& seen, std::span<const Expr> frame, size_t count) const;
  // Whether a value [C] lies along axis 1.
  bool lies_on_channels(const Seen& seen, std::span<const Expr> frame) const;

  // --- numbers ---
  // Of a tensor whose elements are all one number, known now.
  std::optional<double> number(ValueId value) const;
  // Of one whose elements are all an expression over dims.
  std::optional<Expr> expression(ValueId value) const;
  // Within two units in the last place of the value's type.
  bool near(ValueId value, double wanted) const;
  bool near(double got, double wanted, ElementType type) const;
  // Equal to it exactly; NaN is none.
  bool is_number(ValueId value, double wanted) const { return number(value) == wanted; }

  // --- expressions ---
  // The operands of a binary op, where one of them is such a number: the other.
  ValueId other_than_number(ValueId value, TensorOp op, double wanted) const;
  // The operand beside a given one.
  ValueId other_than(ValueId value, TensorOp op, ValueId one) const;
  // The product that a value is; what is in `atoms` is not taken apart.
  Product product(ValueId value, std::span<const ValueId> atoms) const;
  // x of x², as a product or a power.
  ValueId square_of(ValueId value) const;
  // y of 1/y.
  ValueId reciprocal_of(ValueId value) const;

  // --- new nodes ---
  // kNoValue where the rules of the op refuse it.
  ValueId emit(TensorOp op, std::initializer_list<ValueId> operands, AttrList attrs = {});
  ValueId emit(TensorOp op, std::span<const ValueId> operands, AttrList attrs = {});
  // In another shape, or with its axes in another order: what the value is a view of where that has it already.
  ValueId reshaped(ValueId value, const std::vector<Expr>& shape);
  ValueId permuted(ValueId value, const std::vector<int64_t>& order);

 private:
  void collect(ValueId value, std::span<const ValueId> atoms, int depth, Product& out) const;

  GraphBuilder& builder_;
  Location loc_;
};

// The composite that computes what the value does, or kNoValue.
using Pattern = ValueId (*)(Matching& m, ValueId root);
// Those that may end in an op, more telling ones first.
std::span<const Pattern> patterns_of(TensorOp op);

// activations.cpp
ValueId find_sigmoid(Matching& m, ValueId root);  // div
ValueId find_silu(Matching& m, ValueId root);     // mul, div
ValueId find_gelu(Matching& m, ValueId root);     // mul, div
// statistics.cpp
ValueId find_mean(Matching& m, ValueId root);           // div, mul
ValueId find_variance(Matching& m, ValueId root);       // mean, div
ValueId find_logsumexp(Matching& m, ValueId root);      // add
ValueId find_softmax(Matching& m, ValueId root);        // div, mul
ValueId find_log_softmax(Matching& m, ValueId root);    // sub
ValueId find_cross_entropy(Matching& m, ValueId root);  // neg, select, sub, reduce, mean, div, reshape
ValueId find_smoothed(Matching& m, ValueId root);       // add
ValueId find_rounded(Matching& m, ValueId root);        // cast
// norms.cpp
ValueId find_norm(Matching& m, ValueId root);        // mul, div
ValueId find_weight(Matching& m, ValueId root);      // mul
ValueId find_bias(Matching& m, ValueId root);        // add
ValueId find_group_norm(Matching& m, ValueId root);  // reshape
// attention.cpp
ValueId find_attention(Matching& m, ValueId root);  // dot
// views.cpp
ValueId find_view(Matching& m, ValueId root);  // reshape
ValueId find_same(Matching& m, ValueId root);  // broadcast, permute, cast, add, mul, div, cmp, not, and, or
// layers.cpp
ValueId find_linear(Matching& m, ValueId root);          // add, cast
ValueId find_linear_of_rows(Matching& m, ValueId root);  // reshape

}  // namespace kiln::graph::recognition

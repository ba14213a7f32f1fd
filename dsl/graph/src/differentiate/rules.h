// What gradient rules share. A rule sees one node on the way back, from outputs to inputs: operands x, results y and
// the gradients g of the results; it gives the gradients of the operands that are wanted. It is written with the
// functions of Tensors on the current trace, so that what it makes can be differentiated again.
//
// Gradients have the type of what they belong to. Every rule is linear in g: forward mode is the transpose of reverse
// mode (differentiate.cpp).
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kiln/graph/control.h"
#include "kiln/graph/functions.h"
#include "trace/trace.h"

namespace kiln::graph {

class Driver;
using Extents = std::vector<Expr>;

// One node whose gradients are asked for.
class Adjoint {
 public:
  TensorOp op;
  const AttrList* attr_list;  // outlives the rule, which may add to the lists of the graph
  Location loc;
  std::vector<Tensor> operands, results;  // absent operands are Trace::absent()
  std::vector<Tensor> result_gradients;   // invalid where nothing depends on the result
  std::vector<bool> wanted;               // by operand
  std::vector<Tensor> gradients;          // by operand; invalid: none
  Driver* driver = nullptr;

  const AttrList& attrs() const { return *attr_list; }
  const Tensor& x(size_t i = 0) const { return operands[i]; }
  const Tensor& y(size_t i = 0) const { return results[i]; }
  bool has_g(size_t i) const { return result_gradients[i].valid(); }
  // Zeros where there is none.
  Tensor g(size_t i = 0) const;
  bool has(size_t i) const { return i < operands.size() && operands[i].valid(); }
  bool wants(size_t i = 0) const { return i < wanted.size() && wanted[i]; }
  void give(size_t i, const Tensor& gradient) { gradients[i] = gradient; }
  // "FILE:LINE:COLUMN: OP: what".
  void fail(const std::string& what) const;

  Trace& trace() const { return *Trace::current(); }
  // The extents as the IR has them; of a value of an open body.
  std::vector<Expr> extents(const Tensor& t) const { return trace().type(t).shape; }
  Tensor emit(TensorOp with, std::initializer_list<Tensor> of, AttrList list = {}) const {
    return trace().emit(with, std::span(of.begin(), of.size()), std::move(list), SourceLocation());
  }
  Tensor emit(TensorOp with, const std::vector<Tensor>& of, AttrList list = {}) const {
    return trace().emit(with, of, std::move(list), SourceLocation());
  }
  const std::vector<int64_t>& ints(size_t attr) const { return ints_attr(*attr_list, attr); }
};

// --- pieces of rules ---
Tensor zeros_of(const TensorType& type);
// The number, rounded to x's type, in x's shape.
Tensor number_like(const Tensor& x, double number);
Tensor reshape_to(const Tensor& x, std::vector<Expr> extents);
Tensor broadcast_extents(const Tensor& x, const std::vector<Expr>& extents);
// The sum over axes, which disappear; none: x.
Tensor sum_axes(const Tensor& x, const std::vector<int64_t>& axes);
// The sum of what a broadcast to x's type repeated: of this shape.
Tensor sum_to(const Tensor& x, const std::vector<Expr>& extents);
// What a reduction of a tensor of these extents gave, repeated along the axes.
Tensor restore(const Tensor& reduced, const std::vector<Expr>& extents, const std::vector<int64_t>& axes);
// How many elements axes have together, as a scalar of the type.
Tensor count_of(const std::vector<Expr>& extents, const std::vector<int64_t>& axes, ElementType type);
// slice and pad along one axis; start and end, low and high in elements.
Tensor slice_axis(const Tensor& x, size_t axis, const Expr& start, const Expr& end);
Tensor pad_axis(const Tensor& x, size_t axis, const Expr& low, const Expr& high);
std::vector<int64_t> inverse_order(const std::vector<int64_t>& order);

// A tensor with some axes as one, behind the others.
class Lines {
 public:
  Lines(const std::vector<Expr>& extents, const std::vector<int64_t>& axes);
  const std::vector<Expr>& shape() const { return shape_; }
  Tensor in(const Tensor& x) const;
  Tensor out(const Tensor& lines) const;

 private:
  std::vector<int64_t> order_;
  std::vector<Expr> moved_, shape_;
};

// The gradients of the op's decomposition, whose forward part is computed again.
void decomposed_rule(Adjoint& a);

// --- the table ---
using GradientRule = void (*)(Adjoint&);
enum class GradientKind : uint8_t {
  kMissing,    // the table lacks the op: a bug
  kNone,       // no gradient flows: steps, tests, ints
  kRule,       // a rule
  kDecompose,  // that of the decomposition, whose forward part is computed again
  kControl,    // bodies: control.cpp
};
struct GradientEntry {
  GradientKind kind = GradientKind::kMissing;
  GradientRule rule = nullptr;
};
// By op. Thread-safe.
const GradientEntry& gradient_entry(TensorOp op);

// The table's parts, by family.
struct GradientTable {
  GradientEntry entries[kTensorOpCount];

  void rule(TensorOp op, GradientRule with) { entries[static_cast<size_t>(op)] = {GradientKind::kRule, with}; }
  void all(GradientKind kind, std::initializer_list<TensorOp> ops, GradientRule with = nullptr) {
    for (const TensorOp op : ops) entries[static_cast<size_t>(op)] = {kind, with};
  }
};
void add_elementwise_rules(GradientTable& table);
void add_view_rules(GradientTable& table);
void add_index_rules(GradientTable& table);
void add_reduce_rules(GradientTable& table);
void add_scan_rules(GradientTable& table);
void add_contract_rules(GradientTable& table);
void add_window_rules(GradientTable& table);
void add_activation_rules(GradientTable& table);
void add_norm_rules(GradientTable& table);
void add_layer_rules(GradientTable& table);
void add_control_rules(GradientTable& table);
void add_custom_rules(GradientTable& table);

}  // namespace kiln::graph

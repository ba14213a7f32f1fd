// One call of a function of tensors: what it asks of its arguments, with errors that begin with its name.
#pragma once

#include <array>
#include <initializer_list>
#include <utility>

#include "kiln/graph/functions.h"
#include "trace/promote.h"

namespace kiln::graph {

// Everything that is asked after an error gives something harmless, and emit() an invalid tensor.
class Call {
 public:
  Call(std::string_view what, const SourceLocation& loc) : what_(what), loc_(loc), trace_(Trace::current()) {}
  Call(std::string_view what, const Operand& first) : Call(what, first.loc()) {}

  bool ok() const { return trace_ && !failed_; }
  Trace& trace() const { return *trace_; }
  std::string_view what() const { return what_; }
  const SourceLocation& loc() const { return loc_; }
  void fail(const std::string& message);
  void fail() { failed_ = true; }  // of what is reported already

  // --- operands ---
  Tensor tensor(const Operand& operand) {
    return checked([&] { return as_tensor(*trace_, operand, what_); });
  }
  Tensor tensor(const Operand& operand, ElementType number_type) {
    return checked([&] { return as_tensor(*trace_, operand, number_type, what_); });
  }
  Tensor float_tensor(const Operand& operand) {
    return checked([&] { return as_float(*trace_, operand, what_); });
  }
  // Absent ones stay so.
  Tensor optional(const Operand& operand, ElementType number_type) {
    return operand.present() ? tensor(operand, number_type) : Trace::absent();
  }
  // Of the element type, whatever it was.
  Tensor tensor_as(const Operand& operand, ElementType type);
  // Of the element type and shape.
  Tensor tensor_as(const Operand& operand, ElementType type, const std::vector<Expr>& shape);
  Tensor cast(const Tensor& x, ElementType type) {
    return checked([&] { return cast_tensor(*trace_, x, type, loc_); });
  }
  Tensor broadcast(const Tensor& x, const std::vector<Expr>& shape) {
    return checked([&] { return broadcast_tensor(*trace_, x, shape, what_, loc_); });
  }
  // Brought to one element type; as many as there are, or none after an error.
  std::vector<Tensor> promoted(std::initializer_list<const Operand*> operands, bool to_float = false);
  std::vector<Tensor> promoted(const std::vector<Tensor>& tensors);
  std::vector<Tensor> broadcast_together(std::vector<Tensor> tensors);

  // --- what they are ---
  TensorType type(const Tensor& x) const { return ok() ? trace_->type(x) : TensorType(); }
  std::vector<Expr> shape(const Tensor& x) const { return type(x).shape; }
  Expr extent(const Tensor& x, int64_t axis) const;
  int rank(const Tensor& x) const { return ok() ? trace_->type(x).rank() : 0; }
  ElementType element(const Tensor& x) const { return ok() ? trace_->type(x).element : ElementType::kF32; }
  std::string text(const Tensor& x) const { return ok() ? trace_->text(x) : ""; }

  // --- attributes ---
  int64_t axis(int axis, int count);
  std::vector<int64_t> axes(const Axes& axes, int count);  // none: all
  Expr expr(const Dim& dim);
  std::vector<Expr> exprs(const Shape& shape);

  // --- nodes ---
  Tensor emit(TensorOp op, std::initializer_list<Tensor> operands, AttrList attrs = {}) {
    return emit(op, std::vector<Tensor>(operands), std::move(attrs));
  }
  Tensor emit(TensorOp op, const std::vector<Tensor>& operands, AttrList attrs = {}) {
    return checked([&] { return trace_->emit(op, operands, std::move(attrs), loc_); });
  }
  // As many tensors as the op has results, invalid ones after an error.
  template <size_t N>
  std::array<Tensor, N> emit_n(TensorOp op, std::initializer_list<Tensor> operands, AttrList attrs = {}) {
    std::array<Tensor, N> out;
    if (!ok()) return out;
    const auto results = trace_->emit_all(op, std::vector<Tensor>(operands), std::move(attrs), loc_);
    failed_ = results.size() != N;
    for (size_t i = 0; !failed_ && i < N; ++i) out[i] = results[i];
    return out;
  }
  Tensor reshape(const Tensor& x, std::vector<Expr> shape);
  Tensor permute(const Tensor& x, std::vector<int64_t> order);

 private:
  template <class Function>
  Tensor checked(const Function& function) {
    if (!ok()) return {};
    const Tensor out = function();
    failed_ = !out.valid();
    return out;
  }

  std::string_view what_;
  SourceLocation loc_;
  Trace* trace_;
  bool failed_ = false;
};

inline int64_t number_of(auto value) { return static_cast<int64_t>(value); }

}  // namespace kiln::graph

// Gradients of windows and resampling: each has its transpose in the table.
#include "differentiate/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// The attributes with another kind: WindowKind is sum, max, min; PickKind max, min.
AttrList with_kind(AttrList attrs, int64_t kind) {
  attrs[0] = kind;
  return attrs;
}
int64_t pick_kind(const AttrList& attrs) { return int_attr(attrs, 0) - 1; }

// Of sums x gives the shape alone: zeros do, on which nothing depends.
Tensor window_place(const Tensor& x, const AttrList& attrs) {
  return enum_attr<WindowKind>(attrs, 0) == WindowKind::kSum ? zeros_like(x) : x;
}

void window_rule(Adjoint& a) { a.give(0, a.emit(kWindowSpread, {window_place(a.x(), a.attrs()), a.g()}, a.attrs())); }

// x only says where the greatest stand, which small steps do not change.
void spread_rule(Adjoint& a) {
  if (!a.wants(1)) return;
  const bool sums = enum_attr<WindowKind>(a.attrs(), 0) == WindowKind::kSum;
  a.give(1, sums ? a.emit(kWindow, {a.g()}, a.attrs())
                 : a.emit(kWindowPick, {a.x(), a.g()}, with_kind(a.attrs(), pick_kind(a.attrs()))));
}
// In a type that has the order of x and the precision of t.
void pick_rule(Adjoint& a) {
  if (!a.wants(1)) return;
  const ElementType x = a.x(0).element(), t = a.x(1).element();
  const ElementType type = x == t ? x : x == f64 || t == f64 || !dsl::is_float(x) ? f64 : f32;
  const Tensor spread =
      a.emit(kWindowSpread, {cast(a.x(0), type), cast(a.g(), type)}, with_kind(a.attrs(), int_attr(a.attrs(), 0) + 1));
  a.give(1, cast(spread, t));
}

// Attributes of a pool, by spatial axis, for all axes of [N, C, …].
std::vector<int64_t> widened(const std::vector<int64_t>& spatial, int64_t otherwise) {
  std::vector<int64_t> out = {otherwise, otherwise};
  out.insert(out.end(), spatial.begin(), spatial.end());
  return out;
}
AttrList pool_window(Adjoint& a, WindowKind kind) {
  const std::vector<int64_t> ones(a.ints(0).size(), 1);
  return {static_cast<int64_t>(kind), widened(a.ints(0), 1), widened(a.ints(1), 1),
          widened(a.ints(2), 0),      widened(a.ints(3), 0), widened(a.op == kMaxPool ? a.ints(4) : ones, 1)};
}

void max_pool_rule(Adjoint& a) { a.give(0, a.emit(kWindowSpread, {a.x(), a.g()}, pool_window(a, WindowKind::kMax))); }
void avg_pool_rule(Adjoint& a) {
  const AttrList window = pool_window(a, WindowKind::kSum);
  Tensor over;
  if (flag_attr(a.attrs(), 4)) {
    double count = 1;
    for (const int64_t size : a.ints(0)) count *= static_cast<double>(size);
    over = a.g() / count;
  } else {
    // How many places of each window are inside; one where none is.
    over = a.g() / max(a.emit(kWindow, {ones_like(a.x())}, window), 1);
  }
  a.give(0, a.emit(kWindowSpread, {zeros_like(a.x()), over}, window));
}

void resize_rule(Adjoint& a) {
  const size_t count = shape_attr(a.attrs(), 0).size();
  std::vector<Expr> from = a.extents(a.x());
  from.erase(from.begin(), from.end() - static_cast<ptrdiff_t>(count));
  a.give(0, a.emit(a.op == kResize ? kResizeSpread : kResize, {a.g()}, {from, a.attrs()[1], a.attrs()[2]}));
}

}  // namespace

void add_window_rules(GradientTable& table) {
  table.rule(kWindow, window_rule);
  table.rule(kWindowSpread, spread_rule);
  table.rule(kWindowPick, pick_rule);
  table.rule(kMaxPool, max_pool_rule);
  table.rule(kAvgPool, avg_pool_rule);
  table.all(GradientKind::kRule, {kResize, kResizeSpread}, resize_rule);
}

}  // namespace kiln::graph

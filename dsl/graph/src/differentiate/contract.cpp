// Gradients of products and convolutions: products of the gradient with the other operand.
#include "differentiate/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

using Ints64 = std::vector<int64_t>;

// Axes that are neither batch nor contracted, in order.
Ints64 free_axes(size_t rank, const Ints64& batch, const Ints64& contract) {
  std::vector<bool> used(rank, false);
  for (const int64_t axis : batch) used[static_cast<size_t>(axis)] = true;
  for (const int64_t axis : contract) used[static_cast<size_t>(axis)] = true;
  Ints64 out;
  for (size_t i = 0; i < rank; ++i) {
    if (!used[i]) out.push_back(static_cast<int64_t>(i));
  }
  return out;
}

Ints64 counting(size_t first, size_t count) {
  Ints64 out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<int64_t>(first + i));
  return out;
}

// A gradient beside operands of another type: below 64 bits products add up in f32 anyway, so that operands of 16 bits
// stay what the hardware multiplies; those of 8 bits are too coarse for a gradient.
ElementType product_type(ElementType operand, ElementType g) { return dsl::info(operand).bits >= 16 ? operand : g; }

// The gradient of one operand, "own", of a dot with another.
Tensor dot_gradient(Adjoint& a, bool of_a) {
  const Ints64 &batch = a.ints(of_a ? 0 : 1), &contract = a.ints(of_a ? 2 : 3);
  const Ints64 &other_batch = a.ints(of_a ? 1 : 0), &other_contract = a.ints(of_a ? 3 : 2);
  const Tensor &own = a.x(of_a ? 0 : 1), &other = a.x(of_a ? 1 : 0);
  const Ints64 own_free = free_axes(a.extents(own).size(), batch, contract);
  const Ints64 other_free = free_axes(a.extents(other).size(), other_batch, other_contract);
  // Of g: batch axes, a's free ones, b's.
  const size_t batches = batch.size();
  const Ints64 g_other = counting(of_a ? batches + own_free.size() : batches, other_free.size());
  const ElementType type = product_type(own.element(), a.g().element());
  const Tensor product =
      a.emit(kDot, {cast(a.g(), type), cast(other, type)},
             {counting(0, batches), other_batch, g_other, other_free, own.element(), int_attr(a.attrs(), 5)});
  // Now: batch axes, own free ones, then the contracted ones in the order that the other operand has them.
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t i = 0; i < contract.size(); ++i) pairs.emplace_back(other_contract[i], contract[i]);
  std::sort(pairs.begin(), pairs.end());
  Ints64 axes = batch;
  axes.insert(axes.end(), own_free.begin(), own_free.end());
  for (const auto& [there, here] : pairs) axes.push_back(here);
  const Ints64 order = inverse_order(axes);
  return order == counting(0, order.size()) ? product : a.emit(kPermute, {product}, {order});
}

void dot_rule(Adjoint& a) {
  if (a.wants(0)) a.give(0, dot_gradient(a, true));
  if (a.wants(1)) a.give(1, dot_gradient(a, false));
}

// x […, in], w [out, in].
void linear_rule(Adjoint& a) {
  const auto rank = static_cast<int64_t>(a.extents(a.x()).size());
  const Ints64 rows = counting(0, static_cast<size_t>(rank - 1));
  const ElementType type = a.x().element();
  const auto product = [&](const Tensor& l, const Tensor& r, const Ints64& of_l, const Ints64& of_r) {
    return a.emit(kDot, {l, r}, {Ints64{}, Ints64{}, of_l, of_r, type, int64_t{0}});
  };
  if (a.wants(0)) a.give(0, product(a.g(), a.x(1), {rank - 1}, {0}));
  if (a.wants(1)) a.give(1, product(a.g(), a.x(0), rows, rows));
  if (a.wants(2)) a.give(2, sum_axes(a.g(), rows));
}

std::vector<Expr> spatial(const Adjoint& a, const Tensor& x) {
  std::vector<Expr> out = a.extents(x);
  out.erase(out.begin(), out.begin() + 2);
  return out;
}

// The attributes of one of the three with the extents in front, or without.
AttrList with_extents(const AttrList& plain, std::vector<Expr> extents) {
  AttrList out = {std::move(extents)};
  out.insert(out.end(), plain.begin(), plain.end());
  return out;
}

// conv, conv_input and conv_weight are one form, linear in x, w and g, seen from its three sides.
struct ConvForm {
  Adjoint& a;
  AttrList plain;
  Tensor forward(const Tensor& x, const Tensor& w) const { return a.emit(kConv, {x, w}, plain); }
  Tensor input(const Tensor& g, const Tensor& w, const Tensor& like) const {
    return a.emit(kConvInput, {g, w}, with_extents(plain, spatial(a, like)));
  }
  Tensor weight(const Tensor& x, const Tensor& g, const Tensor& like) const {
    return a.emit(kConvWeight, {x, g}, with_extents(plain, spatial(a, like)));
  }
};

void conv_rule(Adjoint& a) {
  const ConvForm form{a, a.attrs()};
  if (a.wants(0)) a.give(0, form.input(a.g(), a.x(1), a.x(0)));
  if (a.wants(1)) a.give(1, form.weight(a.x(0), a.g(), a.x(1)));
  if (!a.wants(2)) return;
  Ints64 axes = counting(0, a.extents(a.g()).size());
  axes.erase(axes.begin() + 1);
  a.give(2, sum_axes(a.g(), axes));
}
void conv_input_rule(Adjoint& a) {
  const ConvForm form{a, {a.attrs().begin() + 1, a.attrs().end()}};
  if (a.wants(0)) a.give(0, form.forward(a.g(), a.x(1)));
  if (a.wants(1)) a.give(1, form.weight(a.g(), a.x(0), a.x(1)));
}
void conv_weight_rule(Adjoint& a) {
  const ConvForm form{a, {a.attrs().begin() + 1, a.attrs().end()}};
  if (a.wants(0)) a.give(0, form.input(a.x(1), a.g(), a.x(0)));
  if (a.wants(1)) a.give(1, form.forward(a.x(0), a.g()));
}

}  // namespace

void add_contract_rules(GradientTable& table) {
  table.rule(kDot, dot_rule);
  table.rule(kLinear, linear_rule);
  table.all(GradientKind::kRule, {kConv, kConvBias}, conv_rule);
  table.rule(kConvInput, conv_input_rule);
  table.rule(kConvWeight, conv_weight_rule);
}

}  // namespace kiln::graph

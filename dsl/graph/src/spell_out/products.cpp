// A product as a multiplication of broadcast operands and a sum, in the type that it accumulates in.
#include "spell_out/spellings.h"

namespace kiln::graph {
namespace {

ElementType sum_type(ElementType a, ElementType b) {
  if (!dsl::is_float(a) && !dsl::is_float(b)) return i64;
  return a == f64 || b == f64 ? f64 : f32;
}

// [batch…, free a…, free b…, contracted…], with extents of 1 where an operand has no such axes.
Tensor spread(const Tensor& x, const Axes& batch, const Axes& contract, int before, int behind) {
  Axes order = batch;
  Axes free_axes;
  for (int axis = 0; axis < x.rank(); ++axis) {
    const bool is_free = std::find(batch.begin(), batch.end(), axis) == batch.end() &&
                         std::find(contract.begin(), contract.end(), axis) == contract.end();
    if (is_free) free_axes.push_back(axis);
  }
  order.insert(order.end(), free_axes.begin(), free_axes.end());
  order.insert(order.end(), contract.begin(), contract.end());
  Shape shape;
  for (const int axis : batch) shape.push_back(x.extent(axis));
  shape.insert(shape.end(), static_cast<size_t>(before), Dim(1));
  for (const int axis : free_axes) shape.push_back(x.extent(axis));
  shape.insert(shape.end(), static_cast<size_t>(behind), Dim(1));
  for (const int axis : contract) shape.push_back(x.extent(axis));
  return reshape(permute(x, order), shape);
}

// How many terms each sum has, where they are so few that they are written out; else 0. They are the last axis of `a`.
int64_t few_terms(const Tensor& a, const Axes& contract) {
  constexpr int64_t kMost = 16;
  if (contract.size() != 1) return 0;
  const auto terms = a.extent(a.rank() - 1).expr().as_constant();
  return terms && *terms <= kMost ? *terms : 0;
}

}  // namespace

std::vector<Tensor> spell_dot(const Composite& c) {
  const Axes batch_a = axes_of(c, 0), batch_b = axes_of(c, 1), contract_a = axes_of(c, 2), contract_b = axes_of(c, 3);
  const int free_a = c[0].rank() - static_cast<int>(batch_a.size() + contract_a.size());
  const int free_b = c[1].rank() - static_cast<int>(batch_b.size() + contract_b.size());
  const ElementType type = sum_type(c[0].element(), c[1].element());
  const Tensor a = spread(cast(c[0], type), batch_a, contract_a, 0, free_b);
  const Tensor b = spread(cast(c[1], type), batch_b, contract_b, free_a, 0);
  if (const int64_t terms = few_terms(a, contract_a); terms > 0) {
    Tensor out;
    for (int64_t k = 0; k < terms; ++k) {
      const Tensor part = squeeze(slice(a, -1, k, k + 1), {-1}) * squeeze(slice(b, -1, k, k + 1), {-1});
      out = out.valid() ? out + part : part;
    }
    return {cast(out, element_attr(c.attrs, 4))};
  }
  const Tensor products = a * b;
  Axes last;
  for (int i = products.rank() - static_cast<int>(contract_a.size()); i < products.rank(); ++i) last.push_back(i);
  const Tensor out = last.empty() ? products : sum(products, last);
  return {cast(out, element_attr(c.attrs, 4))};
}

}  // namespace kiln::graph

#include "aten/import/promote.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "kiln/graph/extents.h"
#include "trace/trace.h"

namespace kiln::graph::aten {
namespace {

int bits(ElementType type) { return dsl::info(type).bits; }
bool is_signed(ElementType type) { return dsl::info(type).is_signed; }

// Two of one kind.
ElementType wider(ElementType a, ElementType b) {
  if (a == b) return a;
  if (bits(a) != bits(b)) {
    const auto [narrow, large] = bits(a) < bits(b) ? std::pair(a, b) : std::pair(b, a);
    if (dsl::is_float(a) || is_signed(large) || !is_signed(narrow)) return large;
    return bits(large) == 8 ? i16 : bits(large) == 16 ? i32 : i64;
  }
  if (dsl::is_float(a)) return f32;
  return bits(a) == 8 ? i16 : bits(a) == 16 ? i32 : i64;
}

int kind(ElementType type) { return type == i1 ? 0 : dsl::is_float(type) ? 2 : 1; }

// The types of one sort of terms: tensors with axes, tensors without, numbers.
struct Sort {
  std::optional<ElementType> type;
  void add(ElementType other) { type = type ? promoted(*type, other) : other; }
  // With those that decide less: what is of a higher kind there.
  Sort over(const Sort& lower) const {
    if (!type) return lower;
    return lower.type && kind(*lower.type) > kind(*type) ? lower : *this;
  }
};

int64_t wrapped(int64_t number, ElementType type) {
  const int width = bits(type);
  if (width == 64) return number;
  const uint64_t low = static_cast<uint64_t>(number) << (64 - width);
  return is_signed(type) ? static_cast<int64_t>(low) >> (64 - width) : static_cast<int64_t>(low >> (64 - width));
}

double rounded(double number, ElementType type) {
  return dsl::double_from_bits(type, dsl::bits_from_double(type, number));
}

std::optional<double> number_of(const Term& term) {
  if (const auto* flag = std::get_if<bool>(&term)) return *flag ? 1 : 0;
  if (const auto* whole = std::get_if<int64_t>(&term)) return as_double(*whole);
  if (const auto* real = std::get_if<double>(&term)) return *real;
  return std::nullopt;
}

// Whether it is a number that f32 has and the small type has not.
bool loses(const Term& term, ElementType type) {
  const auto number = number_of(term);
  return number && !std::isnan(*number) && rounded(*number, type) != rounded(*number, f32);
}

}  // namespace

ElementType promoted(ElementType a, ElementType b) {
  if (kind(a) != kind(b)) return kind(a) > kind(b) ? a : b;
  return wider(a, b);
}

ElementType result_type(std::span<const Term* const> terms) {
  Sort axes, scalars, numbers;
  for (const Term* term : terms) {
    if (const auto* tensor = std::get_if<Tensor>(term)) {
      (tensor->rank() > 0 ? axes : scalars).add(tensor->element());
    } else {
      numbers.add(std::holds_alternative<bool>(*term) ? i1 : std::holds_alternative<double>(*term) ? f32 : i64);
    }
  }
  return axes.over(scalars.over(numbers)).type.value_or(f32);
}

ElementType as_real(ElementType type) { return dsl::is_float(type) ? type : f32; }

bool is_tensor(const Term& term) { return std::holds_alternative<Tensor>(term); }
bool is_real(const Term& term) {
  if (const auto* tensor = std::get_if<Tensor>(&term)) return is_float(*tensor);
  return std::holds_alternative<double>(term);
}

Tensor tensor_of(const Term& term) {
  if (const auto* tensor = std::get_if<Tensor>(&term)) return *tensor;
  const ElementType type = common(term);
  return full({}, as(term, type), type);
}

Operand as(const Term& term, ElementType type) {
  if (const auto* tensor = std::get_if<Tensor>(&term)) return as(*tensor, type);
  if (const auto* dim = std::get_if<Dim>(&term)) return *dim;
  if (dsl::is_float(type)) {
    const double number = *number_of(term);
    const double there = rounded(number, type);
    return std::isinf(there) ? there : number;
  }
  const auto* real = std::get_if<double>(&term);
  if (type == i1) return *number_of(term) != 0;
  const int64_t whole = real ? static_cast<int64_t>(*real) : static_cast<int64_t>(*number_of(term));
  const auto* exact = std::get_if<int64_t>(&term);
  const int64_t number = wrapped(exact ? *exact : whole, type);
  return type == u64 ? Operand(static_cast<uint64_t>(number)) : Operand(number);
}

Tensor binary(Binary op, const Term& a, const Term& b, std::optional<ElementType> type) {
  const ElementType to = type.value_or(common(a, b));
  if (dsl::is_small_float(to) && (loses(a, to) || loses(b, to))) return as(op(as(a, f32), as(b, f32)), to);
  if (!is_tensor(a) && !is_tensor(b)) return op(tensor_of(a), as(b, to));
  return op(as(a, to), as(b, to));
}

bool is_float(const Tensor& x) { return dsl::is_float(x.element()); }
Tensor wide(const Tensor& x) { return dsl::is_small_float(x.element()) ? cast(x, f32) : x; }
Term wide(const Term& x) {
  const auto* tensor = std::get_if<Tensor>(&x);
  return tensor ? Term(wide(*tensor)) : x;
}
Tensor as(const Tensor& x, ElementType type) { return !x.valid() || x.element() == type ? x : cast(x, type); }
Tensor like(const Tensor& y, const Tensor& x) { return as(y, x.element()); }
Tensor truth(const Tensor& x) { return x.element() == i1 ? x : x != 0; }

// --- extents ---

std::optional<int64_t> known(const Dim& dim) { return dim.expr().as_constant(); }

namespace {

// Both over the dims of the current graph, which declares them.
template <class Compare>
bool compared(const Dim& a, const Dim& b, const Compare& compare) {
  Trace* trace = Trace::current();
  if (!trace) return false;
  const auto left = trace->expr(a, "an extent", SourceLocation()),
             right = trace->expr(b, "an extent", SourceLocation());
  return left && right && compare(trace->graph().dims, *left, *right) == Known::kYes;
}

}  // namespace

bool same(const Dim& a, const Dim& b) {
  const auto left = known(a), right = known(b);
  if (left && right) return *left == *right;
  return compared(a, b, [](const auto& dims, const Expr& x, const Expr& y) { return equal(dims, x, y); });
}

bool at_most(const Dim& a, const Dim& b) {
  const auto left = known(a), right = known(b);
  if (left && right) return *left <= *right;
  return compared(a, b, [](const auto& dims, const Expr& x, const Expr& y) { return graph::at_most(dims, x, y); });
}

bool same(const Shape& a, const Shape& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Dim& x, const Dim& y) { return same(x, y); });
}

Dim product(std::span<const Dim> shape) {
  Dim out = 1;
  for (const Dim& each : shape) out = out * each;
  return out;
}

Shape broadcast_shape(const Shape& a, const Shape& b) {
  Shape out = a.size() >= b.size() ? a : b;
  const Shape& other = a.size() >= b.size() ? b : a;
  for (size_t i = 0; i < other.size(); ++i) {
    Dim& extent = out[out.size() - other.size() + i];
    if (known(extent) == 1) extent = other[i];
  }
  return out;
}

Shape with(Shape shape, int axis, Dim extent) {
  if (static_cast<size_t>(axis) < shape.size()) shape[static_cast<size_t>(axis)] = std::move(extent);
  return shape;
}
Shape without(Shape shape, int axis) {
  if (static_cast<size_t>(axis) < shape.size()) shape.erase(shape.begin() + axis);
  return shape;
}
Shape inserted(Shape shape, int axis, Dim extent) {
  const auto last = static_cast<int>(shape.size());
  shape.insert(shape.begin() + std::clamp(axis, 0, last), std::move(extent));
  return shape;
}

Tensor move_axis(const Tensor& x, int from, int to) {
  Axes order;
  for (int i = 0; i < x.rank(); ++i) {
    if (i != from) order.push_back(i);
  }
  const auto last = static_cast<int>(order.size());
  order.insert(order.begin() + std::clamp(to, 0, last), from);
  return permute(x, order);
}

Axes all_axes(int rank) {
  Axes out(static_cast<size_t>(rank));
  std::iota(out.begin(), out.end(), 0);
  return out;
}

Axes all_but(int rank, std::span<const int> axes) {
  Axes out;
  for (int i = 0; i < rank; ++i) {
    if (std::find(axes.begin(), axes.end(), i) == axes.end()) out.push_back(i);
  }
  return out;
}

}  // namespace kiln::graph::aten

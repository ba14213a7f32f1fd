// Functions that make tensors of none.
#include <cmath>
#include <numbers>

#include "trace/call.h"

namespace kiln::graph {
namespace {

Tensor filled(const char* what, ElementType type, const Shape& shape, int number, const SourceLocation& loc) {
  Call call(what, loc);
  const std::vector<Expr> extents = call.exprs(shape);
  return call.ok() ? number_tensor(call.trace(), Operand(number, loc), type, extents, what, loc) : Tensor();
}

Tensor filled_like(const char* what, const Operand& x, int number) {
  Call call(what, x);
  const TensorType type = call.type(call.tensor(x));
  if (!call.ok()) return {};
  return number_tensor(call.trace(), Operand(number, x.loc()), type.element, type.shape, what, x.loc());
}

// f32 in [0, 1), of the upper 24 bits.
Tensor unit(Call& call, const Tensor& words) {
  const SourceLocation& loc = call.loc();
  return cast(Operand(Operand(words, loc) >> Operand(8, loc), loc), f32) * Operand(0x1p-24, loc);
}

}  // namespace

Tensor full(Shape shape, Operand value, ElementType type) {
  Call call("full", value);
  const std::vector<Expr> extents = call.exprs(shape);
  return call.tensor_as(value, type, extents);
}

Tensor zeros(ElementType type, Shape shape, SourceLocation loc) { return filled("zeros", type, shape, 0, loc); }
Tensor ones(ElementType type, Shape shape, SourceLocation loc) { return filled("ones", type, shape, 1, loc); }
Tensor zeros_like(Operand x) { return filled_like("zeros_like", x, 0); }
Tensor ones_like(Operand x) { return filled_like("ones_like", x, 1); }

Tensor constant(ElementType type, Ints shape, const std::vector<double>& elements, SourceLocation loc) {
  Call call("constant", loc);
  uint64_t count = 1;
  for (const int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && count > (uint64_t{1} << 40) / static_cast<uint64_t>(extent))) {
      call.fail("an extent of " + std::to_string(extent));
      return {};
    }
    count *= static_cast<uint64_t>(extent);
  }
  if (count != elements.size()) {
    call.fail(std::to_string(elements.size()) + " elements for a shape of " + std::to_string(count));
    return {};
  }
  std::vector<uint64_t> data;
  data.reserve(elements.size());
  for (const double element : elements) data.push_back(dsl::bits_from_double(type, element));
  return call.emit(TensorOp::kConstant, {}, {type, std::vector<Expr>(shape.begin(), shape.end()), std::move(data)});
}

Tensor extent(Dim value, ElementType type, SourceLocation loc) {
  Call call("extent", loc);
  Expr expr = call.expr(value);
  return call.emit(TensorOp::kExtent, {}, {type, std::move(expr)});
}

Tensor iota(ElementType type, Shape shape, int axis, SourceLocation loc) {
  Call call("iota", loc);
  std::vector<Expr> extents = call.exprs(shape);
  const int64_t place = call.axis(axis, static_cast<int>(shape.size()));
  return call.emit(TensorOp::kIota, {}, {type, std::move(extents), place});
}

Tensor arange(Dim count, ElementType type, SourceLocation loc) { return iota(type, {std::move(count)}, 0, loc); }

Tensor philox(Operand seed, Operand offset, Shape shape) {
  Call call("philox", seed);
  const Tensor key = call.tensor_as(seed, u64), counter = call.tensor_as(offset, u64);
  std::vector<Expr> extents = call.exprs(shape);
  return call.emit(TensorOp::kPhilox, {key, counter}, {std::move(extents)});
}

Tensor uniform(Operand seed, Operand offset, Shape shape) {
  Call call("uniform", seed);
  if (!call.ok()) return {};
  const Trace::LineScope line(seed.loc());
  return unit(call, philox(seed, offset, std::move(shape)));
}

// sqrt(-2 ln(1 - u))·cos(2π v) of two words each: 1 - u is above 0.
Tensor normal(Operand seed, Operand offset, Shape shape) {
  Call call("normal", seed);
  if (!call.ok()) return {};
  const Trace::LineScope line(seed.loc());
  const int last = static_cast<int>(shape.size());
  shape.emplace_back(2);
  const Tensor words = philox(seed, offset, std::move(shape));
  if (!words.valid()) return {};
  const Tensor u = unit(call, squeeze(slice(words, last, 0, 1), {last}));
  const Tensor v = unit(call, squeeze(slice(words, last, 1, 2), {last}));
  const Tensor radius = sqrt(-2 * log(1 - u)), angle = v * (2 * std::numbers::pi);
  return radius * cos(angle);
}

}  // namespace kiln::graph

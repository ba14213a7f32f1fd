// Generators: products, orders, counts.
#include "families.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::Expr;
using dsl::OpCode;
using dsl::ValueId;

bool make_dot(Maker& maker, OpCode code) {
  ElementType a = maker.element();
  if (a == ElementType::kI1 || (dsl::is_int(a) && dsl::info(a).bits > 8)) {
    a = maker.has(ElementType::kI8) && maker.chance(2) ? ElementType::kI8 : maker.float_element();
  }
  ElementType b = a, accumulator = a == ElementType::kF64 ? a : ElementType::kF32;
  if (dsl::is_int(a)) {
    accumulator = ElementType::kI32;
    if (maker.chance(3)) b = a == ElementType::kI8 ? ElementType::kU8 : ElementType::kI8;
    if (!maker.has(b)) b = a;
  }
  auto small = [&] {
    if (maker.chance(4)) return Expr(static_cast<int64_t>(1 + maker.pick(3)));
    const Expr out = maker.extent();
    return maker.world.value(out) <= 40 ? out : Expr(static_cast<int64_t>(1 + maker.pick(17)));
  };
  const Expr m = small(), n = small(), k = small();
  Shape left = {m, k}, right = {k, n}, out = {m, n};
  if (maker.chance(4) && maker.options.max_rank >= 3) {
    const Expr batch(static_cast<int64_t>(1 + maker.pick(3)));
    for (Shape* shape : {&left, &right, &out}) shape->insert(shape->begin(), batch);
  }
  for (const Shape& shape : {left, right, out}) {
    if (!maker.fits(shape)) return false;
  }
  const Content content = maker.chance(2) ? Content::kTame : Content::kCounts;
  auto operand = [&](ElementType type, const Shape& shape) {
    return dsl::is_int(type) ? maker.value(type, shape) : maker.tame(type, shape, content);
  };
  // Operands that end along K before the tile does: mostly both, at one place.
  const auto there = static_cast<int64_t>(maker.pick(static_cast<size_t>(maker.world.value(k)) + 1));
  const ValueId end = maker.kernel.params[maker.new_scalar(ElementType::kI32, static_cast<uint64_t>(there))].value;
  const bool is_cut = maker.chance(3);
  auto factor = [&](ElementType type, const Shape& shape, size_t axis) {
    if (!is_cut || maker.chance(6)) return operand(type, shape);
    return maker.load_below(type, shape, axis, end, there, content);
  };
  const ValueId x = factor(a, left, left.size() - 1), y = factor(b, right, right.size() - 2);
  const ValueId acc = maker.chance(2) ? maker.splat(maker.constant(0, accumulator), out) : operand(accumulator, out);
  const int64_t precision = a == ElementType::kF32 ? int64_t(maker.pick(4)) : 0;
  const auto made = maker.emit(code, {x, y, acc}, {precision});
  if (made && maker.chance(3)) maker.emit(code, {x, y, *made}, {precision});
  return made.has_value();
}

bool make_dot_scaled(Maker& maker, OpCode code) {
  static const std::vector<ElementType> kTypes = {ElementType::kU8, ElementType::kF8E4M3, ElementType::kF8E5M2};
  const ElementType a = maker.one_of(kTypes), b = maker.one_of(kTypes);
  if (!maker.has(a) || !maker.has(b) || !maker.has(ElementType::kU8)) return false;
  const auto blocks = static_cast<int64_t>(1 + maker.pick(2));
  const auto m = static_cast<int64_t>(1 + maker.pick(9)), n = static_cast<int64_t>(1 + maker.pick(9));
  auto depth = [&](ElementType type) { return Expr(blocks * (type == ElementType::kU8 ? 16 : 32)); };
  auto operand = [&](ElementType type, const Shape& shape) {
    return type == ElementType::kU8 ? maker.load_new(type, shape, Content::kWhole)
                                    : maker.tame(type, shape, Content::kTame);
  };
  // From 2^-4 to 2^4.
  auto scale = [&](int64_t rows) {
    const Shape shape = {Expr(rows), Expr(blocks)};
    const ValueId number = maker.load_new(ElementType::kU8, shape, Content::kCounts);
    const ValueId half =
        maker.base(OpCode::kRem, {number, maker.splat(maker.constant(9, ElementType::kU8), shape)}, {});
    return maker.base(OpCode::kAdd, {half, maker.splat(maker.constant(123, ElementType::kU8), shape)}, {});
  };
  const ValueId x = operand(a, {Expr(m), depth(a)}), x_scale = scale(m);
  const ValueId y = operand(b, {depth(b), Expr(n)}), y_scale = scale(n);
  const ValueId acc = maker.tame(ElementType::kF32, {Expr(m), Expr(n)}, Content::kTame);
  return maker.emit(code, {x, x_scale, y, y_scale, acc}, {}).has_value();
}

bool make_order(Maker& maker, OpCode code) {
  if (code == OpCode::kHistogram) {
    Shape shape = maker.shape();
    if (shape.empty()) shape = {maker.extent()};
    const ElementType element = maker.int_element();
    const ValueId x = maker.chance(2) ? maker.index_below(1 + static_cast<int64_t>(maker.pick(20)), shape)
                                      : maker.value(element, shape);
    return maker.emit(code, {x}, {maker.extent()}).has_value();
  }
  const ValueId keys = maker.anything();
  const Shape shape = maker.type(keys).shape;
  if (shape.empty()) return false;
  const size_t axis = maker.pick(shape.size());
  if (code == OpCode::kTopk) {
    const int64_t extent = maker.sizes(shape)[axis];
    const Expr k =
        maker.chance(4) ? shape[axis] : Expr(1 + static_cast<int64_t>(maker.pick(static_cast<size_t>(extent))));
    return maker.emit(code, {keys}, {k, static_cast<int64_t>(axis), int64_t(maker.pick(2))}).has_value();
  }
  Operands operands = {keys};
  if (maker.chance(2)) operands.push_back(maker.value(maker.element(), shape, Level::kNear));
  return maker.emit(code, operands, {static_cast<int64_t>(axis), int64_t(maker.pick(2))}).has_value();
}

}  // namespace kiln::random_kernel

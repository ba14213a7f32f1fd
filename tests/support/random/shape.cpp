// Generators: making tiles and changing their shape.
#include <algorithm>
#include <numeric>

#include "families.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::Expr;
using dsl::OpCode;
using dsl::ValueId;

bool make_scalar(Maker& maker, OpCode code) {
  const ElementType element = maker.element();
  switch (code) {
    case OpCode::kProgramId:
    case OpCode::kNumPrograms:
      return maker.emit(code, {}, {int64_t(maker.pick(3))}).has_value();
    case OpCode::kConstant: {
      if (dsl::is_float(element) || element == ElementType::kI1 || maker.chance(2)) {
        maker.literal(element, random_bits(element, Content::kWhole, maker.random));
        return true;
      }
      const Expr number = maker.extent();
      if (maker.world.value(number) <= highest_int(element)) maker.constant(number, element);
      return true;
    }
    case OpCode::kArange: {
      const Expr start(static_cast<int64_t>(maker.pick(200)) - 100);
      return maker.emit(code, {}, {start, start + maker.extent()}).has_value();
    }
    default:
      return maker.emit(code, {maker.value(element, {}, Level::kNear)}, {maker.shape()}).has_value();
  }
}

namespace {

// As many elements in another shape: neighbours joined, extents split.
Shape reshaped(Maker& maker, const Shape& from) {
  if (maker.chance(4)) {
    Expr all(1);
    for (const Expr& extent : from) all = all * extent;
    return {all};
  }
  Shape out = from;
  if (out.size() > 1 && maker.chance(2)) {
    const size_t axis = maker.pick(out.size() - 1);
    out[axis] = out[axis] * out[axis + 1];
    out.erase(out.begin() + static_cast<ptrdiff_t>(axis) + 1);
  }
  const size_t axis = maker.pick(out.size() + 1);
  const int64_t extent = axis < out.size() ? maker.world.value(out[axis]) : 1;
  for (const int64_t factor : {7, 5, 3, 2, 4, 8}) {
    if (extent % factor != 0 || maker.chance(2)) continue;
    out[axis] = Expr(extent / factor);
    out.insert(out.begin() + static_cast<ptrdiff_t>(axis + maker.pick(2)), Expr(factor));
    return out;
  }
  out.insert(out.begin() + static_cast<ptrdiff_t>(axis), Expr(1));
  return out;
}

bool is_flat(const Maker& maker, const Shape& shape) {
  return shape.size() <= static_cast<size_t>(maker.options.max_rank);
}

}  // namespace

bool make_reshaped(Maker& maker, OpCode code) {
  switch (code) {
    case OpCode::kBroadcast: {
      const Shape to = maker.shape_of_rank(1);
      Shape from = to;
      for (Expr& extent : from) extent = maker.chance(2) ? Expr(1) : extent;
      return maker.emit(code, {maker.value(maker.element(), from, Level::kNear)}, {to}).has_value();
    }
    case OpCode::kExpandDims: {
      const ValueId x = maker.anything(Level::kNear);
      const auto rank = static_cast<size_t>(maker.type(x).rank());
      if (static_cast<int>(rank) >= maker.options.max_rank) return false;
      return maker.emit(code, {x}, {static_cast<int64_t>(maker.pick(rank + 1))}).has_value();
    }
    case OpCode::kReshape: {
      const ValueId x = maker.anything(Level::kNear);
      const Shape to = reshaped(maker, maker.type(x).shape);
      return is_flat(maker, to) && maker.emit(code, {x}, {to}).has_value();
    }
    default: {
      const ValueId x = maker.anything(Level::kNear);
      std::vector<int64_t> order(static_cast<size_t>(maker.type(x).rank()));
      std::iota(order.begin(), order.end(), int64_t{0});
      std::shuffle(order.begin(), order.end(), maker.random);
      return maker.emit(code, {x}, {Shape(order.begin(), order.end())}).has_value();
    }
  }
}

bool make_joined(Maker& maker, OpCode code) {
  const ElementType element = maker.element();
  Shape shape = maker.shape();
  if (code == OpCode::kCat) {
    if (shape.empty()) return false;
    const size_t axis = maker.pick(shape.size());
    Shape other = shape;
    other[axis] = maker.extent();
    Shape both = shape;
    both[axis] = shape[axis] + other[axis];
    if (!maker.fits(both)) return false;
    const ValueId first = maker.value(element, shape, Level::kNear);
    return maker.emit(code, {first, maker.value(element, other, Level::kNear)}, {static_cast<int64_t>(axis)})
        .has_value();
  }
  Shape both = shape;
  both.emplace_back(2);
  if (!maker.fits(both)) return false;
  if (code == OpCode::kSplit) return maker.emit(code, {maker.value(element, both, Level::kNear)}, {}).has_value();
  const ValueId first = maker.value(element, shape, Level::kNear);
  const auto joined = maker.emit(code, {first, maker.value(element, shape, Level::kNear)}, {});
  if (!joined || shape.empty() || maker.chance(2)) return joined.has_value();
  // Side by side along what was the last axis.
  shape.back() = shape.back() * 2;
  if (maker.fits(shape)) (void)maker.emit(OpCode::kReshape, {*joined}, {shape});
  return true;
}

bool make_part(Maker& maker, OpCode code) {
  const ValueId x = maker.anything(Level::kNear);
  Shape shape = maker.type(x).shape;
  if (shape.empty()) return false;
  const size_t axis = maker.pick(shape.size());
  const int64_t extent = maker.sizes(shape)[axis];
  if (code == OpCode::kSlice) {
    const auto start = static_cast<int64_t>(maker.pick(static_cast<size_t>(extent)));
    const int64_t end = start + 1 + static_cast<int64_t>(maker.pick(static_cast<size_t>(extent - start)));
    const Expr last = end == extent ? shape[axis] : Expr(end);
    return maker.emit(code, {x}, {static_cast<int64_t>(axis), Expr(start), last}).has_value();
  }
  shape[axis] = maker.extent();
  if (!maker.fits(shape)) return false;
  return maker.emit(code, {x, maker.index_below(extent, shape)}, {static_cast<int64_t>(axis)}).has_value();
}

}  // namespace kiln::random_kernel

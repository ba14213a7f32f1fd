// The generator's types and values.
#include <algorithm>
#include <stdexcept>

#include "maker.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::Expr;
using dsl::OpCode;
using dsl::ValueId;

std::vector<int64_t> Maker::sizes(const Shape& shape) const {
  return world.shape(dsl::tile_type(ElementType::kI1, shape));
}
int64_t Maker::count(const Shape& shape) const { return world.count(dsl::tile_type(ElementType::kI1, shape)); }

bool Maker::fits(const Shape& shape) const {
  if (static_cast<int>(shape.size()) > options.max_rank) return false;
  for (const int64_t size : sizes(shape)) {
    if (size > options.max_extent) return false;
  }
  return count(shape) <= options.max_elements;
}

Expr Maker::extent() { return one_of(extents_); }

Shape Maker::shape_of_rank(int least) {
  least = std::min(least, options.max_rank);
  const int more = options.max_rank - least;
  const auto rank = static_cast<size_t>(least + (chance(3) ? static_cast<int>(pick(static_cast<size_t>(more) + 1))
                                                           : std::min(more, static_cast<int>(pick(2)))));
  for (int attempt = 0; attempt < 20; ++attempt) {
    Shape out;
    for (size_t i = 0; i < rank; ++i) out.push_back(extent());
    if (fits(out)) return out;
  }
  Shape out(rank, Expr(1));
  for (Expr& e : out) {
    if (chance(2)) e = Expr(2);
  }
  return out;
}

Shape Maker::shape() { return chance(8) ? shape_of_rank(0) : one_of(shapes_); }

bool Maker::has(ElementType element) const {
  return std::find(elements_.begin(), elements_.end(), element) != elements_.end();
}

ElementType Maker::element() { return one_of(elements_); }

ElementType Maker::int_element() {
  for (int attempt = 0; attempt < 8; ++attempt) {
    const ElementType out = element();
    if (dsl::is_int(out) && out != ElementType::kI1) return out;
  }
  return ElementType::kI32;
}

ElementType Maker::float_element() {
  for (int attempt = 0; attempt < 12; ++attempt) {
    const ElementType out = element();
    if (dsl::is_float(out)) return out;
  }
  return ElementType::kF32;
}

ValueId Maker::constant(int64_t number, ElementType element) {
  return base(OpCode::kConstant, {}, {dsl::Literal{dsl::bits_from_int(element, number)}, element});
}

ValueId Maker::constant(const Expr& number, ElementType element) {
  return base(OpCode::kConstant, {}, {number, element});
}

ValueId Maker::literal(ElementType element, uint64_t bits) {
  return base(OpCode::kConstant, {}, {dsl::Literal{bits}, element});
}

ValueId Maker::splat(ValueId scalar, const Shape& shape) {
  return shape.empty() ? scalar : base(OpCode::kSplat, {scalar}, {shape});
}

ValueId Maker::along(const Shape& shape, size_t axis) {
  ValueId out = base(OpCode::kArange, {}, {Expr(0), shape[axis]});
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i != axis) out = base(OpCode::kExpandDims, {out}, {static_cast<int64_t>(i)});
  }
  return shape.size() == 1 ? out : base(OpCode::kBroadcast, {out}, {shape});
}

ValueId Maker::index(const Shape& shape) {
  if (shape.empty()) return constant(0);
  ValueId sum = dsl::kNoValue;
  Expr stride(1);
  for (size_t axis = shape.size(); axis-- > 0;) {
    ValueId part = along(shape, axis);
    if (!(stride == Expr(1))) {
      part = base(OpCode::kMul, {part, splat(constant(stride, ElementType::kI32), shape)}, {});
    }
    sum = sum == dsl::kNoValue ? part : base(OpCode::kAdd, {sum, part}, {});
    stride = stride * shape[axis];
  }
  return sum;
}

ValueId Maker::index_below(int64_t bound, const Shape& shape) {
  // Not of f8-like narrow ints: the bound must be one of their numbers.
  ElementType element = int_element();
  if (highest_int(element) < bound) element = ElementType::kI32;
  if (bound == 1 || chance(8))
    return splat(constant(static_cast<int64_t>(pick(static_cast<size_t>(bound))), element), shape);
  // rem of what may be negative is negative; the square of the sign bit's absence is the range itself.
  const ElementType whole = dsl::info(element).is_signed && !chance(2) ? element : ElementType::kU32;
  ValueId out = value(whole, shape);
  out = base(OpCode::kRem, {out, splat(constant(bound, whole), shape)}, {});
  if (fact(out).low < 0) {
    out = base(OpCode::kAdd, {out, splat(constant(bound - 1, whole), shape)}, {});
    if (fact(out).may_wrap) return splat(constant(0, element), shape);
    out = base(OpCode::kDiv, {out, splat(constant(2, whole), shape)}, {});
  }
  return whole == element ? out : base(OpCode::kCast, {out}, {element});
}

ValueId Maker::mask(const Shape& shape) {
  const ElementType i1 = ElementType::kI1;
  auto compare = [&](ValueId number, int64_t bound, dsl::Predicate predicate) {
    const ValueId limit = splat(constant(bound), shape);
    return base(OpCode::kCmp, {number, limit}, {static_cast<int64_t>(predicate)});
  };
  if (shape.empty()) return chance(2) ? literal(i1, pick(2)) : load_new(i1, shape, Content::kWhole);
  const size_t axis = pick(shape.size());
  const int64_t extent = sizes(shape)[axis];
  const auto cut = static_cast<int64_t>(pick(static_cast<size_t>(extent) + 2));
  switch (pick(7)) {
    case 0:
      return splat(literal(i1, pick(2)), shape);
    case 1:
      return load_new(i1, shape, Content::kWhole);
    case 2:
      return compare(along(shape, axis), cut, dsl::Predicate::kLt);
    case 3: {  // a window
      const ValueId low = compare(along(shape, axis), cut / 2, dsl::Predicate::kGe);
      return base(OpCode::kAnd, {low, compare(along(shape, axis), cut, dsl::Predicate::kLt)}, {});
    }
    case 4: {  // every other
      const ValueId rest = base(OpCode::kRem, {index(shape), splat(constant(2), shape)}, {});
      return compare(rest, static_cast<int64_t>(pick(2)), dsl::Predicate::kEq);
    }
    case 5: {  // up to a number known at the launch only
      const size_t param = new_scalar(ElementType::kI32, static_cast<uint64_t>(cut));
      const ValueId limit = splat(kernel.params[param].value, shape);
      return base(OpCode::kCmp, {along(shape, axis), limit}, {static_cast<int64_t>(dsl::Predicate::kLt)});
    }
    default:
      return value(i1, shape);
  }
}

ValueId Maker::fresh(ElementType element, const Shape& shape) {
  switch (pick(6)) {
    case 0:
      return splat(literal(element, random_bits(element, Content::kWhole, random)), shape);
    case 1:
      return splat(kernel.params[new_scalar(element, random_bits(element, Content::kWhole, random))].value, shape);
    case 2:
      if (element == ElementType::kI1) return mask(shape);
      if (element == ElementType::kI32) return index(shape);
      [[fallthrough]];
    default: {
      static const std::vector<Content> kContents = {Content::kWhole, Content::kWhole, Content::kTame,
                                                     Content::kCounts};
      return load_new(element, shape, one_of(kContents));
    }
  }
}

ValueId Maker::value(ElementType element, const Shape& shape, Level level) {
  std::vector<ValueId> fitting;
  const std::vector<int64_t> wanted = sizes(shape);
  for (const ValueId id : scope) {
    if (type(id).is_value() && type(id).element == element && facts[id].level <= level &&
        world.shape(type(id)) == wanted) {
      fitting.push_back(id);
    }
  }
  // Recent values more often: long chains.
  if (fitting.size() > 4 && chance(2)) fitting.erase(fitting.begin(), fitting.end() - 4);
  return fitting.empty() || chance(8) ? fresh(element, shape) : one_of(fitting);
}

ValueId Maker::tame(ElementType element, const Shape& shape, Content content) {
  std::vector<ValueId> fitting;
  const std::vector<int64_t> wanted = sizes(shape);
  for (const ValueId id : scope) {
    const bool is_tame = type(id).is_value() && type(id).element == element && facts[id].level <= Level::kValue &&
                         facts[id].bound <= 16 && (facts[id].integral || content == Content::kTame);
    if (is_tame && world.shape(type(id)) == wanted) fitting.push_back(id);
  }
  return fitting.empty() || chance(4) ? load_new(element, shape, content) : one_of(fitting);
}

ValueId Maker::anything(Level level) {
  std::vector<ValueId> fitting;
  for (const ValueId id : scope) {
    if (type(id).is_value() && facts[id].level <= level && has(type(id).element)) fitting.push_back(id);
  }
  return fitting.empty() || chance(8) ? fresh(element(), shape()) : one_of(fitting);
}

}  // namespace kiln::random_kernel

// Generators: ops on lanes.
#include "families.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::MathFn;
using dsl::OpCode;
using dsl::ValueId;

bool make_arithmetic(Maker& maker, OpCode code) {
  ElementType element = maker.element();
  if (code == OpCode::kFma) element = maker.float_element();
  if (code == OpCode::kMulhi || element == ElementType::kI1) element = maker.int_element();
  const Shape shape = maker.shape();
  const ValueId first = maker.value(element, shape);
  if (code == OpCode::kNeg || code == OpCode::kAbs) return maker.emit(code, {first}, {}).has_value();
  const ValueId second = maker.value(element, shape);
  if (code == OpCode::kFma) return maker.emit(code, {first, second, maker.value(element, shape)}, {}).has_value();
  Attrs attrs;
  if (code == OpCode::kMin || code == OpCode::kMax) attrs = {int64_t(maker.pick(2))};
  if (code == OpCode::kDiv) attrs = {int64_t(maker.chance(8))};
  const auto made = maker.emit(code, {first, second}, attrs);
  // What contraction looks for.
  if (made && code == OpCode::kMul && dsl::is_float(element) && maker.chance(3)) {
    maker.emit(OpCode::kAdd, {*made, maker.value(element, shape)}, {});
  }
  return made.has_value();
}

bool make_bits(Maker& maker, OpCode code) {
  const bool is_shift = code == OpCode::kShl || code == OpCode::kShr;
  const ElementType element = !is_shift && maker.chance(3) ? ElementType::kI1 : maker.int_element();
  const Shape shape = maker.shape();
  const ValueId first = maker.value(element, shape);
  ValueId second = maker.value(element, shape);
  if (is_shift && maker.chance(2)) {  // mostly amounts that leave something
    const int64_t amount = static_cast<int64_t>(maker.pick(static_cast<size_t>(dsl::info(element).bits) + 2));
    second = maker.splat(maker.constant(amount, element), shape);
  }
  return maker.emit(code, {first, second}, {}).has_value();
}

bool make_compare(Maker& maker, OpCode code) {
  const ElementType element = maker.element();
  const Shape shape = maker.shape();
  const ValueId first = maker.value(element, shape);
  return maker.emit(code, {first, maker.value(element, shape)}, {int64_t(maker.pick(6))}).has_value();
}

bool make_select(Maker& maker, OpCode code) {
  const ElementType element = maker.element();
  const Shape shape = maker.shape();
  const ValueId condition = maker.value(ElementType::kI1, shape);
  const ValueId first = maker.value(element, shape, Level::kNear);
  return maker.emit(code, {condition, first, maker.value(element, shape, Level::kNear)}, {}).has_value();
}

bool make_math(Maker& maker, OpCode code) {
  const ElementType element = maker.float_element();
  const Shape shape = maker.shape();
  const auto fn = static_cast<MathFn>(maker.pick(static_cast<size_t>(MathFn::kIsinf) + 1));
  Operands operands = {maker.value(element, shape, fn == MathFn::kSignbit ? Level::kBits : Level::kAnyZero)};
  if (dsl::math_arity(fn) == 2) {
    operands.push_back(maker.value(element, shape, fn == MathFn::kCopysign ? Level::kBits : Level::kValue));
  }
  return maker.emit(code, operands, {static_cast<int64_t>(fn)}).has_value();
}

bool make_cast(Maker& maker, OpCode code) {
  const ValueId from = maker.anything(Level::kNear);
  const ElementType element = maker.type(from).element, to = maker.element();
  const bool to_f8 = dsl::is_float(to) && dsl::info(to).bits == 8;
  Operands operands = {from};
  Attrs attrs = {to, int64_t{0}, int64_t{!(to_f8 && maker.chance(3))}};
  if (dsl::is_float(element) && element != ElementType::kF64 && dsl::is_small_float(to) && maker.chance(3)) {
    // A copy: the list of values grows meanwhile.
    operands.push_back(maker.value(ElementType::kU32, Shape(maker.type(from).shape)));
    attrs[1] = int64_t{1};
  }
  return maker.emit(code, operands, attrs).has_value();
}

bool make_bitcast(Maker& maker, OpCode code) {
  const ValueId from = maker.anything(Level::kBits);
  std::vector<ElementType> same;
  for (uint8_t i = 0; i < dsl::kElementTypeCount; ++i) {
    const auto to = static_cast<ElementType>(i);
    if (dsl::info(to).bits == dsl::info(maker.type(from).element).bits && maker.has(to)) same.push_back(to);
  }
  return !same.empty() && maker.emit(code, {from}, {maker.one_of(same)}).has_value();
}

bool make_philox(Maker& maker, OpCode code) {
  const Shape shape = maker.shape();
  const ValueId seed = maker.value(ElementType::kU64, shape);
  return maker.emit(code, {seed, maker.value(ElementType::kU64, shape)}, {}).has_value();
}

}  // namespace kiln::random_kernel

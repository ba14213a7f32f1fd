// Generators: loads, stores and atomics behind pointers.
#include "families.h"

namespace kiln::random_kernel {

using dsl::AtomicKind;
using dsl::ElementType;
using dsl::OpCode;
using dsl::ValueId;

namespace {

// Any element of a new buffer for each lane: several lanes may read one.
bool make_scattered_load(Maker& maker, ElementType element, const Shape& shape) {
  const int64_t elements = 1 + static_cast<int64_t>(maker.pick(100));
  const size_t param = maker.new_buffer(element, elements, true, true, Content::kWhole);
  const ValueId base = maker.splat(maker.kernel.params[param].value, shape);
  Operands operands = {*maker.emit(OpCode::kAddptr, {base, maker.index_below(elements, shape)}, {})};
  if (maker.chance(2)) {
    operands.push_back(maker.mask(shape));
    if (maker.chance(2)) operands.push_back(maker.value(element, shape));
  }
  return maker.emit(OpCode::kLoad, operands, {int64_t(maker.pick(3)), int64_t(maker.pick(3))}).has_value();
}

}  // namespace

bool make_load(Maker& maker, OpCode) {
  const ElementType element = maker.element();
  const Shape shape = maker.shape();
  if (maker.chance(2)) return make_scattered_load(maker, element, shape);
  const size_t param = maker.shared_buffer(element);
  Operands operands = {maker.pointers(maker.part_of(param, maker.options.max_elements), shape)};
  if (maker.chance(2)) {
    operands.push_back(maker.mask(shape));
    if (maker.chance(2)) operands.push_back(maker.value(element, shape));
  }
  return maker.emit(OpCode::kLoad, operands, {}).has_value();
}

bool make_store(Maker& maker, OpCode) { return maker.store(maker.anything(Level::kNear)); }

bool make_atomic(Maker& maker, OpCode code) {
  const ElementType element = code == OpCode::kAtomicCas || maker.chance(2) ? maker.int_element() : maker.element();
  if (element == ElementType::kI1) return false;
  const Shape shape = maker.shape();
  const int64_t lanes = maker.count(shape);
  const int64_t order = int64_t(maker.pick(4)), scope = int64_t(maker.pick(3));
  const auto kind = static_cast<AtomicKind>(maker.pick(dsl::is_float(element) ? 1 : 7));
  // Of ints that meet at one address all orders give the same sum, but each sees another old value.
  const bool meet =
      code == OpCode::kAtomicRmw && !dsl::is_float(element) && kind != AtomicKind::kXchg && maker.chance(2);
  const size_t param = maker.new_buffer(
      element, lanes * maker.world.grid[0] * maker.world.grid[1] * maker.world.grid[2], false, true, Content::kCounts);
  const ValueId part = maker.part_of(param, lanes);
  Operands operands;
  if (meet) {
    const ValueId number = maker.index_below(lanes, shape);
    operands = {*maker.emit(OpCode::kAddptr, {maker.splat(part, shape), number}, {})};
  } else {
    operands = {maker.pointers(part, shape)};
  }
  if (code == OpCode::kAtomicCas) operands.push_back(maker.tame(element, shape, Content::kCounts));
  operands.push_back(maker.value(element, shape, dsl::is_float(element) ? Level::kValue : Level::kBits));
  if (maker.chance(3)) operands.push_back(maker.mask(shape));
  Attrs attrs = {static_cast<int64_t>(kind), order, scope};
  if (code == OpCode::kAtomicCas) attrs.erase(attrs.begin());
  const auto made = maker.emit(code, operands, attrs);
  if (made && meet) std::erase(maker.scope, *made);
  return made.has_value();
}

}  // namespace kiln::random_kernel

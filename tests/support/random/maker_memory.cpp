// The generator's memory: each program reads and writes its own part of a buffer, so none depends on another.
#include <algorithm>
#include <numeric>

#include "maker.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::Expr;
using dsl::OpCode;
using dsl::ValueId;

size_t Maker::new_scalar(ElementType element, uint64_t bits) {
  const size_t param = kernel.params.size();
  const dsl::Type type = dsl::scalar_type(element);
  const std::string name = "n" + std::to_string(param);
  kernel.values.push_back({type, name});
  kernel.params.push_back({name, type, false, static_cast<ValueId>(kernel.values.size() - 1), false});
  inputs.push_back(scalar(bits));
  world.loaded.push_back(false);
  facts.push_back(world.argument(param));
  return param;
}

size_t Maker::new_buffer(ElementType element, int64_t elements, bool readonly, bool read, Content content) {
  const size_t param = kernel.params.size();
  const dsl::Type type{element, true, {}};
  const std::string name = (readonly ? "in" : read ? "both" : "out") + std::to_string(param);
  kernel.values.push_back({type, name});
  kernel.params.push_back({name, type, readonly, static_cast<ValueId>(kernel.values.size() - 1), chance(10)});
  inputs.push_back(random_buffer(element, static_cast<size_t>(elements), content, random));
  world.loaded.push_back(read);
  facts.push_back(world.argument(param));
  return param;
}

ValueId Maker::part_of(size_t param, int64_t elements) {
  const ValueId pointer = kernel.params[param].value;
  if (programs_ == 1 && chance(2)) return pointer;
  const ElementType wide = chance(2) ? ElementType::kI32 : ElementType::kI64;
  const ValueId program = wide == ElementType::kI32 ? program_ : base(OpCode::kCast, {program_}, {wide});
  const ValueId offset = base(OpCode::kMul, {program, constant(elements, wide)}, {});
  return base(OpCode::kAddptr, {pointer, offset}, {});
}

ValueId Maker::pointers(ValueId part, const Shape& shape) {
  if (shape.empty()) return part;
  ValueId number = dsl::kNoValue;
  if (shape.size() > 1 && chance(4)) {  // another order of the axes in memory
    std::vector<size_t> order(shape.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    Expr stride(1);
    for (const size_t axis : order) {
      const ValueId scale = splat(constant(stride, ElementType::kI32), shape);
      const ValueId scaled = base(OpCode::kMul, {along(shape, axis), scale}, {});
      number = number == dsl::kNoValue ? scaled : base(OpCode::kAdd, {number, scaled}, {});
      stride = stride * shape[axis];
    }
  } else {
    number = index(shape);
  }
  if (chance(6)) number = base(OpCode::kSub, {splat(constant(count(shape) - 1), shape), number}, {});
  if (chance(3)) number = base(OpCode::kCast, {number}, {ElementType::kI64});
  return base(OpCode::kAddptr, {splat(part, shape), number}, {});
}

ValueId Maker::load_new(ElementType element, const Shape& shape, Content content) {
  const int64_t lanes = count(shape);
  const bool is_shared = chance(3);   // all programs read the same
  if (!shape.empty() && chance(4)) {  // a buffer that ends inside of the tile
    const auto there = lanes - static_cast<int64_t>(pick(static_cast<size_t>(std::min(lanes, kSlack + 1))));
    const size_t param = new_buffer(element, there, true, true, content);
    const ValueId number = index(shape);
    const ValueId bound =
        chance(2) ? constant(there) : kernel.params[new_scalar(ElementType::kI32, static_cast<uint64_t>(there))].value;
    const ValueId mask = base(OpCode::kCmp, {number, splat(bound, shape)}, {static_cast<int64_t>(dsl::Predicate::kLt)});
    const ValueId where = base(OpCode::kAddptr, {splat(kernel.params[param].value, shape), number}, {});
    Operands operands = {where, mask};
    if (chance(2)) operands.push_back(splat(literal(element, random_bits(element, content, random)), shape));
    return base(OpCode::kLoad, operands, {int64_t(pick(3)), int64_t(pick(3))});
  }
  const size_t param = new_buffer(element, is_shared ? lanes : lanes * programs_, true, true, content);
  const ValueId part = is_shared ? kernel.params[param].value : part_of(param, lanes);
  return base(OpCode::kLoad, {pointers(part, shape)}, {});
}

ValueId Maker::load_below(ElementType element, const Shape& shape, size_t axis, ValueId bound, int64_t there,
                          Content content) {
  const int64_t row = count(shape) / sizes(shape)[axis];
  const size_t param = new_buffer(element, std::max<int64_t>(row * there, 1), true, true, content);
  // The axis comes first in memory, the others follow in their order.
  ValueId number = dsl::kNoValue;
  Expr stride(1);
  const auto add = [&](size_t dim) {
    const ValueId part = base(OpCode::kMul, {along(shape, dim), splat(constant(stride, ElementType::kI32), shape)}, {});
    number = number == dsl::kNoValue ? part : base(OpCode::kAdd, {number, part}, {});
    stride = stride * shape[dim];
  };
  for (size_t dim = shape.size(); dim-- > 0;) {
    if (dim != axis) add(dim);
  }
  add(axis);
  const ValueId mask =
      base(OpCode::kCmp, {along(shape, axis), splat(bound, shape)}, {static_cast<int64_t>(dsl::Predicate::kLt)});
  return base(OpCode::kLoad, {base(OpCode::kAddptr, {splat(kernel.params[param].value, shape), number}, {}), mask}, {});
}

size_t Maker::shared_buffer(ElementType element) {
  for (const size_t param : shared_) {
    if (kernel.params[param].type.element == element) return param;
  }
  shared_.push_back(new_buffer(element, options.max_elements * programs_, false, true, Content::kWhole));
  return shared_.back();
}

bool Maker::store(ValueId stored) {
  const Shape shape = type(stored).shape;
  const ElementType element = type(stored).element;
  const int64_t lanes = count(shape);
  const Fact& about = fact(stored);
  const bool in_place = about.level <= (dsl::is_float(element) ? Level::kValue : Level::kBits) && chance(3);
  const size_t param =
      in_place ? shared_buffer(element) : new_buffer(element, lanes * programs_, false, false, Content::kWhole);
  Operands operands = {pointers(part_of(param, in_place ? options.max_elements : lanes), shape), stored};
  if (chance(3)) operands.push_back(mask(shape));
  return emit(OpCode::kStore, operands, {int64_t(pick(3))}).has_value();
}

}  // namespace kiln::random_kernel

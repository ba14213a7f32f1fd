// Generators: memory behind descriptors. An array of its own for each program, and blocks that lie partly outside.
#include "families.h"

namespace kiln::random_kernel {

using dsl::AtomicKind;
using dsl::ElementType;
using dsl::Expr;
using dsl::OpCode;
using dsl::ValueId;

namespace {

struct View {
  ElementType element;
  Shape block;
  std::vector<int64_t> extents;
  std::vector<ElementType> numbers = {};
  int64_t size = 0;  // elements of memory behind it
  Operands dims = {};
};

ElementType number_type(Maker& maker) {
  static const std::vector<ElementType> kTypes = {ElementType::kI32, ElementType::kI64, ElementType::kI32};
  return maker.one_of(kTypes);
}

// Extents near the block's, strides with gaps.
View make_view(Maker& maker, ElementType element, const Shape& block) {
  View view{element, block, {}};
  for (const int64_t size : maker.sizes(block)) {
    const auto extra = static_cast<int64_t>(maker.pick(static_cast<size_t>(size) + 4));
    view.extents.push_back(std::max<int64_t>(1, size / 2 + extra));
  }
  if (maker.count(block) > 200) view.extents = maker.sizes(block);
  std::vector<int64_t> strides(view.extents.size());
  int64_t stride = 1;
  for (size_t axis = strides.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= view.extents[axis];
    if (axis != 0) stride += static_cast<int64_t>(maker.pick(3));
  }
  view.size = stride;
  for (const int64_t extent : view.extents) view.dims.push_back(maker.constant(extent, number_type(maker)));
  for (size_t axis = 0; axis + 1 < strides.size(); ++axis) {
    view.dims.push_back(maker.constant(strides[axis], number_type(maker)));
  }
  return view;
}

Maker::Made make_descriptor(Maker& maker, const View& view, bool writes, Content content) {
  const int64_t programs = maker.world.grid[0] * maker.world.grid[1] * maker.world.grid[2];
  const size_t param = maker.new_buffer(view.element, view.size * programs, !writes, !writes, content);
  Operands operands = {maker.part_of(param, view.size)};
  operands.insert(operands.end(), view.dims.begin(), view.dims.end());
  const bool nan = !writes && dsl::is_float(view.element) && maker.chance(3);
  return maker.emit(OpCode::kDescriptor, operands, {view.block, int64_t{nan}});
}

// From wholly before to wholly behind, mostly in part.
Operands offsets(Maker& maker, const View& view) {
  Operands out;
  const std::vector<int64_t> block = maker.sizes(view.block);
  for (size_t axis = 0; axis < block.size(); ++axis) {
    const auto range = static_cast<size_t>(view.extents[axis] + block[axis] / 2 + 1);
    const int64_t offset = maker.chance(2) ? 0 : static_cast<int64_t>(maker.pick(range)) - block[axis] / 2;
    out.push_back(maker.constant(offset, number_type(maker)));
  }
  return out;
}

bool make_gather_rows(Maker& maker) {
  const ElementType element = maker.element();
  const View view = make_view(maker, element, {Expr(1), maker.extent()});
  const auto array = make_descriptor(maker, view, false, Content::kWhole);
  if (!array) return false;
  const Shape rows = {maker.extent()};
  if (!maker.fits({rows[0], view.block[1]})) return false;
  // Some rows are beyond the array's.
  const ValueId numbers = maker.index_below(view.extents[0] + 2, rows);
  const ValueId column = offsets(maker, view)[1];
  return maker.emit(OpCode::kGatherRows, {*array, numbers, column}, {}).has_value();
}

}  // namespace

bool make_described(Maker& maker, OpCode code) {
  if (code == OpCode::kGatherRows) return make_gather_rows(maker);
  ElementType element = maker.element();
  if (code == OpCode::kReduceTile && element == ElementType::kI1) element = maker.int_element();
  Shape block = maker.shape();
  if (block.empty()) block = {maker.extent()};
  const View view = make_view(maker, element, block);
  const bool writes = code == OpCode::kStoreTile || (code == OpCode::kReduceTile);
  static const std::vector<Content> kContents = {Content::kWhole, Content::kTame, Content::kCounts};
  if (!writes) {
    const auto array = make_descriptor(maker, view, false, maker.one_of(kContents));
    if (!array) return false;
    Operands operands = {*array};
    const Operands at = offsets(maker, view);
    operands.insert(operands.end(), at.begin(), at.end());
    return maker.emit(OpCode::kLoadTile, operands, {}).has_value();
  }
  const bool is_float = dsl::is_float(element);
  const Level level = is_float && code == OpCode::kStoreTile ? Level::kNear : is_float ? Level::kValue : Level::kBits;
  const ValueId value = maker.value(element, block, level);
  const auto array = make_descriptor(maker, view, true, Content::kCounts);
  if (!array) return false;
  Operands operands = {*array, value};
  const Operands at = offsets(maker, view);
  operands.insert(operands.end(), at.begin(), at.end());
  if (code == OpCode::kStoreTile) return maker.emit(code, operands, {}).has_value();
  // No min and max of floats: memory may hold NaN.
  return maker.emit(code, operands, {int64_t(maker.pick(is_float ? 1 : 6))}).has_value();
}

}  // namespace kiln::random_kernel

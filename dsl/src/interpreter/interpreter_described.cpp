// Interpreter: memory behind descriptors. Elements outside the described array are filled or dropped; those inside are
// still checked against the buffer.
#include <algorithm>
#include <limits>

#include "interpreter/interpreter_atomic.h"

namespace kiln::dsl::interpreter {
namespace {

constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(), kHighest = std::numeric_limits<int64_t>::max();

// A u64 above int64 is beyond any array, and so is int64's end.
int64_t clamp(Wide value) { return static_cast<int64_t>(std::clamp(value, Wide{kLowest}, Wide{kHighest})); }

int64_t index_operand(const Machine& machine, const Op& op, size_t i, size_t lane = 0) {
  return clamp(wide_from_bits(info(machine.operand_type(op, i).element), machine.operand(op, i).bits[lane]));
}

// A descriptor's tile taken apart; see run_descriptor.
struct Array {
  uint32_t parameter;
  int64_t start;
  std::vector<int64_t> extents, strides;
  bool wrapped;

  Array(const Tile& tile, size_t rank)
      : parameter(tile.base[0]), start(static_cast<int64_t>(tile.bits[0])), strides(rank, 1), wrapped(false) {
    for (size_t i = 0; i < rank; ++i) extents.push_back(static_cast<int64_t>(tile.bits[1 + i]));
    for (size_t i = 0; i + 1 < rank; ++i) strides[i] = static_cast<int64_t>(tile.bits[1 + rank + i]);
    for (size_t i = 0; i < tile.size(); ++i) wrapped |= tile.is_wrapped(i);
  }
};

// Where an element of a block lies.
struct Spot {
  bool inside = true;
  Wide index = 0;

  void move(const Array& array, size_t axis, Wide at) {
    inside = inside && at >= 0 && at < array.extents[axis];
    if (inside) index = clamp(index + at * array.strides[axis]);  // its end lies in no buffer
  }
};

// function(lane, access) for each element of a block of `shape` that lies inside the array, in order; `at(axis, i)` is
// the coordinate of the i-th element along an axis. Stops at an error.
template <class At, class Function>
Result<void> for_each_inside(const Array& array, const std::vector<int64_t>& shape, Use use, At at, Function function) {
  size_t count = 1;
  for (int64_t extent : shape) count *= static_cast<size_t>(extent);
  std::vector<int64_t> i(shape.size());
  for (size_t lane = 0; lane < count; ++lane) {
    Spot spot{true, array.start};
    for (size_t axis = 0; axis < shape.size(); ++axis) spot.move(array, axis, at(axis, i[axis]));
    if (spot.inside) {
      auto done = function(Access{array.parameter, clamp(spot.index), lane, use});
      if (!done) return done;
    }
    for (size_t axis = shape.size(); axis-- > 0 && ++i[axis] == shape[axis];) i[axis] = 0;
  }
  return {};
}

uint64_t fill_of(const Machine& machine, const Op& op) {
  const bool nan = machine.values[op.operands[0]].bits.back() != 0;
  return nan ? bits_from_double(machine.element(op), std::numeric_limits<double>::quiet_NaN()) : 0;
}

// Whether the operands from `first` on wrapped on their way here.
bool any_wrapped(const Machine& machine, const Op& op, size_t first) {
  bool any = false;
  for (size_t i = first; i < op.operands.size(); ++i) {
    const Tile& tile = machine.operand(op, i);
    any |= std::find(tile.wrapped.begin(), tile.wrapped.end(), 1) != tile.wrapped.end();
  }
  return any;
}

// The coordinate of block elements from the offsets, which are the operands from `first` on.
auto offsets_of(const Machine& machine, const Op& op, size_t first) {
  std::vector<Wide> offsets;
  for (size_t i = first; i < op.operands.size(); ++i) offsets.push_back(index_operand(machine, op, i));
  return [offsets](size_t axis, int64_t i) { return offsets[axis] + i; };
}

// Loads the block whose element coordinates `at` gives; out has its shape.
template <class At>
Result<void> load_block(Machine& machine, const Op& op, bool wrapped, At at) {
  const Array array(machine.operand(op, 0), machine.operand_shape(op, 0).size());
  const size_t bytes = static_cast<size_t>(info(machine.element(op)).bytes);
  Tile& out = machine.result(op);
  std::fill(out.bits.begin(), out.bits.end(), fill_of(machine, op));
  return for_each_inside(array, machine.result_shape(op), Use::kRead, at, [&](const Access& access) -> Result<void> {
    auto address = touch(machine, op, access, wrapped || array.wrapped);
    if (!address) return address.error();
    const uint64_t bits = read_element(*address, bytes);
    out.bits[access.lane] = machine.element(op) == ElementType::kI1 ? bits != 0 : bits;
    return {};
  });
}

Result<void> store_block(Machine& machine, const Op& op) {
  const Array array(machine.operand(op, 0), machine.operand_shape(op, 0).size());
  const bool reduces = op.code == OpCode::kReduceTile, wrapped = array.wrapped || any_wrapped(machine, op, 2);
  const size_t bytes = static_cast<size_t>(info(machine.element(op)).bytes);
  const Tile& value = machine.operand(op, 1);
  return for_each_inside(array, machine.operand_shape(op, 0), reduces ? Use::kAtomic : Use::kWrite,
                         offsets_of(machine, op, 2), [&](const Access& access) -> Result<void> {
                           uint64_t bits = value.bits[access.lane];
                           auto address = touch(machine, op, access, wrapped, reduces ? nullptr : &bits);
                           if (!address) return address.error();
                           if (reduces) {
                             bits = atomic_result(static_cast<AtomicKind>(int_attr(op, 0)), machine.element(op),
                                                  read_element(*address, bytes), bits);
                           }
                           write_element(*address, bytes, bits);
                           return {};
                         });
}

}  // namespace

// Its tile: the index of the first element, the extents, the strides of all axes but the last, and whether it fills
// with NaN.
void run_descriptor(Machine& machine, const Op& op) {
  Tile& out = machine.values[op.results[0]];
  const Tile& base = machine.operand(op, 0);
  out.reset(op.operands.size() + 1);
  out.base = base.base;
  out.bits[0] = base.bits[0];
  if (base.is_wrapped(0)) out.mark_wrapped(0);
  for (size_t i = 1; i < op.operands.size(); ++i) {
    out.bits[i] = static_cast<uint64_t>(index_operand(machine, op, i));
    if (machine.operand(op, i).is_wrapped(0)) out.mark_wrapped(i);
  }
  out.bits.back() = static_cast<Fill>(int_attr(op, 1)) == Fill::kNan;
}

Result<void> run_described(Machine& machine, const Op& op) {
  if (op.code == OpCode::kStoreTile || op.code == OpCode::kReduceTile) return store_block(machine, op);
  const bool wrapped = any_wrapped(machine, op, 1);
  if (op.code == OpCode::kLoadTile) return load_block(machine, op, wrapped, offsets_of(machine, op, 1));
  const Wide column = index_operand(machine, op, 2);
  return load_block(machine, op, wrapped, [&](size_t axis, int64_t i) {
    return axis == 0 ? Wide{index_operand(machine, op, 1, static_cast<size_t>(i))} : column + i;
  });
}

}  // namespace kiln::dsl::interpreter

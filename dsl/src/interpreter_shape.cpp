// Interpreter: ops that make tiles and ops that only move elements.
#include "interpreter_impl.h"

namespace kiln::dsl::interpreter {
namespace {

// For each axis of a row-major shape, how far apart in memory order two neighbours are.
std::vector<size_t> strides_of(const std::vector<int64_t>& shape) {
  std::vector<size_t> strides(shape.size());
  size_t stride = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= static_cast<size_t>(shape[axis]);
  }
  return strides;
}

// Lane of the source from a lane of the result: its coordinates times the source's stride for each result axis.
Tile move_lanes(const Tile& x, const std::vector<int64_t>& shape, const std::vector<size_t>& source_strides) {
  const std::vector<size_t> strides = strides_of(shape);
  size_t count = 1;
  for (int64_t extent : shape) count *= static_cast<size_t>(extent);
  return gather_lanes(x, count, [&](size_t lane) {
    size_t from = 0;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      from += lane / strides[axis] % static_cast<size_t>(shape[axis]) * source_strides[axis];
    }
    return from;
  });
}

Result<Tile> constant(const Machine& machine, const Op& op) {
  const ElementType type = std::get<ElementType>(op.attrs[1]);
  Tile out;
  if (const Literal* literal = std::get_if<Literal>(&op.attrs[0])) {
    out.bits = {low_bits(literal->bits, info(type).bits)};
    return out;
  }
  auto value = constant_attr(machine, op, 0);
  if (!value) return value.error();
  out.bits = {bits_from_int(type, *value)};
  return out;
}

Result<Tile> arange(const Machine& machine, const Op& op) {
  auto start = constant_attr(machine, op, 0);
  if (!start) return start.error();
  Tile out;
  out.bits.resize(machine.result_size(op));
  for (size_t i = 0; i < out.size(); ++i) {
    out.bits[i] = bits_from_int(ElementType::kI32, *start + static_cast<int64_t>(i));
  }
  return out;
}

}  // namespace

Result<void> run_make(Machine& machine, const Op& op) {
  if (op.code == OpCode::kProgramId || op.code == OpCode::kNumPrograms) {
    const size_t axis = static_cast<size_t>(std::get<int64_t>(op.attrs[0]));
    const uint32_t value = op.code == OpCode::kProgramId ? machine.program.at(axis) : machine.grid.at(axis);
    machine.set(op, {{value}, {}, {}});
    return {};
  }
  if (op.code == OpCode::kSplat) {
    machine.set(op, gather_lanes(machine.operand(op, 0), machine.result_size(op), [](size_t) { return size_t{0}; }));
    return {};
  }
  auto tile = op.code == OpCode::kConstant ? constant(machine, op) : arange(machine, op);
  if (!tile) return tile.error();
  machine.set(op, std::move(*tile));
  return {};
}

Result<void> run_shape(Machine& machine, const Op& op) {
  const Tile& x = machine.operand(op, 0);
  const std::vector<int64_t>& from = machine.shapes[op.operands[0]];
  const std::vector<int64_t>& to = machine.result_shape(op);
  std::vector<size_t> strides = strides_of(from);
  if (op.code == OpCode::kExpandDims) {  // row-major order stays
    machine.set(op, x);
    return {};
  }
  if (op.code == OpCode::kBroadcast) {
    for (size_t axis = 0; axis < to.size(); ++axis) {
      if (from[axis] == 1) strides[axis] = 0;
    }
    machine.set(op, move_lanes(x, to, strides));
    return {};
  }
  std::vector<size_t> permuted;
  for (const Expr& axis : std::get<std::vector<Expr>>(op.attrs[0])) {
    permuted.push_back(strides.at(static_cast<size_t>(axis.as_constant().value_or(0))));
  }
  machine.set(op, move_lanes(x, to, permuted));
  return {};
}

}  // namespace kiln::dsl::interpreter

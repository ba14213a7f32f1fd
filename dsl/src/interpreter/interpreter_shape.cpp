// Interpreter: ops that make tiles and ops that only move elements.
#include <algorithm>

#include "interpreter/interpreter_impl.h"

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

// Lane of the source from a lane of the result: its coordinates times the source's stride for each result axis. The
// lanes come in order, so the coordinates count like an odometer.
void move_lanes(const Tile& x, Tile& out, const std::vector<int64_t>& shape, const std::vector<size_t>& strides) {
  std::vector<size_t> at(shape.size());
  size_t from = 0;
  gather_lanes(x, out, [&](size_t) {
    const size_t here = from;
    for (size_t axis = shape.size(); axis-- > 0;) {
      from += strides[axis];
      if (++at[axis] < static_cast<size_t>(shape[axis])) break;
      from -= strides[axis] * at[axis];
      at[axis] = 0;
    }
    return here;
  });
}

Result<void> constant(Machine& machine, const Op& op) {
  const ElementType type = std::get<ElementType>(op.attrs[1]);
  Tile& out = machine.result(op);
  if (const Literal* literal = std::get_if<Literal>(&op.attrs[0])) {
    std::fill(out.bits.begin(), out.bits.end(), low_bits(literal->bits, info(type).bits));
    return {};
  }
  auto value = constant_attr(machine, op, 0);
  if (!value) return value.error();
  std::fill(out.bits.begin(), out.bits.end(), bits_from_int(type, *value));
  return {};
}

Result<void> arange(Machine& machine, const Op& op) {
  auto start = constant_attr(machine, op, 0);
  if (!start) return start.error();
  Tile& out = machine.result(op);
  for (size_t i = 0; i < out.size(); ++i) out.bits[i] = static_cast<uint32_t>(*start + static_cast<int64_t>(i));
  return {};
}

void splat(Machine& machine, const Op& op) {
  const Tile& x = machine.operand(op, 0);
  Tile& out = machine.result(op);
  std::fill(out.bits.begin(), out.bits.end(), x.bits[0]);
  if (!x.base.empty()) out.base.assign(out.size(), x.base[0]);
  if (x.is_wrapped(0)) out.wrapped.assign(out.size(), 1);
}

void broadcast(Machine& machine, const Op& op) {
  const std::vector<int64_t>&from = machine.operand_shape(op, 0), &to = machine.result_shape(op);
  std::vector<size_t> strides = strides_of(from);
  for (size_t axis = 0; axis < to.size(); ++axis) {
    if (from[axis] == 1) strides[axis] = 0;
  }
  move_lanes(machine.operand(op, 0), machine.result(op), to, strides);
}

void permute(Machine& machine, const Op& op) {
  const std::vector<size_t> strides = strides_of(machine.operand_shape(op, 0));
  std::vector<size_t> permuted;
  for (const Expr& axis : std::get<std::vector<Expr>>(op.attrs[0])) {
    permuted.push_back(strides.at(static_cast<size_t>(axis.as_constant().value_or(0))));
  }
  move_lanes(machine.operand(op, 0), machine.result(op), machine.result_shape(op), permuted);
}

// One tile of two, each the source of some lanes: `source` gives whether a lane is from b, and which of it.
template <class Source>
void merge(Machine& machine, const Op& op, Source source) {
  const Tile &a = machine.operand(op, 0), &b = machine.operand(op, 1);
  Tile& out = machine.result(op);
  if (!a.base.empty()) out.base.resize(out.size());
  for (size_t lane = 0; lane < out.size(); ++lane) {
    const auto [is_b, from] = source(lane);
    const Tile& x = is_b ? b : a;
    out.bits[lane] = x.bits[from];
    if (!x.base.empty()) out.base[lane] = x.base[from];
    if (x.is_wrapped(from)) out.mark_wrapped(lane);
  }
}

void cat(Machine& machine, const Op& op) {
  const int64_t axis = int_attr(op, 0);
  const Lines a(machine.operand_shape(op, 0), axis), b(machine.operand_shape(op, 1), axis);
  const size_t a_block = a.length * a.inner, b_block = b.length * b.inner;  // elements between two of a lower axis
  merge(machine, op, [=](size_t lane) {
    const size_t block = lane / (a_block + b_block), within = lane % (a_block + b_block);
    const bool is_b = within >= a_block;
    return std::pair(is_b, is_b ? block * b_block + within - a_block : block * a_block + within);
  });
}

void split(Machine& machine, const Op& op) {
  for (size_t half : {0, 1}) {
    gather_lanes(machine.operand(op, 0), machine.result(op, half), [=](size_t lane) { return 2 * lane + half; });
  }
}

Result<void> slice(Machine& machine, const Op& op) {
  auto start = constant_attr(machine, op, 1);
  if (!start) return start.error();
  const Lines from(machine.operand_shape(op, 0), int_attr(op, 0)), to(machine.result_shape(op), int_attr(op, 0));
  const size_t from_block = from.length * from.inner, to_block = to.length * to.inner;
  const size_t skipped = static_cast<size_t>(*start) * from.inner;
  gather_lanes(machine.operand(op, 0), machine.result(op),
               [=](size_t lane) { return lane / to_block * from_block + skipped + lane % to_block; });
  return {};
}

}  // namespace

Lines::Lines(const std::vector<int64_t>& shape, int64_t axis) : length(1), inner(1), count(1) {
  for (size_t i = 0; i < shape.size(); ++i) {
    const auto extent = static_cast<size_t>(shape[i]);
    if (static_cast<int64_t>(i) == axis) {
      length = extent;
    } else {
      count *= extent;
      if (static_cast<int64_t>(i) > axis) inner *= extent;
    }
  }
}

void run_program(Machine& machine, const Op& op) {
  const size_t axis = static_cast<size_t>(int_attr(op, 0));
  machine.result(op).set_scalar(op.code == OpCode::kProgramId ? machine.program.at(axis) : machine.grid.at(axis));
}

Result<void> run_make(Machine& machine, const Op& op) {
  if (op.code == OpCode::kConstant) return constant(machine, op);
  if (op.code == OpCode::kArange) return arange(machine, op);
  splat(machine, op);
  return {};
}

Result<void> run_shape(Machine& machine, const Op& op) {
  switch (op.code) {
    case OpCode::kBroadcast:
      broadcast(machine, op);
      break;
    case OpCode::kPermute:
      permute(machine, op);
      break;
    case OpCode::kJoin:
      merge(machine, op, [](size_t lane) { return std::pair(lane % 2 == 1, lane / 2); });
      break;
    case OpCode::kSplit:
      split(machine, op);
      break;
    case OpCode::kCat:
      cat(machine, op);
      break;
    case OpCode::kSlice:
      return slice(machine, op);
    case OpCode::kGather:
      return run_gather(machine, op);
    default:  // kExpandDims and kReshape: row-major order stays
      machine.values[op.results[0]] = machine.operand(op, 0);
  }
  return {};
}

Result<void> run_gather(Machine& machine, const Op& op) {
  const Tile& index = machine.operand(op, 1);
  const ElementTypeInfo& type = info(machine.operand_type(op, 1).element);
  const Lines source(machine.operand_shape(op, 0), int_attr(op, 0)), to(machine.result_shape(op), int_attr(op, 0));
  const size_t block = to.length * to.inner;
  for (size_t lane = 0; lane < index.size(); ++lane) {
    const Wide at = wide_from_bits(type, index.bits[lane]);
    if (at >= 0 && at < static_cast<Wide>(source.length) && !index.is_wrapped(lane)) continue;
    return machine.fail(op, "index " + std::to_string(static_cast<int64_t>(at)) + " of lane " + std::to_string(lane) +
                                (index.is_wrapped(lane) ? " wrapped around its integer type"
                                                        : " is outside 0…" + std::to_string(source.length - 1)));
  }
  gather_lanes(machine.operand(op, 0), machine.result(op), [&](size_t lane) {
    return (lane / block * source.length + index.bits[lane]) * source.inner + lane % to.inner;
  });
  return {};
}

}  // namespace kiln::dsl::interpreter

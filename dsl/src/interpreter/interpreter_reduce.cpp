// Interpreter: reductions, and the region of a custom reduce or scan.
#include "interpreter/interpreter_reduce.h"

#include <cmath>

#include "interpreter/interpreter_impl.h"
#include "kiln/dsl/scalar_math.h"

namespace kiln::dsl::interpreter {
namespace {

// One line of a Lane's numbers to the bits of the result.
template <class Lane>
uint64_t reduce_line(ReduceKind kind, std::span<const typename Lane::Number> x) {
  using T = typename Lane::Number;
  if (kind == ReduceKind::kArgmin || kind == ReduceKind::kArgmax) {
    return extreme_index(x, kind == ReduceKind::kArgmin);
  }
  if (kind == ReduceKind::kSum && std::is_floating_point_v<T>) return Lane::encode(pairwise_sum(x));
  T result = x[0];
  for (T value : x.subspan(1)) result = combine_two(kind, result, value);
  return encode_combined<Lane>(kind, result);
}

void reduce_kind(Machine& machine, const Op& op, ReduceKind kind, const Lines& lines) {
  const Tile& x = machine.operand(op, 0);
  Tile& out = machine.result(op);
  with_element(machine.element(op), [&](auto of) {
    using Lane = decltype(of);
    std::vector<typename Lane::Number> line(lines.length);
    for (size_t i = 0; i < lines.count; ++i) {
      for (size_t j = 0; j < lines.length; ++j) line[j] = Lane::decode(x.bits[lines.at(i, j)]);
      out.bits[i] = reduce_line<Lane>(kind, line);
      if constexpr (!std::is_floating_point_v<typename Lane::Number>) {
        IndexWatch watch(kind);
        for (size_t j = 0; j < lines.length; ++j) watch.take(line[j], x.is_wrapped(lines.at(i, j)));
        if (watch.wrapped(Lane::decode(out.bits[i]))) out.mark_wrapped(i);
      }
    }
  });
}

}  // namespace

void read_slice(const Machine& machine, const Op& op, const Lines& lines, size_t i, std::vector<Tile>& slice) {
  slice.resize(op.operands.size());
  for (size_t x = 0; x < slice.size(); ++x) {
    slice[x].reset(lines.count);
    gather_lanes(machine.operand(op, x), slice[x], [&](size_t line) { return lines.at(line, i); });
  }
}

Result<void> combine(Machine& machine, const Op& op, std::vector<Tile>& left, const std::vector<Tile>& right) {
  const Region& region = op.regions[0];
  for (size_t i = 0; i < left.size(); ++i) {
    machine.values[region.args[i]] = left[i];
    machine.values[region.args[left.size() + i]] = right[i];
  }
  if (auto done = run_region(machine, region); !done) return done;
  for (size_t i = 0; i < left.size(); ++i) left[i] = machine.values[region.ops.back().operands[i]];
  return {};
}

CombineLanes::CombineLanes(Machine& machine, const Op& op, size_t lanes) : machine_(machine) {
  machine.combine_lanes = lanes;
  if (lanes == 1) return;
  auto is_own = [&](ValueId id) {
    for (const Op& inner : op.regions[0].ops) {
      for (ValueId result : inner.results) {
        if (result == id) return true;
      }
    }
    for (ValueId arg : op.regions[0].args) {
      if (arg == id) return true;
    }
    return false;
  };
  for (const Op& inner : op.regions[0].ops) {
    for (ValueId id : inner.operands) {
      if (is_own(id) || machine.values[id].size() == lanes) continue;
      Tile spread;
      spread.reset(lanes);
      gather_lanes(machine.values[id], spread, [](size_t) { return size_t{0}; });
      outer_.emplace_back(id, std::exchange(machine.values[id], std::move(spread)));
    }
  }
}

CombineLanes::~CombineLanes() {
  machine_.combine_lanes = 1;
  for (auto& [id, tile] : outer_) machine_.values[id] = std::move(tile);
}

Result<void> run_reduce(Machine& machine, const Op& op) {
  const ReduceKind kind = static_cast<ReduceKind>(int_attr(op, 0));
  const Lines lines(machine.operand_shape(op, 0), int_attr(op, 1));
  if (kind != ReduceKind::kCustom) {
    reduce_kind(machine, op, kind, lines);
    return {};
  }
  std::vector<Tile> left, right;
  read_slice(machine, op, lines, 0, left);
  {
    const CombineLanes scope(machine, op, lines.count);
    for (size_t i = 1; i < lines.length; ++i) {
      read_slice(machine, op, lines, i, right);
      if (auto done = combine(machine, op, left, right); !done) return done;
    }
  }
  for (size_t i = 0; i < left.size(); ++i) machine.values[op.results[i]] = std::move(left[i]);
  return {};
}

}  // namespace kiln::dsl::interpreter

// Interpreter: loops and branches. All values that a region yields are read before the first argument changes: a yield
// may swap two of them.
#include "interpreter/interpreter_impl.h"

namespace kiln::dsl::interpreter {
namespace {

void read_values(const Machine& machine, std::span<const ValueId> from, std::vector<Tile>& tiles) {
  tiles.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) tiles[i] = machine.values[from[i]];
}

void write_values(Machine& machine, const std::vector<Tile>& tiles, std::span<const ValueId> to) {
  for (size_t i = 0; i < to.size(); ++i) machine.values[to[i]] = tiles[i];
}

std::span<const ValueId> yielded(const Region& region) { return region.ops.back().operands; }

}  // namespace

Result<void> run_for(Machine& machine, const Op& op) {
  const ElementTypeInfo& type = info(machine.element(op));
  auto bound = [&](size_t i) { return wide_from_bits(type, machine.operand(op, i).bits[0]); };
  const Wide start = bound(0), end = bound(1), step = bound(2);
  if (step < 1) {
    return machine.fail(op, "step is " + std::to_string(static_cast<int64_t>(step)) + ", must be 1 or more");
  }
  const Region& body = op.regions[0];
  const std::span<const ValueId> args = std::span(body.args).subspan(1);
  std::vector<Tile> carried;
  read_values(machine, std::span(op.operands).subspan(3), carried);
  for (Wide index = start; index < end; index += step) {
    machine.values[body.args[0]].set_scalar(low_bits(static_cast<uint64_t>(index), type.bits));
    write_values(machine, carried, args);
    auto done = run_region(machine, body);
    if (!done) return done;
    read_values(machine, yielded(body), carried);
  }
  write_values(machine, carried, op.results);
  return {};
}

Result<void> run_while(Machine& machine, const Op& op) {
  const Region &condition = op.regions[0], &body = op.regions[1];
  std::vector<Tile> carried;
  read_values(machine, op.operands, carried);
  for (;;) {
    write_values(machine, carried, condition.args);
    if (auto done = run_region(machine, condition); !done) return done;
    if (machine.values[yielded(condition)[0]].bits[0] == 0) break;
    write_values(machine, carried, body.args);
    if (auto done = run_region(machine, body); !done) return done;
    read_values(machine, yielded(body), carried);
  }
  write_values(machine, carried, op.results);
  return {};
}

Result<void> run_if(Machine& machine, const Op& op) {
  const Region& taken = op.regions[machine.operand(op, 0).bits[0] != 0 ? 0 : 1];
  if (auto done = run_region(machine, taken); !done) return done;
  for (size_t i = 0; i < op.results.size(); ++i) machine.values[op.results[i]] = machine.values[yielded(taken)[i]];
  return {};
}

}  // namespace kiln::dsl::interpreter

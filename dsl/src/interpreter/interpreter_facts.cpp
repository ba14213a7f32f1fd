// Interpreter: what the author claims, and what he wants to see.
#include "interpreter/interpreter_impl.h"

namespace kiln::dsl::interpreter {
namespace {

std::string text(Wide value) {
  return value > INT64_MAX ? std::to_string(static_cast<uint64_t>(value)) : std::to_string(static_cast<int64_t>(value));
}

// The number an assume speaks of: an int, or the address in bytes.
struct Assumed {
  const Tile& tile;
  const ElementTypeInfo& type;
  const std::vector<Buffer>& buffers;

  bool is_pointer() const { return !tile.base.empty(); }
  Wide operator()(size_t lane) const {
    if (!is_pointer()) return wide_from_bits(type, tile.bits[lane]);
    const Wide base = static_cast<Wide>(reinterpret_cast<uintptr_t>(buffers[tile.base[lane]].data));
    return base + Wide{static_cast<int64_t>(tile.bits[lane])} * type.bytes;
  }
};

// What is false of a lane; "" if nothing is. Neighbours are in groups of `contiguous` along the last axis of `extent`
// lanes, where only the first of a group can be a multiple.
std::string false_claim(const Assumed& value, size_t lane, size_t extent, const int64_t (&claims)[4]) {
  const auto [multiple_of, contiguous, low, high] = claims;
  const Wide number = value(lane);
  const std::string what = value.is_pointer() ? "the address " : "";
  const size_t in_group = lane % extent % static_cast<size_t>(contiguous);
  if (in_group == 0) {
    if (number % multiple_of != 0) return what + text(number) + " is no multiple of " + std::to_string(multiple_of);
  } else if (const Wide before = value(lane - 1); number != before + (value.is_pointer() ? value.type.bytes : 1)) {
    return what + text(number) + " does not follow " + text(before) + ", its neighbour in a group of " +
           std::to_string(contiguous);
  }
  // The ends of i64 stand for no bound: a u64 may lie above.
  const bool in_range = number >= low && (number <= high || high == INT64_MAX);
  if (value.is_pointer() || in_range) return "";
  return text(number) + " is outside " + std::to_string(low) + "…" + std::to_string(high);
}

}  // namespace

Result<void> run_assume(Machine& machine, const Op& op) {
  if (!machine.options.check_assumptions) return {};
  int64_t claims[4];
  for (size_t i = 0; i < 4; ++i) {
    auto number = constant_attr(machine, op, i);
    if (!number) return number.error();
    claims[i] = *number;
  }
  const Assumed value{machine.operand(op, 0), info(machine.element(op)), machine.memory.buffers};
  const std::vector<int64_t>& shape = machine.operand_shape(op, 0);
  const size_t extent = shape.empty() ? 1 : static_cast<size_t>(shape.back());
  for (size_t lane = 0; lane < value.tile.size(); ++lane) {
    const std::string problem = false_claim(value, lane, extent, claims);
    if (!problem.empty()) return machine.fail(op, "is false of lane " + std::to_string(lane) + ": " + problem);
  }
  return {};
}

Result<void> run_require(Machine& machine, const Op& op) {
  auto condition = constant_attr(machine, op, 0);
  if (!condition) return condition.error();
  if (*condition == 0) return machine.fail(op, std::get<std::string>(op.attrs[1]));
  return {};
}

Result<void> run_assert(Machine& machine, const Op& op) {
  if (!machine.kernel.options.debug) return {};
  const Tile& condition = machine.operand(op, 0);
  for (size_t lane = 0; lane < condition.size(); ++lane) {
    if (condition.bits[lane] != 0) continue;
    return machine.fail(op, std::get<std::string>(op.attrs[0]) + "; false at lane " + std::to_string(lane));
  }
  return {};
}

void run_print(Machine& machine, const Op& op) {
  if (!machine.options.print) return;
  PrintRecord record{std::get<std::string>(op.attrs[0]), machine.kernel.location_text(op.loc), machine.program, {}};
  for (size_t i = 0; i < op.operands.size(); ++i) {
    record.values.push_back(
        {machine.operand_type(op, i).element, machine.operand_shape(op, i), machine.operand(op, i).bits});
  }
  machine.options.print(record);
}

}  // namespace kiln::dsl::interpreter

// Interpreter: pointers, loads and stores. A pointer is a parameter and an element index, so every access is checked.
#include <cstring>
#include <limits>

#include "interpreter_impl.h"

namespace kiln::dsl::interpreter {
namespace {

// An index that leaves int64 stays at its end, which no buffer reaches; only a lane that touches memory is an error.
Tile addptr(const Machine& machine, const Op& op) {
  const Tile &pointer = machine.operand(op, 0), &offset = machine.operand(op, 1);
  const ElementTypeInfo& type = info(machine.operand_type(op, 1).element);
  constexpr Wide kLowest = std::numeric_limits<int64_t>::min(), kHighest = std::numeric_limits<int64_t>::max();
  Tile out = pointer;
  for (size_t lane = 0; lane < out.size(); ++lane) {
    const Wide sum = Wide{static_cast<int64_t>(pointer.bits[lane])} + wide_from_bits(type, offset.bits[lane]);
    out.bits[lane] = static_cast<uint64_t>(sum < kLowest ? kLowest : sum > kHighest ? kHighest : sum);
    if (offset.is_wrapped(lane)) out.mark_wrapped(lane);
  }
  return out;
}

bool is_masked_off(const Machine& machine, const Op& op, size_t mask_operand, size_t lane) {
  return op.operands.size() > mask_operand && machine.operand(op, mask_operand).bits[lane] == 0;
}

// The address of a lane's element, or why it may not be touched.
Result<std::byte*> locate(const Machine& machine, const Op& op, size_t lane) {
  const Tile& pointer = machine.operand(op, 0);
  const uint32_t parameter = pointer.base[lane];
  const Argument& buffer = machine.arguments[parameter];
  const int64_t index = static_cast<int64_t>(pointer.bits[lane]);
  const std::string& name = machine.kernel.params[parameter].name;
  if (pointer.is_wrapped(lane)) {
    return machine.fail(
        op, "the index into `" + name + "` wrapped around its integer type; it came out as " + std::to_string(index));
  }
  if (buffer.data == nullptr || index < 0 || index >= buffer.extent) {
    return machine.fail(op, "index " + std::to_string(index) + " is outside `" + name + "`, which has " +
                                std::to_string(buffer.extent) + " elements");
  }
  return static_cast<std::byte*>(buffer.data) + index * info(machine.element(op)).bytes;
}

Result<void> load(Machine& machine, const Op& op) {
  const ElementTypeInfo& type = info(machine.element(op));
  Tile out;
  out.bits.resize(machine.operand(op, 0).size());
  for (size_t lane = 0; lane < out.size(); ++lane) {
    if (is_masked_off(machine, op, 1, lane)) {
      out.bits[lane] = op.operands.size() > 2 ? machine.operand(op, 2).bits[lane] : 0;
      continue;
    }
    auto address = locate(machine, op, lane);
    if (!address) return address.error();
    std::memcpy(&out.bits[lane], *address, static_cast<size_t>(type.bytes));  // the host is little-endian
    if (type.bits == 1) out.bits[lane] = out.bits[lane] != 0;
  }
  machine.set(op, std::move(out));
  return {};
}

Result<void> store(Machine& machine, const Op& op) {
  const Tile& value = machine.operand(op, 1);
  for (size_t lane = 0; lane < value.size(); ++lane) {
    if (is_masked_off(machine, op, 2, lane)) continue;
    auto address = locate(machine, op, lane);
    if (!address) return address.error();
    std::memcpy(*address, &value.bits[lane], static_cast<size_t>(info(machine.element(op)).bytes));
  }
  return {};
}

}  // namespace

Result<void> run_memory(Machine& machine, const Op& op) {
  static_assert(std::endian::native == std::endian::little);
  if (op.code == OpCode::kLoad) return load(machine, op);
  if (op.code == OpCode::kStore) return store(machine, op);
  machine.set(op, addptr(machine, op));
  return {};
}

}  // namespace kiln::dsl::interpreter

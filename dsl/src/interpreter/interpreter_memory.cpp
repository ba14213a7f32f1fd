// Interpreter: pointers, loads and stores. A pointer is a parameter and an element index, so every access is checked.
#include <bit>
#include <limits>

#include "interpreter/interpreter_impl.h"

namespace kiln::dsl::interpreter {
namespace {

static_assert(std::endian::native == std::endian::little);

// The mask of an op that may have one; null: all lanes.
const uint64_t* mask_of(const Machine& machine, const Op& op, size_t operand) {
  return op.operands.size() > operand ? machine.operand(op, operand).bits.data() : nullptr;
}

// Where a lane's element lies, if nothing about it needs more than the check of its index; else null, and touch says.
std::byte* quick_address(const Memory& memory, const Tile& pointer, size_t lane) {
  const uint32_t parameter = pointer.base[lane];
  if (pointer.is_wrapped(lane) || memory.buffers[parameter].is_watched()) return nullptr;
  return memory.locate(parameter, static_cast<int64_t>(pointer.bits[lane]));
}

Access access_of(const Tile& pointer, size_t lane, Use use) {
  return {pointer.base[lane], static_cast<int64_t>(pointer.bits[lane]), lane, use};
}

template <class Element>
Result<void> load(Machine& machine, const Op& op, Tile& out) {
  const Tile& pointer = machine.operand(op, 0);
  const uint64_t *mask = mask_of(machine, op, 1), *other = mask_of(machine, op, 2);
  for (size_t lane = 0; lane < out.size(); ++lane) {
    if (mask != nullptr && mask[lane] == 0) {
      out.bits[lane] = other != nullptr ? other[lane] : 0;
      continue;
    }
    const std::byte* address = quick_address(machine.memory, pointer, lane);
    if (address == nullptr) {
      auto touched = touch(machine, op, access_of(pointer, lane, Use::kRead), pointer.is_wrapped(lane));
      if (!touched) return touched.error();
      address = *touched;
    }
    out.bits[lane] = read_element(address, sizeof(Element));
  }
  return {};
}

template <class Element>
Result<void> store(Machine& machine, const Op& op) {
  const Tile &pointer = machine.operand(op, 0), &value = machine.operand(op, 1);
  const uint64_t* mask = mask_of(machine, op, 2);
  for (size_t lane = 0; lane < value.size(); ++lane) {
    if (mask != nullptr && mask[lane] == 0) continue;
    std::byte* address = quick_address(machine.memory, pointer, lane);
    if (address == nullptr) {
      auto touched =
          touch(machine, op, access_of(pointer, lane, Use::kWrite), pointer.is_wrapped(lane), &value.bits[lane]);
      if (!touched) return touched.error();
      address = *touched;
    }
    write_element(address, sizeof(Element), value.bits[lane]);
  }
  return {};
}

// function of an unsigned type as wide as an element in memory.
template <class Function>
auto with_width(ElementType type, Function function) {
  switch (info(type).bytes) {
    case 1:
      return function(uint8_t{});
    case 2:
      return function(uint16_t{});
    case 4:
      return function(uint32_t{});
    default:
      return function(uint64_t{});
  }
}

}  // namespace

// An index that leaves int64 stays at its end, which no buffer reaches; only a lane that touches memory is an error.
void run_addptr(Machine& machine, const Op& op) {
  constexpr int64_t kLowest = std::numeric_limits<int64_t>::min(), kHighest = std::numeric_limits<int64_t>::max();
  Tile& out = machine.result(op);
  const Tile &pointer = machine.operand(op, 0), &offset = machine.operand(op, 1);
  out.base = pointer.base;
  with_int(machine.operand_type(op, 1).element, [&](auto of) {
    for (size_t lane = 0; lane < out.size(); ++lane) {
      const auto index = static_cast<int64_t>(pointer.bits[lane]);
      const auto number = decltype(of)::decode(offset.bits[lane]);
      int64_t sum;
      if (__builtin_add_overflow(index, number, &sum)) sum = number < 0 ? kLowest : kHighest;
      out.bits[lane] = static_cast<uint64_t>(sum);
    }
  });
  if (pointer.wrapped.empty() && offset.wrapped.empty()) return;
  for (size_t lane = 0; lane < out.size(); ++lane) {
    if (pointer.is_wrapped(lane) || offset.is_wrapped(lane)) out.mark_wrapped(lane);
  }
}

Result<void> run_load(Machine& machine, const Op& op) {
  Tile& out = machine.result(op);
  auto done = with_width(machine.element(op), [&](auto element) { return load<decltype(element)>(machine, op, out); });
  if (machine.element(op) == ElementType::kI1) {
    for (uint64_t& bits : out.bits) bits = bits != 0;
  }
  return done;
}

Result<void> run_store(Machine& machine, const Op& op) {
  return with_width(machine.element(op), [&](auto element) { return store<decltype(element)>(machine, op); });
}

}  // namespace kiln::dsl::interpreter

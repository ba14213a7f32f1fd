// Interpreter: atomics. Lanes take effect one after the other, in order.
#include "interpreter/interpreter_atomic.h"

#include <cmath>

namespace kiln::dsl::interpreter {
namespace {

// NaN on either side gives NaN, and -0.0 is below +0.0.
template <class T>
T ordered_min(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return a < b ? a : b;
}
template <class T>
T ordered_max(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(a)) return a;
    if (std::isnan(b)) return b;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

template <class Lane>
uint64_t combined(AtomicKind kind, uint64_t old, uint64_t bits) {
  using T = typename Lane::Number;
  const T a = Lane::decode(old), b = Lane::decode(bits);
  switch (kind) {
    case AtomicKind::kAdd:
      if constexpr (std::is_floating_point_v<T>) return Lane::encode(a + b);
      return Lane::encode(static_cast<T>(old + bits));  // wraps
    case AtomicKind::kMin:
      return encode_own<Lane>(ordered_min(a, b));
    case AtomicKind::kMax:
      return encode_own<Lane>(ordered_max(a, b));
    case AtomicKind::kAnd:
      return old & bits;
    case AtomicKind::kOr:
      return old | bits;
    case AtomicKind::kXor:
      return old ^ bits;
    case AtomicKind::kXchg:
      return bits;
  }
  return bits;
}

// An acquiring atomic on what another program's atomic wrote: what that program did before is done now.
void acquire(Memory& memory, const Access& access, MemoryOrder order) {
  if (order != MemoryOrder::kAcqRel && order != MemoryOrder::kAcquire) return;
  Buffer& buffer = memory.buffers[access.parameter];
  if (!buffer.tracked || memory.locate(access.parameter, access.index) == nullptr) return;
  const uint32_t writer = buffer.touched.at(access.index).writer;
  const bool was_atomic = (writer & Touched::kAtomicBit) != 0;
  if (was_atomic && (writer & ~Touched::kAtomicBit) != memory.program) memory.synchronised = true;
}

}  // namespace

uint64_t atomic_result(AtomicKind kind, ElementType type, uint64_t old, uint64_t bits) {
  return with_element(type, [&](auto lane) { return combined<decltype(lane)>(kind, old, bits); });
}

Result<void> run_atomic(Machine& machine, const Op& op) {
  const bool is_cas = op.code == OpCode::kAtomicCas;
  const size_t mask_operand = is_cas ? 3 : 2;
  const ElementType type = machine.element(op);
  const size_t bytes = static_cast<size_t>(info(type).bytes);
  const auto order = static_cast<MemoryOrder>(int_attr(op, is_cas ? 0 : 1));
  Tile& out = machine.result(op);
  const Tile &pointer = machine.operand(op, 0), &value = machine.operand(op, is_cas ? 2 : 1);
  for (size_t lane = 0; lane < out.size(); ++lane) {
    out.bits[lane] = 0;
    if (op.operands.size() > mask_operand && machine.operand(op, mask_operand).bits[lane] == 0) continue;
    const Access access{pointer.base[lane], static_cast<int64_t>(pointer.bits[lane]), lane, Use::kAtomic};
    acquire(machine.memory, access, order);
    auto address = touch(machine, op, access, pointer.is_wrapped(lane));
    if (!address) return address.error();
    const uint64_t old = out.bits[lane] = read_element(*address, bytes);
    if (!is_cas) {
      write_element(*address, bytes,
                    atomic_result(static_cast<AtomicKind>(int_attr(op, 0)), type, old, value.bits[lane]));
    } else if (old == machine.operand(op, 1).bits[lane]) {
      write_element(*address, bytes, value.bits[lane]);
    }
  }
  return {};
}

}  // namespace kiln::dsl::interpreter

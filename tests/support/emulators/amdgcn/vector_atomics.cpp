// Flat and global atomics: active lanes one after another; those that return write what was there before.
#include <bit>

#include "atomic_operations.h"
#include "semantics.h"
#include "vector_memory.h"

namespace kiln::amdgcn_emulator {
namespace {

void run_atomic(Wave& wave, const Instruction& instruction) {
  const AtomicForm& form = *instruction.atomic;
  const bool returns = instruction.operands[0].kind == OperandKind::kVgpr && instruction.returns;
  const unsigned address = returns ? 1 : 0;
  const Operand& data = instruction.operands[address + 1];
  const unsigned dwords = form.bytes / 4;
  const Addresses addresses = memory_addresses(wave, instruction, address, address + 2, instruction.atomic->bytes);
  for (uint64_t mask = wave.exec(); mask; mask &= mask - 1) {
    auto lane = static_cast<unsigned>(std::countr_zero(mask));
    if (!is_aligned(wave, addresses[lane], form.bytes, lane)) return;
    std::byte* at = atomic_memory(wave, instruction, addresses[lane], lane, form.bytes);
    if (!at) return;
    std::array<uint64_t, 2> values{};
    for (unsigned i = 0; i < form.operands; ++i)
      for (unsigned dword = 0; dword < dwords; ++dword)
        values[i] |= uint64_t{wave.vgpr[data.index + i * dwords + dword][lane]} << (32 * dword);
    uint64_t old = form.operation(wave, at, values.data());
    if (!returns) continue;
    for (unsigned dword = 0; dword < dwords; ++dword)
      wave.vgpr[instruction.operands[0].index + dword][lane] = static_cast<uint32_t>(old >> (32 * dword));
  }
}

}  // namespace

void add_atomics(Table& table) {
  for (const AtomicForm& form : atomic_forms())
    for (const char* space : {"flat_atomic_", "global_atomic_"}) table[std::string(space) + form.name] = run_atomic;
}

}  // namespace kiln::amdgcn_emulator

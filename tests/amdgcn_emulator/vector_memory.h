// Where a vector memory instruction's lanes go: flat, global, scratch.
#pragma once

#include "wave.h"

namespace kiln::amdgcn_emulator {

using Addresses = std::array<uint64_t, kMaxLanes>;

// Where the lanes of a flat or global instruction go; `vaddr` and `saddr` are the operands' positions.
Addresses memory_addresses(const Wave& wave, const Instruction& instruction, unsigned vaddr, unsigned saddr);

// The bytes at a lane's address that an atomic may change; null (and a fault) where there are none.
std::byte* atomic_memory(Wave& wave, const Instruction& instruction, uint64_t address, unsigned lane, size_t bytes);

// Copies between a lane's private memory, whose dwords are interleaved with the other lanes', and registers.
bool private_access(Wave& wave, unsigned lane, uint64_t offset, std::byte* data, size_t bytes, bool write);

}  // namespace kiln::amdgcn_emulator

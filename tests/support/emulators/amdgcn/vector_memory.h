// Where a vector memory instruction's lanes go: flat, global, scratch.
#pragma once

#include <bit>

#include "wave.h"

namespace kiln::amdgcn_emulator {

using Addresses = std::array<uint64_t, kMaxLanes>;

// The active lanes one after another.
template <class F>
void for_each_active(const Wave& wave, F operation) {
  const uint64_t exec = wave.exec();
  if (exec == wave.all_lanes()) {
    for (unsigned lane = 0; lane < wave.lanes; ++lane) operation(lane);
    return;
  }
  for (uint64_t mask = exec; mask; mask &= mask - 1) operation(static_cast<unsigned>(std::countr_zero(mask)));
}

// Copies between consecutive registers and where `at` says that each active lane's dwords lie, which is looked up
// already.
template <unsigned Dwords, class At>
void load_dwords(Wave& wave, unsigned first, At at) {
  for_each_active(wave, [&](unsigned lane) {
    std::array<uint32_t, Dwords> data;
    std::memcpy(data.data(), at(lane), sizeof data);
    for (unsigned dword = 0; dword < Dwords; ++dword) wave.vgpr[first + dword][lane] = data[dword];
  });
}
template <unsigned Dwords, class At>
void store_dwords(Wave& wave, unsigned first, At at) {
  for_each_active(wave, [&](unsigned lane) {
    std::byte* to = at(lane);
    for (unsigned dword = 0; dword < Dwords; ++dword) std::memcpy(to + 4 * dword, &wave.vgpr[first + dword][lane], 4);
  });
}

// Whether one range of memory holds what all active lanes access: then no lane needs a look of its own.
bool in_one_range(Wave& wave, const Addresses& addresses, unsigned bytes, bool write);

// Where the lanes of a flat or global instruction on so many bytes go; `vaddr` and `saddr` are the operands' positions.
Addresses memory_addresses(const Wave& wave, const Instruction& instruction, unsigned vaddr, unsigned saddr,
                           unsigned bytes);

// The bytes at a lane's address that an atomic may change; null (and a fault) where there are none.
std::byte* atomic_memory(Wave& wave, const Instruction& instruction, uint64_t address, unsigned lane, size_t bytes);

// Copies between a lane's private memory, whose dwords are interleaved with the other lanes', and registers.
bool private_access(Wave& wave, unsigned lane, uint64_t offset, std::byte* data, size_t bytes, bool write);

}  // namespace kiln::amdgcn_emulator

// Memory of a launch: every address a kernel uses is looked up here, and one outside is an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "amdgcn_emulator.h"

namespace kiln::amdgcn_emulator {

// The apertures of flat addresses: no address of the host has these upper halves.
inline constexpr uint64_t kSharedBase = uint64_t{0x10000} << 32;
inline constexpr uint64_t kPrivateBase = uint64_t{0x20000} << 32;
inline constexpr uint64_t kApertureMask = ~uint64_t{0xffffffff};

class Memory {
 public:
  void add(MemoryRange range) { ranges_.push_back(range); }
  // The bytes at an address, or null if not all of them may be read (written).
  std::byte* find(uint64_t address, size_t bytes, bool write) {
    if (contains(last_, address, bytes, write)) [[likely]]
      return reinterpret_cast<std::byte*>(address);
    return search(address, bytes, write);
  }

 private:
  static bool contains(const MemoryRange& range, uint64_t address, size_t bytes, bool write) {
    uint64_t offset = address - reinterpret_cast<uint64_t>(range.begin);
    return offset < range.bytes && bytes <= range.bytes - offset && (range.writable || !write);
  }
  std::byte* search(uint64_t address, size_t bytes, bool write);

  std::vector<MemoryRange> ranges_;
  MemoryRange last_;  // the one that had the address before
};

}  // namespace kiln::amdgcn_emulator

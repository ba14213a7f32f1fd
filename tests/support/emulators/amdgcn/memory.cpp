// Memory of a launch; see memory.h.
#include "memory.h"

namespace kiln::amdgcn_emulator {

std::byte* Memory::search(uint64_t address, size_t bytes, bool write) {
  for (const MemoryRange& range : ranges_)
    if (contains(range, address, bytes, write)) {
      last_ = range;
      return reinterpret_cast<std::byte*>(address);
    }
  return nullptr;
}

}  // namespace kiln::amdgcn_emulator

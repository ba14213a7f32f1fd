// Code objects for the tests: assembly, or LLVM IR compiled by LLVM's own backend; both linked by LLD in process.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "amdgcn_emulator.h"

namespace kiln::amdgcn_emulator {

// A code object of one kernel named "kernel" with the given body. s[0:1] hold the arguments' address, v0 the work item.
// Waves have 64 lanes on gfx9, 32 otherwise.
CodeObject assemble(const std::string& processor, const std::string& body);
// The same of a whole file: several kernels, their descriptors and metadata.
std::vector<std::byte> assemble_file(const std::string& processor, const std::string& text);
// IR for the AMDGPU target at -O2.
CodeObject compile(const std::string& processor, const std::string& ir);

// Packs arguments as a kernel's metadata lays them out: each aligned to its size.
class Arguments {
 public:
  template <class T>
  Arguments& add(T value) {
    size_t at = (bytes_.size() + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    bytes_.resize(at + sizeof(T));
    std::memcpy(bytes_.data() + at, &value, sizeof(T));
    return *this;
  }
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

template <class T>
MemoryRange range_of(std::vector<T>& values, bool writable = true) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size() * sizeof(T), writable};
}

}  // namespace kiln::amdgcn_emulator

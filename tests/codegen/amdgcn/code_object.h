// What a code object says of itself, read as the HSA loader would: by LLVM's "User Guide for AMDGPU Backend" ("Code
// Object V5"), from the bytes.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

namespace kiln::test {

// The 64 bytes NAME.kd.
struct KernelDescriptor {
  uint32_t group_segment_bytes = 0, private_segment_bytes = 0, kernarg_bytes = 0;
  int64_t entry_offset = 0;  // of the code, from the descriptor
  uint32_t rsrc1 = 0, rsrc2 = 0, rsrc3 = 0;
  uint16_t properties = 0, preload = 0;
  bool reserved_is_zero = false;
};

struct Symbol {
  uint64_t address = 0, bytes = 0;
  unsigned type = 0, binding = 0, visibility = 0;  // STT_, STB_, STV_
};

struct CodeObject {
  uint8_t abi = 0, abi_version = 0;  // of e_ident
  uint16_t type = 0, machine = 0;
  uint32_t flags = 0;
  Symbol entry, descriptor_symbol;  // NAME and NAME.kd; address 0 where there is none
  bool entry_is_executable = false;
  KernelDescriptor descriptor;
  nlohmann::json metadata;  // the note's MessagePack
};

// Of the kernel `entry`. A field that cannot be read stays 0; problems are listed.
CodeObject read_code_object(std::span<const std::byte> elf, const std::string& entry,
                            std::vector<std::string>& problems);

}  // namespace kiln::test

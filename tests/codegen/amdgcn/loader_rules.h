// What the HSA loader and the packet processor want of a code object, by LLVM's "User Guide for AMDGPU Backend": "ELF
// Code Object", "Kernel Descriptor", "Code Object V5 Metadata".
#pragma once

#include "code_object.h"

namespace kiln::test {

struct Gpu {
  const char* name;
  uint32_t machine;  // EF_AMDGPU_MACH of e_flags
  int lanes;         // of a wave
  int most_registers;
  bool xnack, sramecc;  // features that e_flags speak of
};
inline constexpr Gpu kGpus[] = {{"gfx906", 0x2f, 64, 256, true, true},    {"gfx90a", 0x3f, 64, 512, true, true},
                                {"gfx942", 0x4c, 64, 512, true, true},    {"gfx950", 0x4f, 64, 512, true, true},
                                {"gfx1100", 0x41, 32, 256, false, false}, {"gfx1200", 0x48, 32, 256, false, false},
                                {"gfx1250", 0x49, 32, 1024, true, true}};

// What is wrong with it, in words; nothing where all is well.
std::vector<std::string> violations(const CodeObject& object, const std::string& entry, const Gpu& gpu);

}  // namespace kiln::test

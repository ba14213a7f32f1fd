// A code object as the HSA loader reads it: the image of its segments, relocated, the kernels' descriptors, the
// metadata.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "amdgcn_emulator.h"
#include "wave.h"

namespace kiln::amdgcn_emulator {

// The kernel descriptor (64 bytes at NAME.kd) as far as a launch needs it.
struct Descriptor {
  uint32_t lds_bytes = 0;
  uint32_t scratch_bytes = 0;
  uint32_t argument_bytes = 0;
  uint64_t entry = 0;  // address
  uint32_t rsrc1 = 0;
  uint32_t rsrc2 = 0;
  uint32_t rsrc3 = 0;
  uint16_t properties = 0;
  uint16_t preload = 0;
};

struct LoadedKernel {
  Kernel kernel;
  Descriptor descriptor;
};

struct LoadedCode {
  Processor processor;
  std::vector<std::byte> storage;  // of the image, with room to align it
  std::byte* image = nullptr;      // address 0 of the ELF file
  size_t image_bytes = 0;
  std::vector<MemoryRange> segments;
  std::vector<LoadedKernel> kernels;
  std::vector<Kernel> kernel_list;  // of CodeObject::kernels
  uint64_t text_begin = 0;
  std::vector<Instruction> instructions;  // in the order of their addresses; the last one is no instruction
  std::deque<InstructionText> texts;      // of the instructions
  std::vector<Instruction> seconds;       // the second halves of VOPD pairs
  std::vector<uint32_t> instruction_at;   // of each dword of the text; the last one where no instruction begins

  const Instruction* find(uint64_t address) const;
};

}  // namespace kiln::amdgcn_emulator

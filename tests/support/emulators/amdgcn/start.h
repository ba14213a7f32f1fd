// The state in which a kernel starts: arguments, registers, LDS and private memory, as the AMDGPU ABI describes them.
#pragma once

#include <memory>
#include <vector>

#include "code_object.h"

namespace kiln::amdgcn_emulator {

class Start {
 public:
  Start(const LoadedCode& code, const LoadedKernel& kernel, const Launch& launch);

  // The waves of a workgroup, about to execute their first instruction.
  std::span<Wave*> workgroup(std::array<uint32_t, 3> id);

 private:
  void fill_arguments();
  void fill_packet();
  void start_wave(Wave& wave);
  void user_registers(Wave& wave);
  void workgroup_registers(Wave& wave, unsigned next);
  void work_items(Wave& wave);

  const LoadedCode& code_;
  const LoadedKernel& kernel_;
  const Launch& launch_;
  Memory memory_;
  Workgroup group_;
  std::vector<std::byte> arguments_;
  std::array<std::byte, 64> packet_{};  // the AQL dispatch packet
  std::vector<std::byte> scratch_;
  size_t wave_scratch_bytes_ = 0;
  std::vector<std::unique_ptr<Wave>> waves_;
  std::vector<Wave*> wave_pointers_;
};

}  // namespace kiln::amdgcn_emulator

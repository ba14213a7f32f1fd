// Runs a kernel: workgroups in order, the waves of each one after another up to the next barrier.
#include <algorithm>
#include <cstdio>

#include "bank_conflicts.h"
#include "buffer.h"
#include "code_object.h"
#include "register_index.h"
#include "start.h"

namespace kiln::amdgcn_emulator {

void Wave::jump(uint64_t address) {
  next = code->find(address);
  // Numbers of registers are decoded in the order of the text, which the wave now leaves.
  if ((instruction && instruction->high_registers) || next->high_registers)
    fail("a jump while s_set_vgpr_msb chooses registers from 256 on");
}

std::string out_of_bounds(const char* what, uint64_t address, size_t bytes) {
  char text[64];
  std::snprintf(text, sizeof text, " of %zu bytes at 0x%llx", bytes, static_cast<unsigned long long>(address));
  return std::string(what) + " out of bounds:" + text;
}

namespace {

Error fault_of(const Wave& wave, const LoadedKernel& kernel) {
  char where[200];
  const Instruction& at = *wave.instruction;
  uint64_t offset = at.address - kernel.descriptor.entry;
  std::snprintf(
      where, sizeof where, " (kernel %s, workgroup %u,%u,%u, wave %u, code offset 0x%llx: ", kernel.kernel.name.c_str(),
      wave.group->id[0], wave.group->id[1], wave.group->id[2], wave.index, static_cast<unsigned long long>(offset));
  return internal_error(wave.fault + where + at.name->line + ")");
}

// By instruction: how often waves ran it, and turns that they lost at the banks of LDS.
struct Counts {
  std::map<const Instruction*, uint64_t> runs, conflicts;
};

// Runs until the wave ends, meets a barrier or cannot go on.
void run_wave(Wave& wave, uint64_t limit, Counts* counts) {
  uint64_t executed = 0;
  while (wave.state == WaveState::kRunning) {
    const Instruction* instruction = wave.next;
    wave.instruction = instruction;
    wave.next = instruction + 1;
    if (counts) {
      ++counts->runs[instruction];
      if (const uint64_t lost = bank_conflicts(wave, *instruction)) counts->conflicts[instruction] += lost;
    }
    if (wave.mode & kModeRegisterIndex) [[unlikely]]
      execute_indexed(wave, *instruction);
    else
      instruction->execute(wave, *instruction);
    if (++executed > limit) wave.fail("the limit of instructions was reached");
    if (!wave.fault.empty()) [[unlikely]]
      break;
  }
  wave.instructions += executed;
}

class Runner {
 public:
  Runner(const LoadedCode& code, const LoadedKernel& kernel, const Launch& launch)
      : kernel_(kernel), launch_(launch), start_(code, kernel, launch) {}

  Result<Statistics> run() {
    for (uint32_t z = 0; z < launch_.grid[2]; ++z)
      for (uint32_t y = 0; y < launch_.grid[1]; ++y)
        for (uint32_t x = 0; x < launch_.grid[0]; ++x) {
          std::span<Wave*> waves = start_.workgroup({x, y, z});
          if (Result<void> done = run_workgroup(waves); !done) return done.error();
        }
    for (const auto& [instruction, count] : counts_.runs) statistics_.by_mnemonic[instruction->name->mnemonic] += count;
    for (const auto& [instruction, count] : counts_.conflicts)
      statistics_.bank_conflicts[instruction->name->line] += count;
    return statistics_;
  }

 private:
  Result<void> run_workgroup(std::span<Wave*> waves) {
    bool running = true;
    while (running) {
      running = false;
      for (size_t i = 0; i < waves.size(); ++i) {
        Wave& wave = *waves[launch_.order == WaveOrder::kForward ? i : waves.size() - 1 - i];
        uint64_t before = wave.instructions;
        run_wave(wave, launch_.instruction_limit - statistics_.wave_instructions,
                 launch_.count_mnemonics ? &counts_ : nullptr);
        statistics_.wave_instructions += wave.instructions - before;
        if (!wave.fault.empty()) return fault_of(wave, kernel_);
      }
      // All waves stand at the barrier or have ended, and ended ones are not waited for.
      for (Wave* wave : waves)
        if (wave->state == WaveState::kAtBarrier) {
          wave->state = WaveState::kRunning;
          running = true;
        }
    }
    return {};
  }

  const LoadedKernel& kernel_;
  const Launch& launch_;
  Start start_;
  Statistics statistics_;
  Counts counts_;
};

}  // namespace

Result<Statistics> run(const CodeObject& object, std::string_view name, const Launch& launch) {
  if (object.kernels().empty()) return error(ErrorCode::kNotFound, "the code object has no kernels");
  const LoadedCode& code = object.code();
  auto found = std::find_if(code.kernels.begin(), code.kernels.end(),
                            [&](const LoadedKernel& kernel) { return kernel.kernel.name == name; });
  if (found == code.kernels.end()) return error(ErrorCode::kNotFound, "no kernel " + std::string(name));
  if (launch.threads == 0 || launch.threads > 1024)
    return invalid_argument("a workgroup has between 1 and 1024 threads, not " + std::to_string(launch.threads));
  return Runner(code, *found, launch).run();
}

}  // namespace kiln::amdgcn_emulator

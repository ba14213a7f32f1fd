// Executes AMD machine code on the host: a functional model of the instructions that AMD's RDNA3/RDNA4, CDNA2/CDNA3 and
// Vega ISA guides describe. LLVM's disassembler decodes; only what an instruction does is written here. Waves of a
// workgroup run one after another up to each barrier, in order or in reverse, which shows a missing barrier as
// different results; every address is checked against the memory of the launch. Timing, wait counters and caches are
// not modelled.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::amdgcn_emulator {

// Memory of the host that a kernel may touch. Addresses of the device are those of the host.
struct MemoryRange {
  std::byte* begin = nullptr;
  size_t bytes = 0;
  bool writable = true;
};

enum class WaveOrder { kForward, kReverse };  // of the waves of a workgroup, one after another up to each barrier

struct Launch {
  std::array<uint32_t, 3> grid{1, 1, 1};           // in workgroups
  uint32_t threads = 64;                           // of a workgroup, all in x
  std::span<const std::byte> arguments;            // the explicit ones; the hidden ones follow from the metadata
  std::span<const MemoryRange> memory;             // what addresses may name besides the code object
  uint32_t dynamic_lds_bytes = 0;                  // behind the LDS that the kernel declares
  WaveOrder order = WaveOrder::kForward;           //
  uint64_t instruction_limit = uint64_t{1} << 34;  // of the whole launch, in wave instructions
  bool count_mnemonics = false;                    // fill the maps of Statistics
};

struct Statistics {
  uint64_t wave_instructions = 0;
  std::map<std::string, uint64_t> by_mnemonic;
  // Of LDS instructions, by their text: turns in which lanes waited for others at the same bank.
  std::map<std::string, uint64_t> bank_conflicts;
};

// One argument of a kernel as the metadata describes it.
struct Argument {
  std::string value_kind;  // "by_value", "global_buffer", "hidden_block_count_x", …
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

struct Kernel {
  std::string name;
  uint32_t wavefront_size = 0;
  uint32_t argument_bytes = 0;
  uint32_t lds_bytes = 0;
  uint32_t scratch_bytes = 0;  // of one lane
  uint32_t vgprs = 0;
  uint32_t sgprs = 0;
  bool dynamic_stack = false;
  std::vector<Argument> arguments;
};

struct LoadedCode;  // the image, its descriptors and its decoded instructions

// A code object in memory, decoded. Cheap to copy; may be used by several threads as long as its kernels write no
// globals.
class CodeObject {
 public:
  static Result<CodeObject> load(std::span<const std::byte> elf);

  std::string_view processor() const;  // "gfx942"
  std::span<const Kernel> kernels() const;
  const LoadedCode& code() const { return *code_; }

 private:
  std::shared_ptr<const LoadedCode> code_;
};

Result<Statistics> run(const CodeObject& object, std::string_view kernel, const Launch& launch);

}  // namespace kiln::amdgcn_emulator

// The CPU a kernel is compiled for.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <memory>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::codegen {

// What multiplies small operands of dots.
enum class DotUnit : uint8_t {
  kWiden,        // numbers of twice the width or more: f32 for bf16, i16 for bytes
  kInstruction,  // vdpbf16ps, vpdpbusd; bfdot, sdot
  kTile,         // AMX; bfmmla, smmla
};

struct DotUnits {
  DotUnit bf16 = DotUnit::kWiden;
  DotUnit bytes = DotUnit::kWiden;
  bool operator==(const DotUnits&) const = default;
};

struct CpuTarget {
  std::string name;  // as requested: "cpu:znver5,+avx512f,…"
  std::string triple;
  std::string cpu;
  std::string features;
  int vector_bytes = 16;  // width of the widest fast vector register
  int vector_registers = 16;
  bool has_fma = false;
  bool has_f16c = false;
  bool has_vnni = false;
  bool has_vnni_signs = false;  // for bytes of any two signs
  bool has_avx10_2 = false;     // conversions that saturate, min and max that give NaN
  bool has_tiles_of_f8 = false, has_tiles_of_f16 = false, has_tiles_of_tf32 = false;
  bool has_i8mm = false;
  bool has_bf16_pairs = false;  // vdpbf16ps, fast or not
  bool is_x86 = false;
  int sve_bits = 0;  // target::CpuUnits
  DotUnits dots;
  std::vector<std::string> needs;  // features that the host must have, for launchers
  std::unique_ptr<llvm::TargetMachine> machine;
};

// Registers LLVM's targets; once per process, before any other call.
void initialise_llvm();

// `name` is resolved, and not the word "cpu": "cpu:CPU[,+feature|-feature]…[;dot-bf16=UNIT][;dot-i8=UNIT][;sve=BITS]"
// (see probe.h). Error kInvalidArgument names what is unknown.
Result<std::unique_ptr<CpuTarget>> make_cpu_target(const std::string& name);

// The same, kept from one call to the next: LLVM's tables for a CPU take a millisecond to fill, and a process mostly
// compiles for one. Valid until the next call.
Result<CpuTarget*> cpu_target(const std::string& name);

}  // namespace kiln::codegen

// The AMD GPU a kernel is compiled for.
#pragma once

#include <llvm/Target/TargetMachine.h>

#include <map>
#include <memory>
#include <string>

#include "amdgcn/passes.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::amdgcn {

// Which matrix instructions there are.
enum class Matrix : uint8_t { kNone, kMfma90a, kMfma942, kWmma11, kWmma12 };

struct Processor {
  const char* name;  // "gfx942"
  int major = 0;     // 9, 11, 12
  int lanes = 64;    // of a wave
  Matrix matrix = Matrix::kNone;
  // What a SIMD has for its waves: vector registers of 32 bits a lane, in portions; accumulators are among them on
  // gfx90a and gfx942. How many waves it holds, and how many SIMDs share a compute unit's LDS.
  int registers = 256, register_portion = 4, most_waves = 10, simds = 4;
  // Floats that memory adds up by itself: of f64, and pairs of f16 and bf16.
  bool adds_f32 = false, adds_f64 = false, adds_pairs = false;
};

// LDS that a workgroup may have, and a compute unit has.
inline constexpr int64_t kLdsBytes = 65536;

struct AmdTarget {
  std::string name;  // as requested: "amd:gfx942"
  Processor processor;
  std::unique_ptr<llvm::TargetMachine> machine;
  std::map<llvm::CodeGenFileType, std::unique_ptr<CodeGenerator>> generators;  // those asked for
};

// Registers LLVM's target; once per process, before any other call.
void initialise_llvm();

// `name`: "amd:gfx942". Error kInvalidArgument names what is unknown.
Result<std::unique_ptr<AmdTarget>> make_amd_target(const std::string& name);

// The same, kept: with what is put together once for a target, for the process's later compiles.
Result<AmdTarget*> amd_target(const std::string& name);

}  // namespace kiln::codegen::amdgcn

// A processor that code is made for, of any family: what the rows of targets.def say of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/target/gpu.h"

namespace kiln::target {

enum class Family : uint8_t { kX86, kAarch64, kNvidia, kAmd };
inline bool is_gpu(Family family) { return family == Family::kNvidia || family == Family::kAmd; }

struct CpuRow {
  const char* name;  // "x86-64-v3", after "cpu:"
  Family family;
  const char* base;      // the row that it has all features of; "": none
  const char* features;  // beside them, with spaces
};
std::span<const CpuRow> cpus();
// By LLVM's names, in order.
std::vector<std::string> features_of(const CpuRow& row);

// What multiplies small operands of dots.
enum class DotUnit : uint8_t {
  kWiden,        // numbers of twice the width or more: f32 for bf16, i16 for bytes
  kInstruction,  // vdpbf16ps, vpdpbusd; bfdot, sdot
  kTile,         // AMX; bfmmla, smmla
};

// What code for a CPU depends on.
struct CpuUnits {
  bool avx2 = false;
  bool avx512 = false;  // F, BW, DQ and VL
  bool fma = false;
  bool f16_conversions = false;
  bool f16_arithmetic = false;  // of AArch64; that of x86 is left alone (docs/inside/llvm.md)
  bool atomics = false;         // of memory, of AArch64 (LSE)
  // Of AArch64's scalable vectors (SVE), for which code is made: 0 there are none, 128 code runs at any length, as it
  // takes no more of them than that, 256 and 512 at this one alone.
  int sve_bits = 0;
  DotUnit bf16 = DotUnit::kWiden, bytes = DotUnit::kWiden;
  bool avx10_2 = false;
  bool tiles_of_f8 = false, tiles_of_f16 = false, tiles_of_tf32 = false;  // where those of bf16 are in use
};
// The lengths of scalable vectors that there is code for. Another one, in bits, runs that of 128.
inline constexpr int kSveBits[] = {128, 256, 512};
// Of features by their names in targets.def; 0 without SVE.
int sve_bits(std::span<const std::string> features);
// What the CPU of this name is built with; 128 where the table has no such row.
int usual_sve_bits(std::string_view cpu);
// Of a CPU with these features, which multiplies by what such CPUs are taken to do best.
CpuUnits cpu_units(Family family, std::span<const std::string> features);

struct Processor {
  Family family = Family::kX86;
  CpuUnits cpu = {};
  const NvidiaGpu* nvidia = nullptr;
  const AmdGpu* amd = nullptr;
};

// A target of targets.def.
struct NamedTarget {
  std::string name;  // "cuda:sm_90a"
  Processor processor;
};
// All, CPUs first.
std::vector<NamedTarget> named_targets();
// By its name, with or without what stands before the colon. CPUs may have features and units behind their names, as
// `kiln compile` takes them: "cpu:x86-64-v3,+avxvnni;dot-i8=widen". The error lists what there is.
Result<NamedTarget> find_target(std::string_view name);
// "H100, H200": what has run its code; "" of what ran nowhere.
std::string_view run_on(std::string_view target);
std::vector<std::string> targets_that_ran();

}  // namespace kiln::target

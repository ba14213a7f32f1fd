// What tiles take of registers, roughly: the tiles that live at once, dealt out to the threads. How much of that is in
// registers, beside addresses and what is on its way, depends on how a kernel multiplies: f32 by threads, which hold
// parts of both operands; smaller types by matrix units, which take operands from shared memory or from registers.
#include <algorithm>
#include <bit>

#include "kiln/autotune/model.h"
#include "kiln/dsl/config.h"
#include "kiln/target/gpu.h"

namespace kiln::autotune {
namespace {

constexpr double kMostRegisters = 255;  // that a thread can have
constexpr double kTilesOfThread = 192;  // of tiles, where the compiler chooses the threads: between 128 and 512

// Shares of a thread's registers that its part of the tiles has: all configs below the first fit, all above the second
// spill.
struct Bounds {
  double fits, spills;
};
constexpr Bounds kWithoutProducts{0.45, 2.2}, kOfThreads{0.19, 1.1}, kOfMatrixUnits{0.33, 2.2};

Bounds bounds_of(const Work& work) {
  if (work.dot_flops == 0) return kWithoutProducts;
  return dsl::info(work.dot_type).bytes >= 4 ? kOfThreads : kOfMatrixUnits;
}

double threads_of(const target::Multiprocessor& unit, const Work& work, const Config& config) {
  const auto warps = config.find(std::string(dsl::kNumWarps));
  if (warps != config.end()) return static_cast<double>(warps->second * unit.lanes);
  const auto wanted = static_cast<uint64_t>(work.tile_bytes / kTilesOfThread);
  return static_cast<double>(std::clamp<uint64_t>(std::bit_ceil(std::max<uint64_t>(wanted, 1)), 128, 512));
}

}  // namespace

Fit registers_fit(const Machine& machine, const Work& work, const Config& config) {
  const target::Multiprocessor unit = target::multiprocessor_of(machine.target);
  if (unit.nvidia == nullptr) return Fit::kUnknown;
  const double threads = threads_of(unit, work, config);
  const double room = std::min(kMostRegisters, static_cast<double>(unit.nvidia->registers) / threads);
  const double share = std::max(work.tile_bytes, work.register_bytes) / 4 / threads / room;
  const Bounds bounds = bounds_of(work);
  if (share <= bounds.fits) return Fit::kFits;
  return share >= bounds.spills ? Fit::kSpills : Fit::kUnknown;
}

}  // namespace kiln::autotune

#include "kiln/target/gpu.h"

#include <algorithm>
#include <array>

namespace kiln::target {
namespace {

constexpr NvidiaGpu kNvidiaGpus[] = {
#define KILN_NVIDIA_GPU(...) {__VA_ARGS__},
#include "kiln/target/targets.def"
};

using enum AmdMatrix;
constexpr AmdGpu kAmdGpus[] = {
#define KILN_AMD_GPU(...) {__VA_ARGS__},
#include "kiln/target/targets.def"
};

template <class Gpu>
const Gpu* find(std::span<const Gpu> all, std::string_view name) {
  const auto found = std::ranges::find(all, name, [](const Gpu& gpu) { return std::string_view(gpu.name); });
  return found == all.end() ? nullptr : &*found;
}

size_t common_beginning(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// The newest of those whose names begin alike for longest.
template <class Gpu>
const Gpu& nearest(std::span<const Gpu> all, std::string_view name) {
  const Gpu* best = &all.front();
  for (const Gpu& gpu : all) {
    if (common_beginning(gpu.name, name) >= common_beginning(best->name, name)) best = &gpu;
  }
  return *best;
}

}  // namespace

std::span<const NvidiaGpu> nvidia_gpus() { return kNvidiaGpus; }
std::span<const AmdGpu> amd_gpus() { return kAmdGpus; }

const NvidiaGpu* find_nvidia_gpu(std::string_view name) { return find(nvidia_gpus(), name); }
const AmdGpu* find_amd_gpu(std::string_view name) { return find(amd_gpus(), name); }

const NvidiaGpu& nvidia_gpu(int capability) {
  const NvidiaGpu* best = &nvidia_gpus().front();
  for (const NvidiaGpu& gpu : nvidia_gpus()) {
    if (gpu.capability <= capability) best = &gpu;
  }
  return *best;
}

int64_t blocks_by_registers(const NvidiaGpu& gpu, int64_t registers, int64_t threads) {
  constexpr int64_t kUnit = NvidiaGpu::kRegisterUnit;
  return gpu.registers / ((registers + kUnit - 1) / kUnit * kUnit * threads);
}

int64_t blocks_but_for_registers(const NvidiaGpu& gpu, int64_t threads, int64_t shared_bytes) {
  return std::min(gpu.shared_bytes() / (shared_bytes + NvidiaGpu::kSystemBytes), gpu.threads / threads);
}

Multiprocessor multiprocessor_of(std::string_view target) {
  const size_t colon = target.find(':');
  const std::string_view family = target.substr(0, colon);
  const std::string_view name = colon == std::string_view::npos ? std::string_view() : target.substr(colon + 1);
  if (family == "amd") {
    const AmdGpu& gpu = nearest(amd_gpus(), name);
    return {.lanes = gpu.lanes,
            .simds = gpu.simds,
            .threads = gpu.threads(),
            .registers = int64_t{gpu.registers} * gpu.lanes * gpu.simds,
            .block_shared_bytes = gpu.lds_bytes(),
            .nvidia = nullptr};
  }
  const NvidiaGpu& gpu = nearest(nvidia_gpus(), name);
  return {.lanes = gpu.lanes,
          .simds = 4,
          .threads = gpu.threads,
          .registers = gpu.registers,
          .block_shared_bytes = gpu.block_shared_bytes(),
          .nvidia = &gpu};
}

}  // namespace kiln::target

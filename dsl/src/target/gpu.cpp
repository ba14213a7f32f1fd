#include "kiln/target/gpu.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <optional>
#include <vector>

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

struct CudaOfPtx {
  int ptx, cuda;
};
constexpr CudaOfPtx kCudaOfPtx[] = {
#define KILN_CUDA_OF_PTX(...) {__VA_ARGS__},
#include "kiln/target/targets.def"
};

constexpr std::string_view kPtxOnly = "compute_", kProcessor = "sm_";

size_t common_beginning(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

// 95 of "sm_95a"; nothing of a name that begins otherwise.
std::optional<int> number_of(std::string_view name) {
  int number = 0;
  if (!name.starts_with(kProcessor)) return std::nullopt;
  name.remove_prefix(kProcessor.size());
  const auto [end, bad] = std::from_chars(name.data(), name.data() + name.size(), number);
  return bad == std::errc() ? std::optional(number) : std::nullopt;
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

int NvidiaGpu::least_cuda() const {
  return std::ranges::find(kCudaOfPtx, ptx_version, &CudaOfPtx::ptx)->cuda;  // a test looks for all of them
}

bool is_ptx_only(std::string_view name) { return name.starts_with(kPtxOnly); }

const NvidiaGpu* find_nvidia_gpu(std::string_view name) {
  if (!is_ptx_only(name)) return find(nvidia_gpus(), name);
  const NvidiaGpu* plain = find(nvidia_gpus(), std::string(kProcessor).append(name.substr(kPtxOnly.size())));
  return plain != nullptr && !plain->is_specific ? plain : nullptr;
}
const AmdGpu* find_amd_gpu(std::string_view name) { return find(amd_gpus(), name); }

const NvidiaGpu& nvidia_gpu(int capability) {
  const NvidiaGpu* best = &nvidia_gpus().front();
  for (const NvidiaGpu& gpu : nvidia_gpus()) {
    if (gpu.capability <= capability) best = &gpu;
  }
  return *best;
}

std::string best_nvidia_name(int capability) {
  constexpr int kGeneration = 10;
  const NvidiaGpu* plain = nullptr;
  for (const NvidiaGpu& gpu : nvidia_gpus()) {
    if (gpu.is_specific && gpu.capability == capability) return gpu.name;
    if (!gpu.is_specific && gpu.capability <= capability) plain = &gpu;
  }
  if (plain == nullptr) return std::string(kProcessor) + std::to_string(capability);
  if (plain->capability / kGeneration == capability / kGeneration) return plain->name;
  return std::string(kPtxOnly) + std::to_string(plain->capability);
}

std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
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
  const NvidiaGpu* known = find_nvidia_gpu(name);
  const NvidiaGpu& gpu = known != nullptr              ? *known
                         : number_of(name).has_value() ? nvidia_gpu(*number_of(name))
                                                       : nearest(nvidia_gpus(), name);
  return {.lanes = gpu.lanes,
          .simds = 4,
          .threads = gpu.threads,
          .registers = gpu.registers,
          .block_shared_bytes = gpu.block_shared_bytes(),
          .nvidia = &gpu};
}

}  // namespace kiln::target

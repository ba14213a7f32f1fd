// What is known of the GPUs that Kiln compiles for (targets.def), and what follows from it: how much of a
// multiprocessor a block takes, and how many it holds.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace kiln::target {

// Of a block, on any GPU.
inline constexpr int kMostThreads = 1024;

// What a multiprocessor of NVIDIA's or a compute unit of AMD's has.
struct NvidiaGpu {
  const char* name;  // "sm_90a"
  int capability;    // 90
  bool is_specific;  // code runs on exactly this processor, which may have what later ones lack
  int ptx_version;   // 84: of the PTX that we write
  int lanes;         // of a warp
  int64_t threads;   // at once
  int64_t shared_kib;
  int64_t registers;  // of 32 bits

  int64_t shared_bytes() const { return shared_kib * 1024; }
  // What a block may have at most: less what the system keeps of each.
  int64_t block_shared_bytes() const { return shared_bytes() - kSystemBytes; }

  static constexpr int64_t kSystemBytes = 1024;  // of shared memory, of each block
  static constexpr int64_t kRegisterUnit = 8;    // registers of a thread are a multiple of it
};

// Which matrix instructions there are.
enum class AmdMatrix : uint8_t { kNone, kMfma90a, kMfma942, kWmma11, kWmma12 };

struct AmdGpu {
  const char* name;  // "gfx942"
  int major;         // 9, 11, 12
  int lanes;         // of a wave
  int simds;         // of a compute unit, which share its LDS
  int most_waves;    // that a SIMD holds at once
  int registers;     // of 32 bits a lane, that a SIMD has for its waves; accumulators are among them on gfx90a, gfx942
  int register_portion;  // registers of a wave are a multiple of it
  int64_t lds_kib;       // a workgroup may have all of it
  AmdMatrix matrix;
  // Floats that memory adds up by itself: of f64, and pairs of f16 and bf16.
  bool adds_f32, adds_f64, adds_pairs;

  int64_t lds_bytes() const { return lds_kib * 1024; }
  int64_t threads() const { return int64_t{lanes} * simds * most_waves; }
};

std::span<const NvidiaGpu> nvidia_gpus();
std::span<const AmdGpu> amd_gpus();

// By the processor's name; null: there is none.
const NvidiaGpu* find_nvidia_gpu(std::string_view name);
const AmdGpu* find_amd_gpu(std::string_view name);
// Of a compute capability (90), or of the one below that is known.
const NvidiaGpu& nvidia_gpu(int capability);

// Blocks that a multiprocessor holds at once as far as its registers go, and as far as all else goes; 0: none fits.
int64_t blocks_by_registers(const NvidiaGpu& gpu, int64_t registers, int64_t threads);
int64_t blocks_but_for_registers(const NvidiaGpu& gpu, int64_t threads, int64_t shared_bytes);

// What both families have of a multiprocessor.
struct Multiprocessor {
  int lanes = 32;
  int simds = 4;
  int64_t threads = 2048;
  int64_t registers = 65536;          // of 32 bits
  int64_t block_shared_bytes = 0;     // that a block may have
  const NvidiaGpu* nvidia = nullptr;  // null: AMD's
};

// Of a target ("cuda:sm_90a", "amd:gfx942"). Of a processor that is not in the table: of the newest of those whose
// names begin alike for longest, so that a device of tomorrow is taken for one of today. CPUs have none: that of a GPU.
Multiprocessor multiprocessor_of(std::string_view target);

}  // namespace kiln::target

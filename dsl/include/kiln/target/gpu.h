// What is known of the GPUs that Kiln compiles for (targets.def), and what follows from it: how much of a
// multiprocessor a block takes, and how many it holds.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "kiln/dsl/result.h"

namespace kiln::target {

// Of a block, on any GPU.
inline constexpr int kMostThreads = 1024;

// What not all processors of NVIDIA's have ("PTX ISA", target notes of each instruction), and what differs between
// those that have it. All have cp.async, ldmatrix, and mma.sync of f16, bf16, tf32, i8 and f64.
struct NvidiaUnits {
  bool f8_conversions = false;   // between f8 and f16
  bool f8_products = false;      // matrix units for f8; elsewhere ptxas makes products of f8 of those of f16
  bool bulk_copies = false;      // of boxes, by tensor maps, with transaction barriers
  bool stores_matrices = false;  // stmatrix
  bool adds_vectors = false;     // atomic sums of several words, and of bf16
  bool waits_for_grids = false;  // a kernel may begin before the last one has ended
  bool shares_loads = false;     // blocks of a cluster load for each other (multicast)
  bool moves_registers = false;  // from one group of four warps to another (setmaxnreg)
  bool group_products = false;   // wgmma
  bool tensor_memory = false;    // tcgen05: products that sum up there
  bool tensor_bytes = false;     // of bytes too
  bool block_scales = false;     // mma.sync multiplies f8, f6 and f4 by scales of 32 neighbours
  bool fast_f64 = false;         // arithmetic of f64 at half the rate of f32, not a thirty-second or less
  // What loads of a multiprocessor have to be under way for memory to be busy: its share of the bandwidth for somewhat
  // more than a microsecond.
  int64_t kib_under_way = 16;

  constexpr NvidiaUnits with(bool NvidiaUnits::* unit) const {
    NvidiaUnits out = *this;
    out.*unit = true;
    return out;
  }
};

inline constexpr NvidiaUnits kUnitsOf80{.fast_f64 = true};
inline constexpr NvidiaUnits kUnitsOf86{};
inline constexpr NvidiaUnits kUnitsOf89{.f8_conversions = true, .f8_products = true};
// 4.8 TB/s of an H200, shared by 132 multiprocessors.
inline constexpr NvidiaUnits kUnitsOf90{.f8_conversions = true,
                                        .bulk_copies = true,
                                        .stores_matrices = true,
                                        .adds_vectors = true,
                                        .waits_for_grids = true,
                                        .shares_loads = true,
                                        .fast_f64 = true,
                                        .kib_under_way = 48};
inline constexpr NvidiaUnits kUnitsOf90a =
    kUnitsOf90.with(&NvidiaUnits::moves_registers).with(&NvidiaUnits::group_products);
inline constexpr NvidiaUnits kUnitsOf100 = kUnitsOf90;
inline constexpr NvidiaUnits kUnitsOf100a =
    kUnitsOf100.with(&NvidiaUnits::moves_registers).with(&NvidiaUnits::tensor_memory).with(&NvidiaUnits::tensor_bytes);
inline constexpr NvidiaUnits kUnitsOf103{.f8_conversions = true,
                                         .bulk_copies = true,
                                         .stores_matrices = true,
                                         .adds_vectors = true,
                                         .waits_for_grids = true,
                                         .shares_loads = true,
                                         .kib_under_way = 48};
inline constexpr NvidiaUnits kUnitsOf103a =
    kUnitsOf103.with(&NvidiaUnits::moves_registers).with(&NvidiaUnits::tensor_memory);
// ptxas makes a multicast of several copies there. Memory is GDDR7.
inline constexpr NvidiaUnits kUnitsOf120{.f8_conversions = true,
                                         .f8_products = true,
                                         .bulk_copies = true,
                                         .stores_matrices = true,
                                         .adds_vectors = true,
                                         .waits_for_grids = true};
inline constexpr NvidiaUnits kUnitsOf120a =
    kUnitsOf120.with(&NvidiaUnits::moves_registers).with(&NvidiaUnits::block_scales);

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
  NvidiaUnits units;

  int64_t shared_bytes() const { return shared_kib * 1024; }
  // What a block may have at most: less what the system keeps of each.
  int64_t block_shared_bytes() const { return shared_bytes() - kSystemBytes; }
  // The first CUDA whose driver and assembler know its code: 12040 is 12.4.
  int least_cuda() const;

  static constexpr int64_t kSystemBytes = 1024;  // of shared memory, of each block
  static constexpr int64_t kRegisterUnit = 8;    // registers of a thread are a multiple of it
};

// Which matrix instructions there are.
enum class AmdMatrix : uint8_t { kNone, kMfma90a, kMfma942, kMfma950, kWmma11, kWmma12, kWmma1250 };

struct AmdGpu {
  const char* name;  // "gfx942"
  int major;         // 9, 11, 12
  int lanes;         // of a wave
  int simds;         // of a compute unit, which share its LDS
  int most_waves;    // that a SIMD holds at once
  int registers;  // of 32 bits a lane, that a SIMD has for its waves; accumulators are among them on gfx90a and later
                  // ones of 9
  int register_portion;  // registers of a wave are a multiple of it
  int64_t lds_kib;       // a workgroup may have all of it
  AmdMatrix matrix;
  // Floats that memory adds up by itself: of f64, and pairs of f16 and bf16.
  bool adds_f32, adds_f64, adds_pairs;

  bool has_mfma() const {
    return matrix == AmdMatrix::kMfma90a || matrix == AmdMatrix::kMfma942 || matrix == AmdMatrix::kMfma950;
  }
  // f8 as OCP has them; those of gfx942 have other exponents and no infinities.
  bool has_ocp_f8() const {
    return matrix == AmdMatrix::kMfma950 || matrix == AmdMatrix::kWmma12 || matrix == AmdMatrix::kWmma1250;
  }
  int64_t lds_bytes() const { return lds_kib * 1024; }
  int64_t threads() const { return int64_t{lanes} * simds * most_waves; }
};

std::span<const NvidiaGpu> nvidia_gpus();
std::span<const AmdGpu> amd_gpus();

// By the processor's name; null: there is none. "compute_90", as NVIDIA calls it, is PTX of "sm_90", which the driver
// translates for whatever is newer.
const NvidiaGpu* find_nvidia_gpu(std::string_view name);
bool is_ptx_only(std::string_view name);  // "compute_90"
const AmdGpu* find_amd_gpu(std::string_view name);
// Of a compute capability (90), or of the one below that is known; of a specific one before a plain one.
const NvidiaGpu& nvidia_gpu(int capability);
// "sm_90a" for a device of capability 90; "sm_86" for one of 87, which runs code of the plain processors of its
// generation; "compute_121" for one that is newer than all; and "sm_75" for one that is older: nobody compiles for it.
std::string best_nvidia_name(int capability);

// "12.4" of 12040.
std::string cuda_version_text(int version);

// Whether code can be made for a target ("cuda:sm_90a", "amd:gfx942"; "cuda" and "amd" are the device of this machine).
// The error names the nearest that are known. Other families are none of this function's business.
Result<void> check_gpu_target(std::string_view target);

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

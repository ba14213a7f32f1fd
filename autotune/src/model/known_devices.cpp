// Devices by their data sheets, scaled to what good kernels reach of such figures: the shares are those that
// calibration found of an H200's (4.32 of 4.8 TB/s, 759 of 989 TFLOP/s in bf16, 46 of 67 in f32, 2.6 of 4.2 T exp/s).
#include <algorithm>

#include "kiln/autotune/predict.h"

namespace kiln::autotune {
namespace {

constexpr double kMemoryShare = 0.9, kProductShare = 0.77, kArithmeticShare = 0.69, kMathShare = 0.62;
constexpr double kLaunchUs = 2.7;
// Of a multiprocessor (CUDA C++ Programming Guide, throughput of native instructions), and of a compute unit: a quarter
// of its lanes.
constexpr int kExpsAClock = 16;

struct DataSheet {
  std::string_view name;
  const char* device;
  const char* target;
  int multiprocessors;
  double gigahertz, terabytes;  // a second, of memory
  double cache_terabytes;       // of the L2 cache; 0: not published, and it is no slower than memory
  double f32, bf16, i8, f8;     // T op/s; products without sparsity
};

// NVIDIA, "A100 Tensor Core GPU" data sheet (80 GB, SXM), "L40S" data sheet. The L2 caches' rates are guesses: of an
// A100 somewhat more than half of its 5120 bytes a clock, of an L40S the same. An A100 has no matrix units for f8.
//
// Of the others nobody has published the L2 cache's rate. Nor that of mma.sync on a B200, which our code multiplies
// by: the figures are those of tcgen05, so that products take longer than predicted.
// - B200 (HGX, 1000 W) and one GPU of a GB200 (1200 W): "B200", glennklockwood.com/garden, after NVIDIA's data sheets;
//   multiprocessors and clocks: "NVIDIA B200 vs NVIDIA GB200", hmc-tech.com.
// - RTX 5090: 170 multiprocessors, 2.407 GHz, 1792 GB/s, Linux Format, May 2025; 838 T op/s of i8 without sparsity,
//   analysis.castromedia.org after NVIDIA's "GeForce RTX 50 Series". That f8 is as fast, and bf16 into f32 a quarter of
//   it: measured on an RTX 5060 Ti by github.com/QuantumDrizzy/BLACKWALL. f32: 256 operations a clock.
// - RTX PRO 6000 Blackwell: "NVIDIA RTX PRO 6000 Blackwell", hmc-tech.com; 1792 GB/s and 188 multiprocessors,
//   ferreiradozezere.net after NVIDIA's presentation at GTC 2025.
// - MI350X: 256 compute units at 2.2 GHz, which multiply 4096 times a clock in f16 and bf16, 8192 times in f8 and i8,
// and
//   do 256 operations in f32: AMD, "CDNA 4 Architecture" and "Instinct MI350X" data sheet; 8 TB/s.
// - H100 (SXM) and H200: NVIDIA's data sheets. The L2 cache's rate is what calibration found of an H200.
constexpr DataSheet kSheets[] = {
    {"a100", "NVIDIA A100 80GB", "cuda:sm_80", 108, 1.41, 2.039, 4.0, 19.5, 312, 624, 0},
    {"l40s", "NVIDIA L40S", "cuda:sm_89", 142, 2.52, 0.864, 4.0, 91.6, 362, 733, 733},
    {"h200", "NVIDIA H200", "cuda:sm_90a", 132, 1.98, 4.8, 7.8, 67, 989, 1979, 1979},
    {"h100", "NVIDIA H100", "cuda:sm_90a", 132, 1.98, 3.35, 7.8, 67, 989, 1979, 1979},
    {"b200", "NVIDIA B200", "cuda:sm_100a", 148, 1.98, 8.0, 0, 80, 2250, 4500, 4500},
    {"gb200", "NVIDIA GB200", "cuda:sm_100a", 148, 2.11, 8.0, 0, 90, 2500, 5000, 5000},
    {"rtx5090", "NVIDIA GeForce RTX 5090", "cuda:sm_120a", 170, 2.407, 1.792, 0, 104.8, 209.5, 838, 838},
    {"rtxpro6000", "NVIDIA RTX PRO 6000 Blackwell Workstation Edition", "cuda:sm_120a", 188, 2.617, 1.792, 0, 125.95,
     503.8, 1010, 1010},
    {"mi350x", "AMD Instinct MI350X", "amd:gfx950", 256, 2.2, 8.0, 0, 144.2, 2307, 4614, 4614},
};

Machine machine_of(const DataSheet& sheet) {
  constexpr double kPerUs = 1e6;  // of T/s
  Machine out;
  out.target = sheet.target;
  out.read_bytes_per_us = out.copy_bytes_per_us = kMemoryShare * sheet.terabytes * kPerUs;
  out.cache_bytes_per_us = std::max(sheet.cache_terabytes * kPerUs, out.read_bytes_per_us);
  out.f32_flops_per_us = kArithmeticShare * sheet.f32 * kPerUs;
  out.dot_flops_per_us = {{"f32", out.f32_flops_per_us},
                          {"bf16", kProductShare * sheet.bf16 * kPerUs},
                          {"f16", kProductShare * sheet.bf16 * kPerUs},
                          {"i8", kProductShare * sheet.i8 * kPerUs}};
  for (const char* f8 : {"f8e4m3", "f8e5m2"}) {
    out.dot_flops_per_us[f8] = sheet.f8 > 0 ? kProductShare * sheet.f8 * kPerUs : out.f32_flops_per_us;
  }
  out.math_per_us = kMathShare * kExpsAClock * sheet.multiprocessors * sheet.gigahertz * 1e3;
  out.launch_us = kLaunchUs;
  out.parallel = sheet.multiprocessors;
  return out;
}

}  // namespace

Result<KnownDevice> known_device(std::string_view name) {
  std::string names;
  for (const DataSheet& sheet : kSheets) {
    if (sheet.name == name) return KnownDevice{sheet.name, sheet.device, machine_of(sheet)};
    names += (names.empty() ? "" : ", ") + std::string(sheet.name);
  }
  return invalid_argument("no data sheet of `" + std::string(name) + "` is known; there are " + names);
}

std::optional<Machine> sheet_machine(const std::string& target, const std::string& hardware) {
  const DataSheet* found = nullptr;
  for (const DataSheet& sheet : kSheets) {
    if (target != sheet.target) continue;
    const bool is_named = hardware.starts_with(sheet.device);
    if (is_named || found == nullptr) found = &sheet;
    if (is_named) break;
  }
  return found ? std::optional(machine_of(*found)) : std::nullopt;
}

}  // namespace kiln::autotune

#include "host_cpu.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/abi/sve_length.h"
#include "kiln/client/artifact.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#elif defined(__x86_64__)
#include <cpuid.h>
#endif

namespace kiln::client {
namespace {

struct Feature {
  std::string_view name;
  bool here;
};

#if defined(__x86_64__)

constexpr std::string_view kArchitecture = "x86_64";

// What g++ has no names for yet (Intel's "Architecture Instruction Set Extensions Programming Reference"). The
// registers are those of AVX-512 and of AMX.
struct NewerFeatures {
  bool amx_fp16 = false, amx_fp8 = false, amx_tf32 = false, vnni_int8 = false, avx10_2 = false;
  bool more_registers = false;  // APX
};

bool keeps_more_registers() {
  constexpr unsigned kRegistersOfApx = 19;
  unsigned low, high;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low >> kRegistersOfApx & 1) != 0;
}

NewerFeatures newer_features() {
  constexpr unsigned kFeatures = 7, kTiles = 0x1e, kAvx10 = 0x24;
  const bool tiles = __builtin_cpu_supports("amx-tile") != 0;
  unsigned a = 0, b = 0, c = 0, d = 0;
  const auto bit = [](unsigned word, unsigned number) { return (word >> number & 1) != 0; };
  NewerFeatures out;
  if (__get_cpuid_count(kFeatures, 1, &a, &b, &c, &d) == 0) return out;
  out.amx_fp16 = tiles && bit(a, 21);
  out.vnni_int8 = __builtin_cpu_supports("avx2") != 0 && bit(d, 4);
  out.more_registers = bit(d, 21) && keeps_more_registers();
  const bool has_avx10 = __builtin_cpu_supports("avx512f") != 0 && bit(d, 19);
  if (tiles && __get_cpuid_count(kTiles, 1, &a, &b, &c, &d) != 0) {
    out.amx_fp8 = bit(a, 4);
    out.amx_tf32 = bit(a, 6);
  }
  if (has_avx10 && __get_cpuid_count(kAvx10, 0, &a, &b, &c, &d) != 0) out.avx10_2 = (b & 0xff) >= 2;
  return out;
}

// The processor has it and the operating system keeps its registers.
std::vector<Feature> features() {
  __builtin_cpu_init();
  const NewerFeatures newer = newer_features();
  return {
      {"sse3", __builtin_cpu_supports("sse3") != 0},
      {"ssse3", __builtin_cpu_supports("ssse3") != 0},
      {"sse4.1", __builtin_cpu_supports("sse4.1") != 0},
      {"sse4.2", __builtin_cpu_supports("sse4.2") != 0},
      {"popcnt", __builtin_cpu_supports("popcnt") != 0},
      {"avx", __builtin_cpu_supports("avx") != 0},
      {"avx2", __builtin_cpu_supports("avx2") != 0},
      {"fma", __builtin_cpu_supports("fma") != 0},
      {"f16c", __builtin_cpu_supports("f16c") != 0},
      {"bmi", __builtin_cpu_supports("bmi") != 0},
      {"bmi2", __builtin_cpu_supports("bmi2") != 0},
      {"lzcnt", __builtin_cpu_supports("lzcnt") != 0},
      {"avx512f", __builtin_cpu_supports("avx512f") != 0},
      {"avx512cd", __builtin_cpu_supports("avx512cd") != 0},
      {"avx512bw", __builtin_cpu_supports("avx512bw") != 0},
      {"avx512dq", __builtin_cpu_supports("avx512dq") != 0},
      {"avx512vl", __builtin_cpu_supports("avx512vl") != 0},
      {"avx512vnni", __builtin_cpu_supports("avx512vnni") != 0},
      {"avx512bf16", __builtin_cpu_supports("avx512bf16") != 0},
      {"avx512fp16", __builtin_cpu_supports("avx512fp16") != 0},
      {"avxvnni", __builtin_cpu_supports("avxvnni") != 0},
      {"amx-tile", __builtin_cpu_supports("amx-tile") != 0},
      {"amx-int8", __builtin_cpu_supports("amx-int8") != 0},
      {"amx-bf16", __builtin_cpu_supports("amx-bf16") != 0},
      {"amx-fp16", newer.amx_fp16},
      {"amx-fp8", newer.amx_fp8},
      {"amx-tf32", newer.amx_tf32},
      {"avxvnniint8", newer.vnni_int8},
      {"avx10.2", newer.avx10_2},
      {"egpr", newer.more_registers},
  };
}

#elif defined(__aarch64__)

constexpr std::string_view kArchitecture = "aarch64";

std::vector<Feature> features() {
  const unsigned long bits = ::getauxval(AT_HWCAP), more = ::getauxval(AT_HWCAP2);
  return {
      {"lse", (bits & HWCAP_ATOMICS) != 0},     {"fullfp16", (bits & HWCAP_ASIMDHP) != 0},
      {"dotprod", (bits & HWCAP_ASIMDDP) != 0}, {"sve", (bits & HWCAP_SVE) != 0},
      {"sve2", (more & HWCAP2_SVE2) != 0},      {"bf16", (more & HWCAP2_BF16) != 0},
      {"i8mm", (more & HWCAP2_I8MM) != 0},      {"sve256", kiln_sve_bits() == 256},
      {"sve512", kiln_sve_bits() == 512},
  };
}

#else

constexpr std::string_view kArchitecture = "unknown";
std::vector<Feature> features() { return {}; }

#endif

}  // namespace

Result<void> check_host(const abi::Metadata::Needs& needs) {
  if (!needs.architecture.empty() && needs.architecture != kArchitecture) {
    return invalid_argument("this machine is " + std::string(kArchitecture) + ", the kernel was compiled for " +
                            needs.architecture);
  }
  const std::vector<std::string>& wanted = needs.features;
  for (const Feature& feature : features()) {
    if (feature.here || std::find(wanted.begin(), wanted.end(), feature.name) == wanted.end()) continue;
    return invalid_argument("this machine lacks `" + std::string(feature.name) +
                            "`, which the kernel was compiled for");
  }
  return {};
}

std::vector<std::string> host_features() {
  std::vector<std::string> out;
  for (const Feature& feature : features()) {
    if (feature.here) out.emplace_back(feature.name);
  }
  return out;
}

}  // namespace kiln::client

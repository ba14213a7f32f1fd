#include "host_cpu.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "kiln/abi/sve_length.h"
#include "kiln/client/artifact.h"

#if defined(__aarch64__)
#include <sys/auxv.h>
#endif

namespace kiln::client {
namespace {

struct Feature {
  std::string_view name;
  bool here;
};

#if defined(__x86_64__)

constexpr std::string_view kArchitecture = "x86_64";

// The processor has it and the operating system keeps its registers.
std::vector<Feature> features() {
  __builtin_cpu_init();
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

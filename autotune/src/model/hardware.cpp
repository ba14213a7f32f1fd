#include "model/hardware.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "kiln/autotune/predict.h"
#include "kiln/client/artifact.h"
#include "kiln/client/processors.h"
#include "kiln/dsl/config.h"

namespace kiln::autotune {
namespace {

constexpr uint64_t kUsualCache = 32u << 20;

// Of a core with vectors of 512 bits, as calibration found them on a Zen 5.
constexpr double kCacheBytes = 329e3, kMemoryBytes = 49e3, kMostMemoryBytes = 300e3, kFlops = 140e3, kMath = 11e3;
constexpr double kCpuLaunchUs = 0.2;

Machine nominal_cpu(const std::string& target) {
  const std::vector<std::string> features = client::host_features();
  const auto has = [&](const char* name) { return std::ranges::find(features, name) != features.end(); };
  const double width = has("avx512f") ? 1 : has("avx2") ? 0.5 : 0.25;
  const int cores = usable_cores();
  Machine out;
  out.target = target;
  out.parallel = cores;
  out.copy_bytes_per_us = out.read_bytes_per_us = std::min(kMemoryBytes * cores, kMostMemoryBytes);
  out.cache_bytes_per_us = std::max(kCacheBytes * width * cores, out.read_bytes_per_us);
  out.f32_flops_per_us = kFlops * width * cores;
  out.dot_flops_per_us = {{"f32", out.f32_flops_per_us},
                          {"bf16", out.f32_flops_per_us * (has("avx512bf16") ? 3 : 1)},
                          {"i8", out.f32_flops_per_us * (has("avx512vnni") ? 6 : 1)}};
  out.math_per_us = kMath * width * cores;
  out.launch_us = kCpuLaunchUs;
  return out;
}

}  // namespace

uint64_t last_cache_bytes() {
  for (int name : {_SC_LEVEL4_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL2_CACHE_SIZE}) {
    if (const long bytes = ::sysconf(name); bytes > 0) return static_cast<uint64_t>(bytes);
  }
  return kUsualCache;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) return line.substr(colon + 2);
  }
  return "CPU without a name";
}

std::string cpu_hardware(int threads) {
  std::ostringstream out;
  out << cpu_name() << "; " << threads << (threads == 1 ? " thread" : " threads") << " of "
      << ::sysconf(_SC_NPROCESSORS_CONF) << " CPUs; cache " << last_cache_bytes() / 1024 << " KiB;";
  for (const std::string& feature : client::host_features()) out << " " << feature;
  return out.str();
}

int usable_cores() {
  std::set<int> cores;
  for (const client::Processor& processor : client::usable_processors()) cores.insert(processor.core);
  return std::max(1, static_cast<int>(cores.size()));
}

std::optional<Machine> nominal_machine(const std::string& target, const std::string& hardware) {
  if (dsl::target_family(target) == "cpu") return nominal_cpu(target);
  return sheet_machine(target, hardware);
}

}  // namespace kiln::autotune

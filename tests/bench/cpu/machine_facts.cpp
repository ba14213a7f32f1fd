#include "machine_facts.h"

#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include <fstream>
#include <thread>

namespace kiln::bench {
namespace {

// The value of the first line of a file of "name : value" lines that has this name.
std::string field_of(const char* file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const size_t value = line.find_first_not_of(" \t", line.find(':') + 1);
    return value == std::string::npos ? "" : line.substr(value);
  }
  return "unknown";
}

std::string caches() {
  std::string out;
  for (int i = 0; i < 8; ++i) {
    const std::string directory = "/sys/devices/system/cpu/cpu0/cache/index" + std::to_string(i) + "/";
    std::string level, type, size;
    if (!(std::ifstream(directory + "level") >> level) || !(std::ifstream(directory + "type") >> type) ||
        !(std::ifstream(directory + "size") >> size)) {
      break;
    }
    if (type == "Instruction") continue;
    out += (out.empty() ? "caches of a core: L" : ", L") + level + " " + size;
  }
  return out.empty() ? "caches unknown" : out;
}

std::string vectors() {
  const std::string flags = " " + field_of("/proc/cpuinfo", "flags") + " ";
  std::string out = "vector instructions:";
  for (const char* flag : {"avx2", "fma", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16", "amx_tile"}) {
    if (flags.find(" " + std::string(flag) + " ") != std::string::npos) out += " " + std::string(flag);
  }
  return out;
}

}  // namespace

std::vector<std::string> machine_facts() {
  utsname system{};
  uname(&system);
  char day[32] = "";
  const time_t now = time(nullptr);
  tm fields{};
  if (gmtime_r(&now, &fields)) strftime(day, sizeof day, "%Y-%m-%d", &fields);
  return {
      field_of("/proc/cpuinfo", "model name") + ", " + std::to_string(std::thread::hardware_concurrency()) + " threads",
      caches(),
      vectors(),
      "memory: " + field_of("/proc/meminfo", "MemTotal"),
      std::string(system.sysname) + " " + system.release + " " + system.machine,
      std::string("measured on ") + day};
}

}  // namespace kiln::bench

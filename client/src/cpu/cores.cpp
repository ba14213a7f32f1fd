#include "cpu/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>

#include "kiln/client/gpu.h"

namespace kiln::client {
namespace cpu {
namespace {

// Numbers behind the last slash of a link or folder: "node0/cpu3" has none for the core, sysfs' files do.
int read_int(const std::string& path, int otherwise) {
  std::ifstream file(path);
  int out = otherwise;
  return file >> out ? out : otherwise;
}

// Processors in the order in which neighbours share most: memory node, package, core.
std::vector<int> by_place(std::vector<int> cores) {
  std::map<int, std::array<int, 3>> place;
  for (const int core : cores) {
    const std::string base = "/sys/devices/system/cpu/cpu" + std::to_string(core);
    int node = 0;
    for (int candidate = 0; candidate < 1024; ++candidate) {
      if (!std::ifstream(base + "/node" + std::to_string(candidate) + "/cpulist")) continue;
      node = candidate;
      break;
    }
    place[core] = {node, read_int(base + "/topology/physical_package_id", 0),
                   read_int(base + "/topology/core_id", core)};
  }
  std::stable_sort(cores.begin(), cores.end(), [&](int a, int b) { return place[a] < place[b]; });
  return cores;
}

}  // namespace

std::vector<int> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> out;
  if (::sched_getaffinity(0, sizeof set, &set) != 0) return {0};
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(static_cast<size_t>(core), &set)) out.push_back(core);
  }
  return out;
}

Result<void> check_cores(std::span<const int> cores) {
  const std::vector<int> usable = usable_cores();
  std::vector<int> seen;
  for (const int core : cores) {
    if (std::find(usable.begin(), usable.end(), core) == usable.end()) {
      return invalid_argument("this process may not run on processor " + std::to_string(core));
    }
    if (std::find(seen.begin(), seen.end(), core) != seen.end()) {
      return invalid_argument("processor " + std::to_string(core) + " is named twice");
    }
    seen.push_back(core);
  }
  return {};
}

}  // namespace cpu

Result<std::vector<std::vector<int>>> split_cores(int parts) {
  const std::vector<int> cores = cpu::by_place(cpu::usable_cores());
  if (parts < 1 || static_cast<size_t>(parts) > cores.size()) {
    return invalid_argument("this process has " + std::to_string(cores.size()) + " processors, which do not make " +
                            std::to_string(parts) + " parts");
  }
  std::vector<std::vector<int>> out;
  const auto count = cores.size(), n = static_cast<size_t>(parts);
  for (size_t part = 0; part < n; ++part) {
    out.emplace_back(cores.begin() + static_cast<std::ptrdiff_t>(part * count / n),
                     cores.begin() + static_cast<std::ptrdiff_t>((part + 1) * count / n));
  }
  return out;
}

}  // namespace kiln::client

#include "cpu/cores.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "kiln/client/gpu.h"
#include "kiln/client/processors.h"

namespace kiln::client {
namespace cpu {
namespace {

int read_int(const std::string& file, int otherwise) {
  int out = otherwise;
  return std::ifstream(file) >> out ? out : otherwise;
}

int node_of(const std::string& sysfs) {
  for (int node = 0; node < 1024; ++node) {
    if (std::ifstream(sysfs + "/node" + std::to_string(node) + "/cpulist")) return node;
  }
  return 0;
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

std::vector<Processor> usable_processors() {
  std::vector<Processor> out;
  std::vector<std::pair<int, int>> places;  // package, and the core's number there
  for (const int number : cpu::usable_cores()) {
    const std::string sysfs = "/sys/devices/system/cpu/cpu" + std::to_string(number);
    out.push_back({number, cpu::node_of(sysfs), 0});
    places.emplace_back(cpu::read_int(sysfs + "/topology/physical_package_id", 0),
                        cpu::read_int(sysfs + "/topology/core_id", number));
  }
  std::map<std::pair<int, int>, int> cores;
  for (const auto& place : places) cores[place];
  int next = 0;
  for (auto& [place, core] : cores) core = next++;
  for (size_t i = 0; i < out.size(); ++i) out[i].core = cores[places[i]];
  return out;
}

Result<std::vector<std::vector<int>>> split_cores(int parts) {
  std::vector<Processor> processors = usable_processors();
  std::ranges::stable_sort(processors, {}, [](const Processor& p) { return std::pair(p.node, p.core); });
  std::vector<int> cores;
  for (const Processor& processor : processors) cores.push_back(processor.number);
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

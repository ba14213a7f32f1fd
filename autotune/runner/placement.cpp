#include "placement.h"

#include <sched.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <set>
#include <string>

#include "kiln/wire/channel.h"

namespace kiln::autotune {
namespace {

constexpr const char* kPlaced = "KILN_RUNNER_PLACED";
constexpr int kPriority = -20;

int topology(int cpu, const char* what) {
  std::ifstream file("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/" + what);
  int value = -1;
  return file >> value ? value : -1;
}

Result<std::vector<int>> allowed_cpus() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
    return wire::errno_error(ErrorCode::kInternal, "sched_getaffinity", errno);
  }
  std::vector<int> out;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<size_t>(cpu), &allowed)) out.push_back(cpu);
  }
  return out;
}

}  // namespace

Result<std::vector<int>> choose_cpus(int threads) {
  auto allowed = allowed_cpus();
  if (!allowed) return allowed.error();
  std::vector<int> out;
  std::set<std::pair<int, int>> cores;
  for (int cpu : *allowed) {
    const int core = topology(cpu, "core_id");
    // Where the kernel does not tell, each CPU is a core.
    const bool first = core < 0 || cores.emplace(topology(cpu, "physical_package_id"), core).second;
    if (first) out.push_back(cpu);
  }
  if (threads > static_cast<int>(out.size())) {
    return invalid_argument(std::to_string(threads) + " threads: this process may use " + std::to_string(out.size()) +
                            " cores");
  }
  if (threads > 0) out.resize(static_cast<size_t>(threads));
  return out;
}

Result<std::vector<int>> place_threads(int threads, char** arguments) {
  if (::secure_getenv(kPlaced)) {
    ::unsetenv(kPlaced);
    return allowed_cpus();
  }
  auto cpus = choose_cpus(threads);
  if (!cpus) return cpus.error();
  // Before other processes, where the system allows it: a launch ends when the last of its threads has had its turn.
  (void)::setpriority(PRIO_PROCESS, 0, kPriority);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : *cpus) CPU_SET(static_cast<size_t>(cpu), &set);
  if (::sched_setaffinity(0, sizeof set, &set) != 0) {
    return wire::errno_error(ErrorCode::kInternal, "sched_setaffinity", errno);
  }
  // Threads tie themselves. Where OpenMP does it one thread ties the other, by a call that reaches any process.
  ::setenv("OMP_PROC_BIND", "false", 1);
  for (const char* name : {"OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) ::unsetenv(name);
  ::setenv("OMP_NUM_THREADS", std::to_string(cpus->size()).c_str(), 1);
  ::setenv("OMP_DYNAMIC", "false", 1);
  ::setenv(kPlaced, "1", 1);
  ::execv("/proc/self/exe", arguments);
  return wire::errno_error(ErrorCode::kInternal, "cannot start itself anew", errno);
}

}  // namespace kiln::autotune

#include "parallel.h"

#include <omp.h>

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "kiln/wire/crash_report.h"
#include "lifetime.h"
#include "openmp_for_tsan.h"

namespace kiln::client {
namespace {

// For the thread that called fork(), in the child: OpenMP would wait for threads that it has in the parent only.
void on_new_threads(int parts, const std::function<void(int, int)>& part) {
  std::vector<std::jthread> others;
  int begun = 1;
  try {
    for (; begun < parts; ++begun) others.emplace_back(wire::reporting([&part, begun, parts] { part(begun, parts); }));
  } catch (const std::system_error&) {  // no more threads: the rest is done here
  }
  part(0, parts);
  for (; begun < parts; ++begun) part(begun, parts);
}

}  // namespace

int threads_to_use(int wanted) {
  if (omp_in_parallel()) return 1;
  return std::max(wanted > 0 ? wanted : omp_get_max_threads(), 1);
}

void in_parallel(int threads, const std::function<void(int, int)>& part) {
  if (threads == 1) return part(0, 1);
  if (is_forked_thread()) return on_new_threads(threads, part);
#pragma omp parallel num_threads(threads)
  {
    wire::report_overflows_here();
    part(omp_get_thread_num(), omp_get_num_threads());
  }
}

}  // namespace kiln::client

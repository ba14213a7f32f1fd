#include "parallel.h"

#include <omp.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <latch>
#include <system_error>
#include <thread>
#include <vector>

#include "kiln/wire/crash_report.h"
#include "lifetime.h"
#include "openmp_for_tsan.h"
#include "signals.h"

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

// A thread that has been joined counts among the user's until the kernel is done with it, which takes a moment.
void wait_until_gone(const std::vector<pid_t>& threads) {
  const auto give_up = std::chrono::steady_clock::now() + std::chrono::milliseconds(100);
  for (const pid_t thread : threads) {
    while (thread != 0 && ::tgkill(::getpid(), thread, 0) == 0 && std::chrono::steady_clock::now() < give_up)
      std::this_thread::yield();
  }
}

// How many threads of so many can be had at once beside those that there are.
int beginnable(int wanted) {
  std::vector<pid_t> numbers(static_cast<size_t>(wanted));
  int begun = 0;
  {
    std::vector<std::jthread> threads;
    threads.reserve(numbers.size());
    std::latch go(1);
    const SignalsBlocked inherited_by_the_threads;
    try {
      for (pid_t& number : numbers) {
        threads.emplace_back(wire::reporting([&go, &number] {
          number = ::gettid();
          go.wait();
        }));
        ++begun;
      }
    } catch (const std::system_error&) {  // as many as that
    }
    go.count_down();
  }
  wait_until_gone(numbers);
  return begun;
}

// The size of a team that OpenMP can make for the calling thread. Where it cannot begin a thread (a limit of processes,
// a control group's, no memory for a stack) GCC's ends the process; so what a team needs beyond the last one's threads,
// which wait for this one, is tried first, once for each larger team that this thread asks for.
int team_size(int wanted) {
  constexpr auto kRest = std::chrono::seconds(1);  // after fewer than wanted
  thread_local int last = 1, largest = 1;
  thread_local std::chrono::steady_clock::time_point again{};
  int size = std::min(wanted, largest);
  if (size < wanted && std::chrono::steady_clock::now() >= again) {
    size = std::max(size, std::min(last, wanted) + beginnable(wanted - std::min(last, wanted)));
    largest = std::max(largest, size);
    if (size < wanted) again = std::chrono::steady_clock::now() + kRest;
  }
  return last = size;
}

}  // namespace

int threads_to_use(int wanted) {
  if (omp_in_parallel()) return 1;
  return std::max(wanted > 0 ? wanted : omp_get_max_threads(), 1);
}

bool parts_run_at_once() { return !is_forked_thread(); }

void in_parallel(int threads, const std::function<void(int, int)>& part) {
  if (threads == 1) return part(0, 1);
  if (is_forked_thread()) return on_new_threads(threads, part);
  threads = team_size(threads);
  if (threads == 1) return part(0, 1);
#pragma omp parallel num_threads(threads)
  {
    wire::report_overflows_here();
    part(omp_get_thread_num(), omp_get_num_threads());
  }
}

}  // namespace kiln::client

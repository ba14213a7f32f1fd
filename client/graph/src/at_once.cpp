#include "at_once.h"

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>
#include <vector>

#include "kiln/wire/crash_report.h"
#include "signals.h"

namespace kiln::client {
namespace {

constexpr size_t kMostAtOnce = 16;

}  // namespace

void at_once(size_t count, const std::function<void(size_t)>& call) {
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) call(i);
  };
  std::vector<std::jthread> threads;
  try {
    const SignalsBlocked inherited_by_the_threads;
    while (threads.size() < std::min(count, kMostAtOnce)) threads.emplace_back(wire::reporting([&] { work(); }));
  } catch (const std::system_error&) {  // no more threads: these and this one do it
  }
  work();
}

}  // namespace kiln::client

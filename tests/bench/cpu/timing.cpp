#include "timing.h"

#include <time.h>

#include <algorithm>
#include <numeric>

namespace kiln::bench {

double seconds(int threads, int repeats, const std::function<void()>& work) {
  auto now = [&] {
    timespec time{};
    clock_gettime(threads == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  for (int i = 0; i < repeats; ++i) work();
  return (now() - start) / repeats;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

void evict_caches() {
#pragma omp parallel
  {
    static thread_local std::vector<long> other(size_t{1} << 20);  // 8 MiB
    std::iota(other.begin(), other.end(), other[0]);
  }
}

}  // namespace kiln::bench

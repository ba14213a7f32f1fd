#include "ceilings.h"

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>

namespace kiln::quickstart {
namespace {

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

// The best of several runs: a ceiling is what the machine can do, not what it does among neighbours.
double best(int runs, const std::function<void()>& work) {
  double least = seconds(work);
  for (int i = 1; i < runs; ++i) least = std::min(least, seconds(work));
  return least;
}

constexpr int kChains = 12;
constexpr int kSteps = 4'000'000;

__attribute__((target("avx512f"))) float fma_avx512(int steps) {
  __m512 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 x = _mm512_set1_ps(0.999f), y = _mm512_set1_ps(0.001f);
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (auto& s : sum) s = _mm512_fmadd_ps(s, x, y);
  }
  float total = 0;
  for (auto& s : sum) total += _mm512_cvtss_f32(s);
  return total;
}

__attribute__((target("avx2,fma"))) float fma_avx2(int steps) {
  __m256 sum[kChains];
  for (int i = 0; i < kChains; ++i) sum[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 x = _mm256_set1_ps(0.999f), y = _mm256_set1_ps(0.001f);
  for (int step = 0; step < steps; ++step) {
#pragma GCC unroll 12
    for (auto& s : sum) s = _mm256_fmadd_ps(s, x, y);
  }
  float total = 0;
  for (auto& s : sum) total += _mm256_cvtss_f32(s);
  return total;
}

double measure_fma(int threads, int runs) {
  const bool wide = __builtin_cpu_supports("avx512f"), fma = __builtin_cpu_supports("fma");
  if (!wide && !fma) return 0;
  volatile float sink = 0;
  const double time = best(runs, [&] {
#pragma omp parallel num_threads(threads)
    {
      const float result = wide ? fma_avx512(kSteps) : fma_avx2(kSteps);
#pragma omp critical
      sink = sink + result;
    }
  });
  return 2.0 * kChains * kSteps * (wide ? 16 : 8) * threads / time / 1e9;
}

struct Arrays {
  explicit Arrays(size_t n) : count(n), from(new float[n]), to(new float[n]) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; ++i) from[i] = to[i] = 1;
  }
  size_t count;
  std::unique_ptr<float[]> from, to;
};

double measure_copy(Arrays& arrays, int runs) {
  const double time = best(runs, [&] {
    float *from = arrays.from.get(), *to = arrays.to.get();
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < arrays.count; i += 1024) std::copy_n(from + i, 1024, to + i);
  });
  return 8.0 * static_cast<double>(arrays.count) / time / 1e9;
}

double measure_read(Arrays& arrays, int runs) {
  volatile float sink = 0;
  const double time = best(runs, [&] {
    const float* from = arrays.from.get();
    float total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
    for (size_t i = 0; i < arrays.count; i += 64) {
      // One load a cache line, four sums at a time: reading is the limit, not adding.
      total += (from[i] + from[i + 16]) + (from[i + 32] + from[i + 48]);
    }
    sink = total;
  });
  return 4.0 * static_cast<double>(arrays.count) / time / 1e9;
}

}  // namespace

Ceilings measure_ceilings(bool small) {
  Ceilings out;
  const int runs = small ? 2 : 7;
  out.threads = omp_get_max_threads();
  Arrays arrays(size_t{1} << (small ? 22 : 26));
  out.copy_gbs = measure_copy(arrays, runs);
  out.read_gbs = std::max(measure_read(arrays, runs), out.copy_gbs);
  out.fma_gflops = measure_fma(out.threads, runs);
  return out;
}

}  // namespace kiln::quickstart

#include "ceilings.h"

#include <immintrin.h>
#include <omp.h>
#include <time.h>

#include <algorithm>
#include <memory>

#include "buffer.h"

namespace kiln::quickstart {
namespace {

// Of one thread the time that it ran, which neighbours on a shared machine disturb less.
double now() {
  timespec time{};
  clock_gettime(omp_get_max_threads() == 1 ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

template <class F>
double seconds(F work) {
  const double start = now();
  work();
  return now() - start;
}

constexpr int kChains = 12;
constexpr int kSteps = 1'000'000;

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

double measure_fma() {
  const bool wide = __builtin_cpu_supports("avx512f"), fma = __builtin_cpu_supports("fma");
  if (!wide && !fma) return 0;
  volatile float sink = 0;
  const int threads = omp_get_max_threads();
  const double time = seconds([&] {
#pragma omp parallel num_threads(threads)
    {
      const float result = wide ? fma_avx512(kSteps) : fma_avx2(kSteps);
#pragma omp critical
      sink = sink + result;
    }
  });
  return 2.0 * kChains * kSteps * (wide ? 16 : 8) * threads / time / 1e9;
}

// ---- copies and reads of `count` floats, a multiple of kUnit ----

constexpr size_t kUnit = 1024;

__attribute__((target("avx512f"))) void copy_wide(float* to, const float* from, size_t count) {
  for (size_t i = 0; i < count; i += 64) {
#pragma GCC unroll 4
    for (size_t k = 0; k < 64; k += 16) _mm512_storeu_ps(to + i + k, _mm512_loadu_ps(from + i + k));
  }
}

void copy_narrow(float* to, const float* from, size_t count) {
  for (size_t i = 0; i < count; i += kUnit) std::copy_n(from + i, kUnit, to + i);
}

// Past the caches, which saves reading what is overwritten. Both start at a cache line.
void copy_past(float* to, const float* from, size_t count) {
  for (size_t i = 0; i < count; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
  _mm_sfence();
}

// Eight sums at a time: reading is the limit, not adding.
__attribute__((target("avx512f"))) float read_wide(const float* from, size_t count) {
  __m512 sums[8] = {};
  for (size_t i = 0; i < count; i += 128) {
#pragma GCC unroll 8
    for (size_t k = 0; k < 8; ++k) sums[k] = _mm512_add_ps(sums[k], _mm512_loadu_ps(from + i + 16 * k));
  }
  float total = 0;
  for (const __m512& sum : sums) total += _mm512_cvtss_f32(sum);
  return total;
}

float read_narrow(const float* from, size_t count) {
  __m128 sums[8] = {};
  for (size_t i = 0; i < count; i += 32) {
#pragma GCC unroll 8
    for (size_t k = 0; k < 8; ++k) sums[k] = _mm_add_ps(sums[k], _mm_load_ps(from + i + 4 * k));
  }
  float total = 0;
  for (const __m128& sum : sums) total += _mm_cvtss_f32(sum);
  return total;
}

}  // namespace

struct Ceilings::Arrays {
  explicit Arrays(size_t n) : count(n), from(n), to(n) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; ++i) from[i] = to[i] = 1;
  }

  // Seconds of one sweep(offset, count) over `floats` of the arrays by all threads, each of which takes its part as
  // often as it needs for a stretch of time that a clock can measure.
  template <class F>
  double sweep_seconds(size_t floats, F sweep) const {
    const size_t repeats = std::max<size_t>(1, (size_t{1} << 20) / floats);
    return seconds([&] {
#pragma omp parallel
             {
               const auto threads = static_cast<size_t>(omp_get_num_threads()),
                          self = static_cast<size_t>(omp_get_thread_num());
               const size_t units = floats / kUnit, begin = units * self / threads, end = units * (self + 1) / threads;
               for (size_t i = 0; i < repeats; ++i) sweep(begin * kUnit, (end - begin) * kUnit);
             }
           }) /
           static_cast<double>(repeats);
  }

  // The fastest of the ways to store.
  double copy(double bytes) const {
    const size_t floats = rounded(bytes / 8);
    auto with = [&](auto way) {
      return sweep_seconds(floats, [&](size_t at, size_t n) { way(to.get() + at, from.get() + at, n); });
    };
    double least = std::min(with(copy_narrow), with(copy_past));
    if (__builtin_cpu_supports("avx512f")) least = std::min(least, with(copy_wide));
    return 8.0 * static_cast<double>(floats) / least / 1e9;
  }

  double read(double bytes) const {
    const size_t floats = rounded(bytes / 4);
    const bool wide = __builtin_cpu_supports("avx512f");
    volatile float sink = 0;
    const double time = sweep_seconds(floats, [&](size_t at, size_t n) {
      const float total = wide ? read_wide(from.get() + at, n) : read_narrow(from.get() + at, n);
#pragma omp critical
      sink = sink + total;
    });
    return 4.0 * static_cast<double>(floats) / time / 1e9;
  }

  size_t rounded(double floats) const {
    return std::max(kUnit, static_cast<size_t>(std::min(floats, static_cast<double>(count))) / kUnit * kUnit);
  }

  size_t count;
  Buffer<float> from, to;
};

int64_t panel_width() {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return 64;
#endif
  return 16;
}

Ceilings::Ceilings(bool small) : arrays_(std::make_unique<Arrays>(size_t{1} << (small ? 22 : 26))) {}
Ceilings::~Ceilings() = default;

double Ceilings::measure(Limit limit, double bytes) {
  switch (limit) {
    case Limit::kCopy:
      return arrays_->copy(bytes);
    case Limit::kRead:
      return arrays_->read(bytes);
    case Limit::kFma:
      break;
  }
  return measure_fma();
}

}  // namespace kiln::quickstart

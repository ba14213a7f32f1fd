#include "ceilings.h"

#include <immintrin.h>
#include <omp.h>

#include <algorithm>
#include <chrono>
#include <memory>

namespace kiln::quickstart {
namespace {

template <class F>
double seconds(F work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
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

}  // namespace

// Far larger than the caches.
struct Ceilings::Arrays {
  explicit Arrays(size_t n) : count(n), from(new float[n]), to(new float[n]) {
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < n; ++i) from[i] = to[i] = 1;
  }

  // The faster of two ways to store: through the caches, or past them, which saves reading what is overwritten.
  double copy() {
    const double through = seconds([&] {
#pragma omp parallel for schedule(static)
      for (size_t i = 0; i < count; i += 1024) std::copy_n(&from[i], 1024, &to[i]);
    });
    const double past = seconds([&] {
#pragma omp parallel
      {
#pragma omp for schedule(static)
        for (size_t i = 0; i < count; i += 4) _mm_stream_ps(&to[i], _mm_loadu_ps(&from[i]));
        _mm_sfence();
      }
    });
    return 8.0 * static_cast<double>(count) / std::min(through, past) / 1e9;
  }

  double read() {
    volatile float sink = 0;
    const double time = seconds([&] {
      float total = 0;
#pragma omp parallel for schedule(static) reduction(+ : total)
      for (size_t start = 0; start < count; start += 4096) {
        // Eight sums at a time: reading is the limit, not adding.
        __m128 sums[8] = {};
        for (size_t i = start; i < start + 4096; i += 32) {
#pragma GCC unroll 8
          for (size_t k = 0; k < 8; ++k) sums[k] = _mm_add_ps(sums[k], _mm_loadu_ps(&from[i + 4 * k]));
        }
        for (const __m128& sum : sums) total += _mm_cvtss_f32(sum);
      }
      sink = total;
    });
    return 4.0 * static_cast<double>(count) / time / 1e9;
  }

  size_t count;
  std::unique_ptr<float[]> from, to;
};

Ceilings::Ceilings(bool small) : arrays_(std::make_unique<Arrays>(size_t{1} << (small ? 22 : 26))) {}
Ceilings::~Ceilings() = default;

double Ceilings::measure(Limit limit) {
  switch (limit) {
    case Limit::kCopy:
      return arrays_->copy();
    case Limit::kRead:
      return arrays_->read();
    case Limit::kFma:
      break;
  }
  return measure_fma();
}

}  // namespace kiln::quickstart

#include <random>

#include "case_makers.h"

namespace kiln::quickstart {
namespace {

// fill(generator, begin, end), chunk by chunk on all threads.
template <class F>
void by_chunks(size_t count, uint32_t seed, F fill) {
  constexpr size_t kChunk = 1 << 16;
#pragma omp parallel for schedule(static)
  for (size_t start = 0; start < count; start += kChunk) {
    std::minstd_rand generator(static_cast<uint32_t>(seed * 7919 + start / kChunk + 1));
    fill(generator, start, std::min(count, start + kChunk));
  }
}

}  // namespace

Buffer<float> normals(size_t count, uint32_t seed) {
  Buffer<float> out = allocate<float>(count);
  by_chunks(count, seed, [&](std::minstd_rand& generator, size_t begin, size_t end) {
    // The sum of four uniforms: near enough to normal and quick.
    std::uniform_real_distribution<float> uniform(-0.8660254f, 0.8660254f);
    for (size_t i = begin; i < end; ++i) {
      out[i] = uniform(generator) + uniform(generator) + uniform(generator) + uniform(generator);
    }
  });
  return out;
}

template <class M>
Buffer<M> elements(size_t count, uint32_t seed) {
  Buffer<float> wide = normals(count, seed);
  Buffer<M> out = allocate<M>(count);
#pragma omp parallel for schedule(static)
  for (size_t i = 0; i < count; ++i) {
    if constexpr (std::is_same_v<M, int8_t>) {
      out[i] = static_cast<int8_t>(std::clamp(wide[i] * 40, -128.0f, 127.0f));
    } else {
      out[i] = M::from(wide[i]);
    }
  }
  return out;
}
template <>
Buffer<float> elements<float>(size_t count, uint32_t seed) {
  return normals(count, seed);
}
template Buffer<bf16> elements<bf16>(size_t, uint32_t);
template Buffer<f16> elements<f16>(size_t, uint32_t);
template Buffer<int8_t> elements<int8_t>(size_t, uint32_t);

Buffer<int32_t> ints(size_t count, int32_t low, int32_t high, uint32_t seed) {
  Buffer<int32_t> out = allocate<int32_t>(count);
  by_chunks(count, seed, [&](std::minstd_rand& generator, size_t begin, size_t end) {
    std::uniform_int_distribution<int32_t> uniform(low, high - 1);
    for (size_t i = begin; i < end; ++i) out[i] = uniform(generator);
  });
  return out;
}

size_t place(size_t sample, size_t salt, size_t limit) {
  uint64_t state = sample * 0x9E3779B97F4A7C15 + salt * 0xD1B54A32D192ED03;
  state ^= state >> 32;
  state *= 0xD6E8FEB86659FD93;
  return (state ^ state >> 32) % limit;
}

Check both(const Check& a, const Check& b) { return {std::max(a.error, b.error), a.passed && b.passed}; }

std::string shape_text(std::initializer_list<int64_t> extents) {
  std::string out;
  for (int64_t extent : extents) out += (out.empty() ? "" : "×") + std::to_string(extent);
  return out;
}

}  // namespace kiln::quickstart

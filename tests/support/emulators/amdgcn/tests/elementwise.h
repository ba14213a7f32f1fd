// Kernels that apply one expression of LLVM IR to each element of their inputs.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "build.h"

namespace kiln::amdgcn_emulator {

// define kernel @map(out, a, b, c): out[i] = %r, for which `body` computes %r of %a, %b, %c.
std::string map_kernel(const std::string& result, const std::string& input, const std::string& body,
                       const std::string& declarations = "");

// Random bits, every class of numbers among them: as many ordinary values as wild ones.
template <class T>
std::vector<T> random_values(size_t count, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i) {
    uint64_t bits = random();
    if constexpr (std::is_floating_point_v<T>) {
      if (i % 2 == 0) {
        values[i] = static_cast<T>(std::uniform_real_distribution<double>(-100, 100)(random));
        continue;
      }
    } else if (i % 3 == 0) {
      bits = bits % 17 - 8;
    }
    std::memcpy(&values[i], &bits, sizeof(T));
  }
  return values;
}

template <class R, class T>
std::vector<R> run_map(const CodeObject& object, const std::vector<T>& a, const std::vector<T>& b,
                       const std::vector<T>& c) {
  std::vector<R> out(a.size());
  std::vector<T> x = a, y = b, z = c;
  std::vector<MemoryRange> memory = {range_of(out), range_of(x, false), range_of(y, false), range_of(z, false)};
  Arguments arguments;
  arguments.add(out.data()).add(x.data()).add(y.data()).add(z.data());
  Launch launch;
  launch.grid = {static_cast<uint32_t>(a.size() / 128), 1, 1};
  launch.threads = 128;
  launch.arguments = arguments.bytes();
  launch.memory = memory;
  Result<Statistics> result = run(object, "map", launch);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return out;
}

// Bits that must agree: NaNs are all the same.
template <class R>
uint64_t comparable(R value) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  if constexpr (std::is_floating_point_v<R>)
    if (std::isnan(value)) return ~uint64_t{0};
  return bits;
}

template <class R, class T, class F>
void expect_map(const std::string& processor, const std::string& ir, F expected) {
  SCOPED_TRACE(ir.substr(ir.find("%c = load")));
  CodeObject object = compile(processor, ir);
  if (object.kernels().empty()) return;
  auto a = random_values<T>(512, 1), b = random_values<T>(512, 2), c = random_values<T>(512, 3);
  std::vector<R> out = run_map<R, T>(object, a, b, c);
  for (size_t i = 0; i < out.size(); ++i) {
    R want = expected(a[i], b[i], c[i]);
    ASSERT_EQ(comparable(out[i]), comparable(want))
        << processor << " element " << i << " of " << +a[i] << ", " << +b[i] << ", " << +c[i];
  }
}

}  // namespace kiln::amdgcn_emulator

// Runs kernels of the library, interpreted and compiled, and compares what they wrote with float64 references.
//
// Tests named RealShapes run compiled code only, on shapes of real models; KILN_KERNELS_FULL=1 runs the long list.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <type_traits>

#include "harness.h"
#include "kiln/dsl/kernels.h"
#include "sampled.h"

namespace kiln::test {

namespace lang = dsl::lang;

// The C++ type of an element in memory.
template <class T>
using Memory = typename dsl::LaunchType<T>::type;

using Arguments = std::vector<TestArgument>;
using Checker = std::function<void(const Arguments& out)>;

inline TestArgument int_of(int64_t value) { return scalar_bits(static_cast<uint64_t>(value)); }
inline TestArgument float_of(float value) { return scalar_bits(std::bit_cast<uint32_t>(value)); }
inline TestArgument double_of(double value) { return scalar_bits(std::bit_cast<uint64_t>(value)); }

// N(0, 1) as the type holds it.
std::vector<float> normals(size_t count, uint32_t seed);
template <class T>
std::vector<Memory<T>> normals_of(size_t count, uint32_t seed, double scale = 1, double mean = 0) {
  std::vector<Memory<T>> out(count);
  const std::vector<float> real = normals(count, seed);
  for (size_t i = 0; i < count; ++i) {
    const double value = mean + scale * double{real[i]};
    if constexpr (std::is_same_v<T, lang::f32>) {
      out[i] = static_cast<float>(value);
    } else {
      out[i] = Memory<T>::from(value);
    }
  }
  return out;
}
std::vector<int32_t> ints(size_t count, int32_t low, int32_t high, uint32_t seed);  // of [low, high)
// A buffer of elements that no kernel should leave behind.
template <class T>
TestArgument empty(size_t count) {
  TestArgument out;
  out.is_buffer = true;
  out.buffer.assign(count * sizeof(T), std::byte{0x5b});
  return out;
}

template <class M>
std::vector<double> reals(const std::vector<M>& values) {
  std::vector<double> out(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if constexpr (std::is_arithmetic_v<M>) {
      out[i] = static_cast<double>(values[i]);
    } else {
      out[i] = static_cast<double>(static_cast<float>(values[i]));
    }
  }
  return out;
}
template <class T>
std::vector<double> reals(const TestArgument& argument) {
  return reals(values_of<Memory<T>>(argument));
}

// Runs copies of the arguments and hands them to the checker; once more with facts, which not all cases do in the
// default run (sampled.h).
void check_compiled(const Result<dsl::Kernel>& ir, const dsl::ConstexprValues& config, const Arguments& arguments,
                    const Checker& check);
void check_both(const Result<dsl::Kernel>& ir, const dsl::ConstexprValues& config, const Arguments& arguments,
                const Checker& check);
bool full();  // KILN_KERNELS_FULL

// f.operator()<T>() for the floats that the library has kernels of; in the default run for one of those of 16 bits, by
// turns.
template <class F>
void for_floats(F f) {
  const bool is_brain = is_sampled(2), has_both = runs_all_cases() || full();
  f.template operator()<lang::f32>();
  if (has_both || is_brain) f.template operator()<lang::bf16>();
  if (has_both || !is_brain) f.template operator()<lang::f16>();
}

// docs/reference/ops.md: |out - expected| ≤ atol + rtol·|expected|. Of what is summed, `magnitude` stands in for
// |expected|: a sum may be near zero.
template <class T>
inline constexpr double rtol_v = std::is_same_v<T, lang::f16>    ? 1e-3
                                 : std::is_same_v<T, lang::bf16> ? 1.6e-2
                                                                 : 1.3e-6;
void expect_close(const std::vector<double>& out, const std::vector<double>& expected, double rtol,
                  const std::vector<double>& magnitude = {});
template <class T>
void expect_close(const TestArgument& out, const std::vector<double>& expected,
                  const std::vector<double>& magnitude = {}) {
  expect_close(reals<T>(out), expected, rtol_v<T>, magnitude);
}
// ‖out - expected‖ / ‖expected‖ is below the bound for a dot of depth K whose result has this type.
void expect_norm(const std::vector<double>& out, const std::vector<double>& expected, double bound);
template <class T>
void expect_product(const TestArgument& out, const std::vector<double>& expected, size_t depth) {
  const bool exact = std::is_same_v<T, lang::i32>, wide = std::is_same_v<T, lang::f32>;
  const double bound = exact ? 0 : wide ? 3e-8 * std::sqrt(static_cast<double>(depth)) + 1e-7 : 1e-2;
  expect_norm(reals<T>(out), expected, bound);
}

template <class M>
void expect_equal(const TestArgument& out, const std::vector<M>& expected) {
  const std::vector<M> actual = values_of<M>(out);
  ASSERT_EQ(actual.size(), expected.size());
  size_t wrong = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] != expected[i] && ++wrong <= 3) {
      ADD_FAILURE() << "at " << i << ": " << actual[i] << " instead of " << expected[i];
    }
  }
  EXPECT_EQ(wrong, 0u);
}

}  // namespace kiln::test

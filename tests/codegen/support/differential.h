// Runs kernels in text form compiled for several CPUs and interpreted, and compares what they wrote.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "harness.h"

namespace kiln::test {

// "" (this machine) and the generic levels of x86-64 that this machine runs. x86-64-v2 has no FMA.
std::vector<std::string> cpu_targets();
// These CPUs, and the lowering for GPUs, emulated.
std::vector<std::string> all_targets();
// The same for the first case of a test; for each further one a CPU, by turns, AMD's processors, and every other time
// the emulated one (sampled.h).
std::vector<std::string> some_targets();
bool has_fma(const std::string& target);

// How a buffer's elements are compared. NaN equals NaN.
struct Match {
  double rtol = 0;
  double atol = 0;
  bool any_zero = false;  // zeros of either sign are equal
};
inline constexpr Match kExact{};

// Number of elements that differ; explains the first few.
size_t count_differences(dsl::ElementType type, const std::vector<std::byte>& actual,
                         const std::vector<std::byte>& expected, const Match& match, std::string& explanation,
                         size_t first_byte = 0, size_t last_byte = ~size_t{0});

// Random elements: ints over the whole range, floats N(0, 1) mixed with special values.
TestArgument random_buffer(dsl::ElementType type, size_t count, uint32_t seed, bool specials = true);
TestArgument int_scalar(int64_t value);

dsl::Kernel parse_kernel(const std::string& text);

struct Trial {
  std::vector<TestArgument> arguments;
  Match match;
  std::vector<std::string> targets = some_targets();  // all of them, of what reproduces a bug
};
// All buffers after the run must match, on every target. The text is shown where they do not.
void expect_same(const std::string& text, const Trial& run);
void expect_same(const dsl::Kernel& kernel, const std::string& text, const Trial& run);

// What a launch that fails has in common with the interpreter: its error's code, its message too, what CPUs leave in
// memory too.
enum class FailureMatch { kCode, kWords, kMemory };
// The launch fails on every target, and its message has `part`.
void expect_same_failure(const std::string& text, const std::vector<TestArgument>& arguments, const std::string& part,
                         FailureMatch match = FailureMatch::kMemory);

// Writes kernels: one line an op, pointer tiles of row-major arrays, masks.
class TextKernel {
 public:
  using Shape = std::vector<int64_t>;

  // `params` as in the grammar: "%x: ptr<f32>, %n: i32".
  explicit TextKernel(const std::string& params) : params_(params) {}

  // A line as it is.
  TextKernel& line(const std::string& text);
  // `expression` under a fresh name, which is returned.
  std::string op(const std::string& expression);
  std::string constant(const std::string& value, const std::string& type);
  // A constant spread over a shape.
  std::string fill(const std::string& value, const std::string& type, const Shape& shape);
  std::string splat(const std::string& scalar, const Shape& shape);
  // arange along one axis, spread over the shape.
  std::string along(const Shape& shape, size_t axis);
  // Row-major index of each element; `strides` default to the dense ones.
  std::string index(const Shape& shape, Shape strides = {});
  // A pointer tile of a row-major array that starts `offset` elements behind the parameter.
  std::string pointers(const std::string& param, const Shape& shape, int64_t offset = 0, Shape strides = {});
  // Index along each axis is below the scalar i32 parameter named for it ("" for no bound).
  std::string mask(const Shape& shape, const std::vector<std::string>& bounds);
  std::string text() const { return "kernel test(" + params_ + ") {\n  grid [" + grid + "]\n" + body_ + "}\n"; }
  static std::string list(const Shape& shape);

  std::string grid = "1, 1, 1";

 private:
  std::string params_, body_;
  int next_ = 0;
};

}  // namespace kiln::test

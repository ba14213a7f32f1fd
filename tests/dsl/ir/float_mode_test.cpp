// The float mode of the caller's thread changes neither what constants and texts mean nor what the interpreter
// computes.
#include "kiln/dsl/float_mode.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "caller_mode.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/kernel.h"
#include "kiln/dsl/text.h"

namespace kiln::dsl {
namespace {

using test::bits_of_mode;
using test::caller_modes;
using test::in_mode;

// Results are taken with the mode still set and looked at without it.
template <class Compute>
void expect_same_in_all_modes(Compute compute) {
  const auto expected = compute();
  for (const test::CallerMode& mode : caller_modes()) {
    auto actual = decltype(expected){};
    const uint64_t left = in_mode(mode, [&] { actual = compute(); });
    EXPECT_EQ(actual, expected) << mode.name;
    EXPECT_EQ(left, bits_of_mode(mode)) << mode.name;
  }
}

TEST(FloatMode, IsGivenBack) {
  for (const test::CallerMode& mode : caller_modes()) {
    uint64_t inside = 0;
    const uint64_t left = in_mode(mode, [&] {
      const FloatMode own;
      inside = test::mode_bits();
    });
    EXPECT_EQ(inside, bits_of_mode({})) << mode.name;
    EXPECT_EQ(left, bits_of_mode(mode)) << mode.name;
  }
}

TEST(FloatMode, FlagsOfExceptionsAreGivenBack) {
  std::feclearexcept(FE_ALL_EXCEPT);
  {
    const FloatMode own;
    volatile float one = 1, three = 3;
    one = one / three;
  }
  EXPECT_EQ(std::fetestexcept(FE_INEXACT), 0);
}

// Subnormals, halves, the largest; all types.
TEST(FloatMode, ConversionsOfNumbers) {
  expect_same_in_all_modes([] {
    std::vector<uint64_t> out;
    for (const double number :
         {0x1p-149, -0x1p-140, 1.1, -1.1, 0x1.000001p0, 65519.9, 3.0e-8, 1e-310, 448.5, 0x1p-17}) {
      for (const ElementType type : {ElementType::kF16, ElementType::kBF16, ElementType::kF32, ElementType::kF64,
                                     ElementType::kF8E4M3, ElementType::kF8E5M2}) {
        out.push_back(bits_from_double(type, number));
        out.push_back(std::bit_cast<uint64_t>(double_from_bits(type, out.back())));
        out.push_back(bits_from_int(type, static_cast<int64_t>(number * 0x1p20) * 1000003));
      }
    }
    out.push_back(std::bit_cast<uint64_t>(double_from_bits(ElementType::kI64, 0x7fffffffffffffff)));
    out.push_back(std::bit_cast<uint64_t>(double_from_bits(ElementType::kU64, 0xfffffffffffffbff)));
    return out;
  });
}

TEST(FloatMode, NumbersOfTexts) {
  const char* text =
      "kernel k(%p: ptr<f32>) {\n  grid [1, 1, 1]\n  %a = constant {value = 1e-40, type = f32} : f32\n"
      "  %b = constant {value = 0.1, type = f32} : f32\n  %c = constant {value = 4.9e-324, type = f64} : f64\n"
      "  %d = constant {value = 5.9e-08, type = f16} : f16\n  %e = constant {value = 0.3, type = bf16} : bf16\n"
      "  %s = add %a, %b : f32\n  store %p, %s\n}\n";
  expect_same_in_all_modes([&] {
    auto kernel = parse(text, "k.kiln");
    return kernel ? print(*kernel) : kernel.error().message;
  });
}

TEST(FloatMode, NumbersOfCpp) {
  expect_same_in_all_modes([] {
    const auto def = lang::kernel("k", {"p"}, [](lang::Ptr<lang::f32> p) {
      lang::store(p, lang::load(p) * 1e-40f + 0.1);
      lang::store(p + 1, lang::zeros(lang::f32_t, {}) + 16777215);
    });
    auto ir = def.ir();
    return ir ? print(*ir) : ir.error().message;
  });
}

TEST(FloatMode, Interpreter) {
  auto kernel = parse(R"(
kernel k(%x: ptr<f32> readonly, %y: ptr<f32>, %z: ptr<f64>, %h: ptr<f16>) {
  grid [1, 1, 1]
  %i = arange {start = 0, end = 8} : tile<[8], i32>
  %xs = splat %x {shape = [8]} : tile<[8], ptr<f32>>
  %xp = addptr %xs, %i : tile<[8], ptr<f32>>
  %v = load %xp : tile<[8], f32>
  %three = constant {value = 3.0, type = f32} : f32
  %t = splat %three {shape = [8]} : tile<[8], f32>
  %q = div %v, %t : tile<[8], f32>
  %e = math %v {fn = exp} : tile<[8], f32>
  %s = mul %q, %e : tile<[8], f32>
  %ys = splat %y {shape = [8]} : tile<[8], ptr<f32>>
  %yp = addptr %ys, %i : tile<[8], ptr<f32>>
  store %yp, %s
  %w = cast %v {to = f64} : tile<[8], f64>
  %l = math %w {fn = sin} : tile<[8], f64>
  %zs = splat %z {shape = [8]} : tile<[8], ptr<f64>>
  %zp = addptr %zs, %i : tile<[8], ptr<f64>>
  store %zp, %l
  %n = cast %q {to = f16} : tile<[8], f16>
  %hs = splat %h {shape = [8]} : tile<[8], ptr<f16>>
  %hp = addptr %hs, %i : tile<[8], ptr<f16>>
  store %hp, %n
})",
                      "k.kiln");
  ASSERT_TRUE(kernel.ok()) << kernel.error().message;
  auto concrete = instantiate(*kernel, {}, {});
  ASSERT_TRUE(concrete.ok()) << concrete.error().message;
  expect_same_in_all_modes([&] {
    const std::vector<uint32_t> x = {0x00000007, 0x3f800001, 0xbf8ccccd, 0x00800001,
                                     0x40490fdb, 0x3dcccccd, 0x338fffff, 1};
    std::vector<uint64_t> out(4 + 8 + 2);
    const std::vector<Argument> arguments = {
        {const_cast<uint32_t*>(x.data()), 8, 0}, {out.data(), 8, 0}, {out.data() + 4, 8, 0}, {out.data() + 12, 8, 0}};
    auto done = interpret(*concrete, arguments, {1, 1, 1});
    if (!done) out.clear();
    return out;
  });
}

}  // namespace
}  // namespace kiln::dsl

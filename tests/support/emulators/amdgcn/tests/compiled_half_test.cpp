// f16, bf16 and packed arithmetic that LLVM's AMDGPU backend compiles, against the host's own 16-bit types.
#include "elementwise.h"

namespace kiln::amdgcn_emulator {
namespace {

class Half : public testing::TestWithParam<const char*> {
 protected:
  std::string gfx() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Gfx, Half,
                         testing::Values("gfx942", "gfx1100", "gfx90a", "gfx1200", "gfx906", "gfx950", "gfx1250"),
                         [](const auto& param) { return std::string(param.param); });

_Float16 half(uint16_t bits) { return std::bit_cast<_Float16>(bits); }
// As comparable(): every NaN the same.
uint16_t bits(_Float16 value) { return value != value ? 0x7e00 : std::bit_cast<uint16_t>(value); }

template <class F>
void expect_halves(const std::string& gfx, const std::string& body, const std::string& declarations, F expected) {
  SCOPED_TRACE(gfx + ": " + body);
  CodeObject object = compile(gfx, map_kernel("half", "half", body, declarations));
  auto a = random_values<uint16_t>(2048, 1), b = random_values<uint16_t>(2048, 2), c = random_values<uint16_t>(2048, 3);
  std::vector<uint16_t> out = run_map<uint16_t, uint16_t>(object, a, b, c);
  for (size_t i = 0; i < out.size(); ++i)
    ASSERT_EQ(bits(half(out[i])), bits(expected(half(a[i]), half(b[i]), half(c[i]))))
        << std::hex << a[i] << " " << b[i] << " " << c[i];
}

TEST_P(Half, ComputesAsTheHost) {
  using H = _Float16;
  expect_halves(gfx(), "%r = fadd half %a, %b", "", [](H a, H b, H) { return static_cast<H>(a + b); });
  expect_halves(gfx(), "%r = fsub half %a, %b", "", [](H a, H b, H) { return static_cast<H>(a - b); });
  expect_halves(gfx(), "%r = fmul half %a, %b", "", [](H a, H b, H) { return static_cast<H>(a * b); });
  expect_halves(gfx(), "%r = fdiv half %a, %b", "", [](H a, H b, H) { return static_cast<H>(a / b); });
  expect_halves(gfx(), "%r = call half @llvm.fma.f16(half %a, half %b, half %c)",
                "declare half @llvm.fma.f16(half, half, half)", [](H a, H b, H c) {
                  return static_cast<H>(static_cast<double>(a) * static_cast<double>(b) + static_cast<double>(c));
                });
  expect_halves(gfx(), "%r = call half @llvm.sqrt.f16(half %a)", "declare half @llvm.sqrt.f16(half)",
                [](H a, H, H) { return static_cast<H>(std::sqrt(static_cast<float>(a))); });
  expect_halves(gfx(), "%r = call half @llvm.floor.f16(half %a)", "declare half @llvm.floor.f16(half)",
                [](H a, H, H) { return static_cast<H>(std::floor(static_cast<float>(a))); });
}

TEST_P(Half, ConvertsToAndFromWiderFloats) {
  expect_map<float, uint16_t>(gfx(), map_kernel("float", "half", "%r = fpext half %a to float"),
                              [](uint16_t a, uint16_t, uint16_t) { return static_cast<float>(half(a)); });
  expect_map<uint16_t, float>(gfx(), map_kernel("i16", "float", R"(
  %h = fptrunc float %a to half
  %n = fcmp uno half %h, %h
  %bits = bitcast half %h to i16
  %r = select i1 %n, i16 32256, i16 %bits)"),
                              [](float a, float, float) { return bits(static_cast<_Float16>(a)); });
  expect_map<uint16_t, double>(gfx(), map_kernel("i16", "double", R"(
  %h = fptrunc double %a to half
  %n = fcmp uno half %h, %h
  %bits = bitcast half %h to i16
  %r = select i1 %n, i16 32256, i16 %bits)"),
                               [](double a, double, double) { return bits(static_cast<_Float16>(a)); });
  expect_map<uint32_t, uint16_t>(
      gfx(), map_kernel("i32", "half", R"(
  %f = fcmp ult half %a, 0xH7BFF
  %g = fcmp ugt half %a, 0xHFBFF
  %o = and i1 %f, %g
  %x = select i1 %o, half %a, half 0.0
  %y = fcmp uno half %x, %x
  %z = select i1 %y, half 0.0, half %x
  %r = fptosi half %z to i32)"),
      [](uint16_t a, uint16_t, uint16_t) {
        float x = static_cast<float>(half(a));
        return static_cast<uint32_t>(std::isnan(x) || std::fabs(x) >= 65504 ? 0 : static_cast<int32_t>(x));
      });
}

uint16_t brain(float value) {
  uint32_t raw = std::bit_cast<uint32_t>(value);
  if (std::isnan(value)) return 0x7fc0;
  return static_cast<uint16_t>((raw + 0x7fff + (raw >> 16 & 1)) >> 16);
}

TEST_P(Half, RoundsToBrainFloats) {
  expect_map<uint16_t, float>(gfx(), map_kernel("i16", "float", R"(
  %h = fptrunc float %a to bfloat
  %n = fcmp uno float %a, %a
  %bits = bitcast bfloat %h to i16
  %r = select i1 %n, i16 32704, i16 %bits)"),
                              [](float a, float, float) { return brain(a); });
  expect_map<float, uint16_t>(gfx(), map_kernel("float", "bfloat", "%r = fpext bfloat %a to float"),
                              [](uint16_t a, uint16_t, uint16_t) { return std::bit_cast<float>(uint32_t{a} << 16); });
}

template <class F>
uint32_t both_halves(uint32_t a, uint32_t b, F operation) {
  auto low = operation(static_cast<uint16_t>(a), static_cast<uint16_t>(b));
  auto high = operation(static_cast<uint16_t>(a >> 16), static_cast<uint16_t>(b >> 16));
  return static_cast<uint32_t>(low & 0xffff) | static_cast<uint32_t>(high) << 16;
}

TEST_P(Half, PacksTwo) {
  auto kernel = [](const std::string& operation) {
    return map_kernel("<2 x i16>", "<2 x i16>", "%r = " + operation + " <2 x i16> %a, %b");
  };
  expect_map<uint32_t, uint32_t>(gfx(), kernel("add"), [](uint32_t a, uint32_t b, uint32_t) {
    return both_halves(a, b, [](uint16_t x, uint16_t y) { return static_cast<uint16_t>(x + y); });
  });
  expect_map<uint32_t, uint32_t>(gfx(), kernel("mul"), [](uint32_t a, uint32_t b, uint32_t) {
    return both_halves(a, b, [](uint16_t x, uint16_t y) { return static_cast<uint16_t>(uint32_t{x} * y); });
  });
  std::string halves = R"(
  %x = bitcast i32 %a to <2 x half>
  %y = bitcast i32 %b to <2 x half>
  %n = fneg <2 x half> %y
  %w = shufflevector <2 x half> %n, <2 x half> poison, <2 x i32> <i32 1, i32 0>
  %s = fadd <2 x half> %x, %w
  %u = fcmp uno <2 x half> %s, %s
  %t = bitcast <2 x half> %s to <2 x i16>
  %v = select <2 x i1> %u, <2 x i16> <i16 32256, i16 32256>, <2 x i16> %t
  %r = bitcast <2 x i16> %v to i32)";
  expect_map<uint32_t, uint32_t>(gfx(), map_kernel("i32", "i32", halves), [](uint32_t a, uint32_t b, uint32_t) {
    return both_halves(a, b << 16 | b >> 16,
                       [](uint16_t x, uint16_t y) { return bits(static_cast<_Float16>(half(x) - half(y))); });
  });
}

}  // namespace
}  // namespace kiln::amdgcn_emulator

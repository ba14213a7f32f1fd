// Arithmetic that LLVM's AMDGPU backend expands (divisions, roots, conversions, 64-bit integers), against the host over
// random inputs of every class.
#include <algorithm>

#include "elementwise.h"

namespace kiln::amdgcn_emulator {
namespace {

class Arithmetic : public testing::TestWithParam<const char*> {
 protected:
  std::string gfx() const { return GetParam(); }
};
INSTANTIATE_TEST_SUITE_P(Gfx, Arithmetic,
                         testing::Values("gfx942", "gfx1100", "gfx90a", "gfx1200", "gfx906", "gfx950", "gfx1250"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(Arithmetic, FloatDivisionIsIeee) {
  expect_map<float, float>(gfx(), map_kernel("float", "float", "%r = fdiv float %a, %b"),
                           [](float a, float b, float) { return a / b; });
  expect_map<double, double>(gfx(), map_kernel("double", "double", "%r = fdiv double %a, %b"),
                             [](double a, double b, double) { return a / b; });
}

TEST_P(Arithmetic, SquareRootIsIeee) {
  expect_map<float, float>(
      gfx(),
      map_kernel("float", "float", "%r = call float @llvm.sqrt.f32(float %a)", "declare float @llvm.sqrt.f32(float)"),
      [](float a, float, float) { return std::sqrt(a); });
  expect_map<double, double>(gfx(),
                             map_kernel("double", "double", "%r = call double @llvm.sqrt.f64(double %a)",
                                        "declare double @llvm.sqrt.f64(double)"),
                             [](double a, double, double) { return std::sqrt(a); });
}

TEST_P(Arithmetic, FusedMultiplyAddRoundsOnce) {
  expect_map<float, float>(gfx(),
                           map_kernel("float", "float", "%r = call float @llvm.fma.f32(float %a, float %b, float %c)",
                                      "declare float @llvm.fma.f32(float, float, float)"),
                           [](float a, float b, float c) { return std::fma(a, b, c); });
  expect_map<float, float>(gfx(), map_kernel("float", "float", "%m = fmul float %a, %b\n %r = fadd float %m, %c"),
                           [](float a, float b, float c) { return a * b + c; });
}

TEST_P(Arithmetic, RoundsToIntegersAsTheHost) {
  for (const char* name : {"floor", "ceil", "trunc", "rint", "fabs", "roundeven"}) {
    std::string function = std::string("@llvm.") + name + ".f32";
    expect_map<float, float>(gfx(),
                             map_kernel("float", "float", "%r = call float " + function + "(float %a)",
                                        "declare float " + function + "(float)"),
                             [&](float a, float, float) {
                               std::string_view n = name;
                               return n == "floor"   ? std::floor(a)
                                      : n == "ceil"  ? std::ceil(a)
                                      : n == "trunc" ? std::trunc(a)
                                      : n == "fabs"  ? std::fabs(a)
                                                     : std::nearbyint(a);
                             });
  }
}

template <class I>
I saturated(double value) {
  if (std::isnan(value)) return 0;
  double low = static_cast<double>(std::numeric_limits<I>::min()),
         high = static_cast<double>(std::numeric_limits<I>::max());
  return value <= low    ? std::numeric_limits<I>::min()
         : value >= high ? std::numeric_limits<I>::max()
                         : static_cast<I>(value);
}

TEST_P(Arithmetic, ConvertsFloatsToIntegers) {
  std::string to_signed = "declare i32 @llvm.fptosi.sat.i32.f32(float)";
  expect_map<int32_t, float>(gfx(),
                             map_kernel("i32", "float", "%r = call i32 @llvm.fptosi.sat.i32.f32(float %a)", to_signed),
                             [](float a, float, float) { return saturated<int32_t>(a); });
  std::string to_unsigned = "declare i32 @llvm.fptoui.sat.i32.f32(float)";
  expect_map<uint32_t, float>(
      gfx(), map_kernel("i32", "float", "%r = call i32 @llvm.fptoui.sat.i32.f32(float %a)", to_unsigned),
      [](float a, float, float) { return saturated<uint32_t>(a); });
  std::string to_long = "declare i64 @llvm.fptosi.sat.i64.f64(double)";
  expect_map<int64_t, double>(gfx(),
                              map_kernel("i64", "double", "%r = call i64 @llvm.fptosi.sat.i64.f64(double %a)", to_long),
                              [](double a, double, double) { return saturated<int64_t>(a); });
}

TEST_P(Arithmetic, ConvertsIntegersToFloats) {
  expect_map<float, int32_t>(gfx(), map_kernel("float", "i32", "%r = sitofp i32 %a to float"),
                             [](int32_t a, int32_t, int32_t) { return static_cast<float>(a); });
  expect_map<float, uint32_t>(gfx(), map_kernel("float", "i32", "%r = uitofp i32 %a to float"),
                              [](uint32_t a, uint32_t, uint32_t) { return static_cast<float>(a); });
  expect_map<float, int64_t>(gfx(), map_kernel("float", "i64", "%r = sitofp i64 %a to float"),
                             [](int64_t a, int64_t, int64_t) { return static_cast<float>(a); });
  expect_map<double, uint64_t>(gfx(), map_kernel("double", "i64", "%r = uitofp i64 %a to double"),
                               [](uint64_t a, uint64_t, uint64_t) { return static_cast<double>(a); });
  expect_map<float, double>(gfx(), map_kernel("float", "double", "%r = fptrunc double %a to float"),
                            [](double a, double, double) { return static_cast<float>(a); });
  expect_map<double, float>(gfx(), map_kernel("double", "float", "%r = fpext float %a to double"),
                            [](float a, float, float) { return static_cast<double>(a); });
}

template <class T>
T divided(T a, T b) {
  if (b == 0 || (std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1))) return 7;
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0 || (std::is_signed_v<T> && a == std::numeric_limits<T>::min() && b == static_cast<T>(-1))) return 7;
  return static_cast<T>(a % b);
}

// a op b where that is defined, otherwise 7.
std::string guarded(const std::string& type, const std::string& operation, const std::string& least) {
  return "%zero = icmp eq " + type + " %b, 0\n %minus = icmp eq " + type + " %b, -1\n %least = icmp eq " + type +
         " %a, " + least + "\n %over = and i1 %minus, %least\n %bad = or i1 %zero, %over\n %d = select i1 %bad, " +
         type + " 1, " + type + " %b\n %q = " + operation + " " + type + " %a, %d\n %r = select i1 %bad, " + type +
         " 7, " + type + " %q";
}

TEST_P(Arithmetic, DividesIntegers) {
  expect_map<int32_t, int32_t>(gfx(), map_kernel("i32", "i32", guarded("i32", "sdiv", "-2147483648")),
                               [](int32_t a, int32_t b, int32_t) { return divided(a, b); });
  expect_map<int32_t, int32_t>(gfx(), map_kernel("i32", "i32", guarded("i32", "srem", "-2147483648")),
                               [](int32_t a, int32_t b, int32_t) { return remainder(a, b); });
  expect_map<int64_t, int64_t>(gfx(), map_kernel("i64", "i64", guarded("i64", "sdiv", "-9223372036854775808")),
                               [](int64_t a, int64_t b, int64_t) { return divided(a, b); });
  expect_map<int16_t, int16_t>(gfx(), map_kernel("i16", "i16", guarded("i16", "sdiv", "-32768")),
                               [](int16_t a, int16_t b, int16_t) { return divided(a, b); });
  expect_map<int8_t, int8_t>(gfx(), map_kernel("i8", "i8", guarded("i8", "srem", "-128")),
                             [](int8_t a, int8_t b, int8_t) { return remainder(a, b); });
  std::string unsigned_division =
      "%zero = icmp eq i64 %b, 0\n %d = select i1 %zero, i64 1, i64 %b\n %r = udiv i64 %a, %d";
  expect_map<uint64_t, uint64_t>(gfx(), map_kernel("i64", "i64", unsigned_division),
                                 [](uint64_t a, uint64_t b, uint64_t) { return a / (b ? b : 1); });
  std::string rest = "%zero = icmp eq i32 %b, 0\n %d = select i1 %zero, i32 1, i32 %b\n %r = urem i32 %a, %d";
  expect_map<uint32_t, uint32_t>(gfx(), map_kernel("i32", "i32", rest),
                                 [](uint32_t a, uint32_t b, uint32_t) { return a % (b ? b : 1); });
}

TEST_P(Arithmetic, MultipliesAndShifts64Bits) {
  expect_map<uint64_t, uint64_t>(gfx(), map_kernel("i64", "i64", "%m = mul i64 %a, %b\n %r = add i64 %m, %c"),
                                 [](uint64_t a, uint64_t b, uint64_t c) { return a * b + c; });
  expect_map<uint64_t, uint64_t>(
      gfx(), map_kernel("i64", "i64", "%s = and i64 %b, 63\n %t = shl i64 %a, %s\n %r = sub i64 %t, %c"),
      [](uint64_t a, uint64_t b, uint64_t c) { return (a << (b & 63)) - c; });
  expect_map<int64_t, int64_t>(
      gfx(), map_kernel("i64", "i64", "%s = and i64 %b, 63\n %t = ashr i64 %a, %s\n %r = xor i64 %t, %c"),
      [](int64_t a, int64_t b, int64_t c) { return (a >> (b & 63)) ^ c; });
  expect_map<uint64_t, uint64_t>(
      gfx(),
      map_kernel("i64", "i64", "%w = icmp ult i64 %a, %b\n %x = select i1 %w, i64 %c, i64 %a\n %r = lshr i64 %x, 7"),
      [](uint64_t a, uint64_t b, uint64_t c) { return (a < b ? c : a) >> 7; });
}

TEST_P(Arithmetic, CountsAndMovesBits) {
  struct Case {
    const char* name;
    uint32_t (*expected)(uint32_t);
  };
  const Case cases[] = {
      {"ctpop", [](uint32_t a) { return static_cast<uint32_t>(std::popcount(a)); }},
      {"bswap", [](uint32_t a) { return __builtin_bswap32(a); }},
      {"bitreverse",
       [](uint32_t a) {
         uint32_t r = 0;
         for (int i = 0; i < 32; ++i) r = r << 1 | (a >> i & 1);
         return r;
       }},
  };
  for (const Case& c : cases)
    expect_map<uint32_t, uint32_t>(
        gfx(),
        map_kernel("i32", "i32", std::string("%r = call i32 @llvm.") + c.name + ".i32(i32 %a)",
                   std::string("declare i32 @llvm.") + c.name + ".i32(i32)"),
        [&](uint32_t a, uint32_t, uint32_t) { return c.expected(a); });
  std::string leading = "declare i32 @llvm.ctlz.i32(i32, i1)\ndeclare i32 @llvm.cttz.i32(i32, i1)";
  expect_map<uint32_t, uint32_t>(
      gfx(),
      map_kernel("i32", "i32",
                 "%l = call i32 @llvm.ctlz.i32(i32 %a, i1 false)\n %t = call i32 @llvm.cttz.i32(i32 %b, i1 false)\n"
                 " %s = shl i32 %l, 8\n %r = or i32 %s, %t",
                 leading),
      [](uint32_t a, uint32_t b, uint32_t) {
        return static_cast<uint32_t>(std::countl_zero(a) << 8 | std::countr_zero(b));
      });
  expect_map<uint32_t, uint32_t>(gfx(),
                                 map_kernel("i32", "i32", "%r = call i32 @llvm.fshl.i32(i32 %a, i32 %b, i32 %c)",
                                            "declare i32 @llvm.fshl.i32(i32, i32, i32)"),
                                 [](uint32_t a, uint32_t b, uint32_t c) {
                                   uint64_t both = uint64_t{a} << 32 | b;
                                   return static_cast<uint32_t>(both << (c & 31) >> 32);
                                 });
}

template <class T>
T clamped(int64_t value) {
  return static_cast<T>(std::clamp<int64_t>(value, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

TEST_P(Arithmetic, SaturatesIntegers) {
  auto check = [&]<class T>(T, const std::string& type, const std::string& name, auto expected) {
    std::string function = "@llvm." + name + "." + type;
    expect_map<T, T>(gfx(),
                     map_kernel(type, type, "%r = call " + type + " " + function + "(" + type + " %a, " + type + " %b)",
                                "declare " + type + " " + function + "(" + type + ", " + type + ")"),
                     [&](T a, T b, T) { return clamped<T>(expected(int64_t{a}, int64_t{b})); });
  };
  auto sum = [](int64_t a, int64_t b) { return a + b; };
  auto difference = [](int64_t a, int64_t b) { return a - b; };
  check(int32_t{}, "i32", "sadd.sat", sum);
  check(uint32_t{}, "i32", "uadd.sat", sum);
  check(uint32_t{}, "i32", "usub.sat", difference);
  check(int32_t{}, "i32", "ssub.sat", difference);
  check(int16_t{}, "i16", "sadd.sat", sum);
  check(uint16_t{}, "i16", "usub.sat", difference);
  check(int16_t{}, "i16", "smax", [](int64_t a, int64_t b) { return std::max(a, b); });
  check(uint32_t{}, "i32", "umin", [](int64_t a, int64_t b) { return std::min(a, b); });
}

}  // namespace
}  // namespace kiln::amdgcn_emulator

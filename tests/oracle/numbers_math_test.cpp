// The error of every elementary function, inside the bounds of docs/reference/ops.md.
#include <algorithm>
#include <cmath>

#include "numbers.h"
#include "numbers_known.h"
#include "reference/cast.h"
#include "reference/floats.h"
#include "reference/inputs.h"
#include "reference/math.h"
#include "reference/tolerance.h"

namespace kiln::oracle {
namespace {

namespace ref = kiln::reference;

struct Bound {
  const char* function;
  int f32, f64;  // ulp
  bool odd = false;
};
// The table of docs/reference/ops.md, in its order.
constexpr Bound kUnary[] = {{"exp", 2, 4},        {"exp2", 2, 4},       {"expm1", 2, 4},      {"log", 2, 4},
                            {"log2", 2, 4},       {"log10", 2, 4},      {"log1p", 2, 4},      {"sin", 2, 4, true},
                            {"cos", 2, 4},        {"erf", 2, 4, true},  {"asin", 4, 4, true}, {"acos", 4, 4},
                            {"atan", 4, 4, true}, {"sinh", 4, 4, true}, {"cosh", 4, 4},       {"tanh", 4, 4, true},
                            {"tan", 4, 8, true},  {"erfc", 4, 8},       {"rsqrt", 1, 4}};
constexpr Bound kBinary[] = {{"atan2", 4, 4}, {"pow", 4, 8}, {"hypot", 4, 8}};
constexpr const char* kExactUnary[] = {"floor", "ceil", "round", "trunc"};
constexpr const char* kTests[] = {"signbit", "isnan", "isinf"};

// In ulp of the result's type. f16, bf16 and f8 round what f32 gave: half an ulp more, and f32's bound in their ulp.
long double bound(const Bound& b, Type type) {
  if (type == Type::kF64) return b.f64;
  if (type == Type::kF32) return b.f32;
  return 0.5L + std::ldexp(static_cast<long double>(b.f32), ref::format(type).mantissa_bits - 23);
}

// Each magnitude from 2^-150 to 2^150 (2^1000 of f64), the neighbourhoods of 0, ±1, ±2, multiples of π/2, and the ends
// of exp's and its relatives' ranges, next to random bits and N(0, 1).
Column arguments(Type type) {
  const int width = ref::width(type);
  if (width == 8) return ref::all_values(type);
  Column out = ref::specials(type);
  for (const Column& more : {ref::random_bits(type, 1500, 51), ref::random_elements(type, 1500, 52, false)}) {
    out.insert(out.end(), more.begin(), more.end());
  }
  std::vector<long double> places = {0x1p-30L, 0.5L,  1,     2,         88.7228L,  87.3365L, 103.9721L, 127,  128,
                                     126,      149,   150,   709.7827L, 745.1332L, 1022,     1024,      1074, 9.0111L,
                                     10.05L,   26.5L, 3.92L, 5.92L,     17.3L,     37,       0.0001L};
  for (const int multiple : {1, 2, 3, 4, 5, 6, 7, 8, 100, 355, 710, 1000001, 103993 * 2}) {
    places.push_back(multiple * 1.57079632679489661923L);
  }
  const int top = type == Type::kF64 ? 1000 : 126;
  for (int power = -top; power <= top; power += type == Type::kF64 ? 7 : 1) places.push_back(std::ldexp(1.37L, power));
  for (const long double place : places) {
    for (const long double signed_place : {place, -place}) {
      const Bits bits = ref::element_of(type, signed_place);
      for (const int offset : {-1, 0, 1}) out.push_back((bits + static_cast<Bits>(offset)) & ref::mask(type));
    }
  }
  return out;
}

void expect_within(const Bound& b, Type type, const std::vector<Column>& x) {
  const std::string op = x.size() == 1 ? "math %x0 {fn = " : "math %x0, %x1 {fn = ";
  const Column got = run_elementwise(op + b.function + "}", std::vector<Type>(x.size(), type), x, type);
  long double worst = 0;
  size_t at = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const long double y = x.size() == 1 ? 0 : ref::real_value(type, x[1][i]);
    const long double want = ref::math(b.function, ref::real_value(type, x[0][i]), y);
    const long double error = ref::ulp_error(type, got[i], want);
    if (error > worst) worst = error, at = i;
  }
  EXPECT_LE(worst, bound(b, type)) << b.function << " of " << type_name(type) << " at " << std::hex << "0x" << x[0][at]
                                   << ", 0x" << (x.size() == 1 ? 0 : x[1][at]) << ": got 0x" << got[at];
}

TEST(NumbersMath, ErrorOfEachFunctionOfOneOperandIsInsideItsBound) {
  for (const Type type : ref::kFloatTypes) {
    const Column x = arguments(type);
    for (const Bound& b : kUnary) expect_within(b, type, {x});
  }
}

TEST(NumbersMath, ErrorOfEachFunctionOfTwoOperandsIsInsideItsBound) {
  for (const Type type : ref::kFloatTypes) {
    const Pairs& all = pairs(type);
    Pairs some;
    for (size_t i = 0, step = all.a.size() / 20000 + 1; i < all.a.size(); i += step) some.add(all.a[i], all.b[i]);
    // Powers whose result is finite: bases near 1 to exponents of any size.
    const Column base = ref::random_elements(type, 1500, 53, false),
                 exponent = ref::random_elements(type, 1500, 54, false);
    for (size_t i = 0; i < base.size(); ++i) {
      const long double y = ref::real_value(type, exponent[i]) * std::ldexp(1.0L, static_cast<int>(i % 11));
      some.add(ref::element_of(type, 1 + ref::real_value(type, base[i]) * std::ldexp(1.0L, -static_cast<int>(i % 11))),
               ref::element_of(type, y));
      some.add(base[i], ref::element_of(type, std::nearbyint(y)));
    }
    for (const Bound& b : kBinary) expect_within(b, type, {some.a, some.b});
  }
}

TEST(NumbersMath, FloorCeilRoundTruncAreExactAndRoundTakesHalvesToEven) {
  for (const Type type : ref::kFloatTypes) {
    Column x = values(type);
    for (int halves = -41; halves <= 41; ++halves) {
      for (const int offset : {-1, 0, 1}) {
        x.push_back((ref::element_of(type, halves * 0.5L) + static_cast<Bits>(offset)) & ref::mask(type));
      }
    }
    for (const char* function : kExactUnary) {
      Column want;
      for (const Bits bits : x) {
        // An infinity is its own floor: nothing is rounded, and so nothing saturates.
        const long double real = ref::real_value(type, bits);
        want.push_back(std::isinf(real) ? bits : ref::element_of(type, ref::math(function, real)));
      }
      const std::string op = std::string("math %x0 {fn = ") + function + "}";
      expect_same(op, type, run_elementwise(op, {type}, {x}, type), want, {type}, {x});
    }
  }
}

TEST(NumbersMath, SignbitIsnanIsinfGiveI1) {
  for (const Type type : ref::kFloatTypes) {
    Column x = values(type);
    const ref::Format format = ref::format(type);
    for (const Bits nan : {format.quiet_nan(), format.quiet_nan() | format.sign_bit()}) x.push_back(nan);
    for (const char* function : kTests) {
      Column want;
      for (const Bits bits : x) {
        // The sign of a NaN does not survive the way through a number; the bit itself does.
        const bool sign = function == std::string("signbit");
        want.push_back(sign ? (bits & format.sign_bit()) != 0 : ref::math(function, ref::real_value(type, bits)) != 0);
      }
      const std::string op = std::string("math %x0 {fn = ") + function + "}";
      expect_same(op, Type::kI1, run_elementwise(op, {type}, {x}, Type::kI1), want, {type}, {x});
    }
  }
}

// Nothing is rounded: an f8 infinity stays one, a NaN keeps its payload.
TEST(NumbersMath, CopysignIsExact) {
  for (const Type type : ref::kFloatTypes) {
    const Pairs& x = fewer_pairs(type);
    const Bits sign = ref::format(type).sign_bit();
    const Column got = run_elementwise("math %x0, %x1 {fn = copysign}", {type, type}, {x.a, x.b}, type);
    size_t wrong = 0;
    for (size_t i = 0; i < got.size(); ++i) wrong += got[i] != ((x.a[i] & (sign - 1)) | (x.b[i] & sign));
    EXPECT_EQ(wrong, 0u) << type_name(type);
  }
}

TEST(NumbersMath, OddFunctionsAreExactlyOdd) {
  for (const Type type : ref::kFloatTypes) {
    const Column x = arguments(type);
    const Bits sign = ref::format(type).sign_bit();
    Column mirrored;
    for (const Bits bits : x) mirrored.push_back(bits ^ sign);
    std::vector<std::string> ops = {"math %x0 {fn = round}", "math %x0 {fn = trunc}"};
    for (const Bound& b : kUnary) {
      if (b.odd) ops.push_back(std::string("math %x0 {fn = ") + b.function + "}");
    }
    for (const std::string& op : ops) {
      Column want = run_elementwise(op, {type}, {x}, type);
      for (Bits& bits : want) bits ^= sign;
      expect_same(op, type, run_elementwise(op, {type}, {mirrored}, type), want, {type}, {x});
    }
    const Column other = ref::random_elements(type, static_cast<int64_t>(x.size()), 55);
    Column want = run_elementwise("math %x0, %x1 {fn = atan2}", {type, type}, {x, other}, type);
    for (Bits& bits : want) bits ^= sign;
    expect_same("atan2", type, run_elementwise("math %x0, %x1 {fn = atan2}", {type, type}, {mirrored, other}, type),
                want, {type}, {x});
  }
}

TEST(NumbersMath, ValuesKnownFromElsewhere) {
  for (const Type type : {Type::kF32, Type::kF64}) {
    for (const KnownValue& known : kKnownValues) {
      const auto* found = std::find_if(std::begin(kUnary), std::end(kUnary),
                                       [&](const Bound& b) { return std::string(b.function) == known.function; });
      const bool unary = found != std::end(kUnary);
      if (!unary) {
        found = std::find_if(std::begin(kBinary), std::end(kBinary),
                             [&](const Bound& b) { return std::string(b.function) == known.function; });
      }
      std::vector<Column> x = {{ref::element_of(type, known.x)}};
      if (!unary) x.push_back({ref::element_of(type, known.y)});
      const std::string op = std::string(unary ? "math %x0 {fn = " : "math %x0, %x1 {fn = ") + known.function + "}";
      const Bits got = run_elementwise(op, std::vector<Type>(x.size(), type), x, type).at(0);
      EXPECT_LE(ref::ulp_error(type, got, known.value), bound(*found, type))
          << type_name(type) << " " << known.function << " " << known.x << " " << known.y;
    }
  }
  // The classics of argument reduction in f64 (Muller et al., Handbook of Floating-Point Arithmetic; fdlibm's tests).
  const std::vector<Type> f64 = {Type::kF64};
  auto of = [&](const char* op, double x) {
    return ref::real_value(Type::kF64, run_elementwise(op, f64, {{from_double(x)}}, Type::kF64).at(0));
  };
  EXPECT_DOUBLE_EQ(static_cast<double>(of("math %x0 {fn = sin}", 1e22)), -0.8522008497671888);
  EXPECT_DOUBLE_EQ(static_cast<double>(of("math %x0 {fn = sin}", 0x1.fffffffffffffp1023)), 0.004961954789184062);
  EXPECT_DOUBLE_EQ(static_cast<double>(of("math %x0 {fn = cos}", 0x1.fffffffffffffp1023)), -0.9999876894265599);
  EXPECT_DOUBLE_EQ(static_cast<double>(of("math %x0 {fn = tan}", 0x1.fffffffffffffp1023)), -0.004962015874444895);
}

}  // namespace
}  // namespace kiln::oracle

// Arithmetic of floats: IEEE 754 for f32 and f64, computed in f32 and rounded once for the smaller.
#include <bit>
#include <cmath>

#include "numbers.h"
#include "reference/cast.h"
#include "reference/floats.h"
#include "reference/inputs.h"
#include "reference/tolerance.h"
#include "sampled.h"

namespace kiln::oracle {
namespace {

namespace floats = reference::floats;

void expect_all_floats(const std::string& op, const Binary& reference) {
  for (const Type type : reference::kFloatTypes) expect_binary(op + " %x0, %x1", type, reference);
}
void expect_fewer_floats(const std::string& op, const Binary& reference) {
  for (const Type type : reference::kFloatTypes)
    expect_binary(op + " %x0, %x1", type, type, fewer_pairs(type), reference);
}
// All with KILN_TEST_ALL.
void expect_some_floats(const std::string& op, const Binary& reference) {
  test::runs_all_cases() ? expect_all_floats(op, reference) : expect_fewer_floats(op, reference);
}

TEST(NumbersFloat, AddIsIeeeAndRoundsSmallTypesOnceFromF32) { expect_all_floats("add", floats::add); }
TEST(NumbersFloat, SubIsIeeeAndRoundsSmallTypesOnceFromF32) { expect_fewer_floats("sub", floats::sub); }
TEST(NumbersFloat, MulIsIeeeAndRoundsSmallTypesOnceFromF32) { expect_some_floats("mul", floats::mul); }
TEST(NumbersFloat, DivIsIeeeAndRoundsSmallTypesOnceFromF32) { expect_some_floats("div", floats::div); }
TEST(NumbersFloat, RemIsTheExactRemainderOfTheTruncatedQuotient) { expect_fewer_floats("rem", floats::rem); }

// By way of binary128, not the host's own units.
TEST(NumbersFloat, AddSubMulDivOfF32AndF64AreCorrectlyRounded) {
  for (const Type type : {Type::kF32, Type::kF64}) {
    for (const auto& [op, which] : {std::pair{"add %x0, %x1", Arithmetic::kAdd},
                                    {"sub %x0, %x1", Arithmetic::kSub},
                                    {"mul %x0, %x1", Arithmetic::kMul},
                                    {"div %x0, %x1", Arithmetic::kDiv}}) {
      expect_binary(op, type, [w = which](Type t, Bits a, Bits b) { return rounded_once(w, t, a, b); });
    }
  }
}

Bits one(const std::string& op, Type type, const std::vector<Bits>& operands) {
  std::vector<Column> columns;
  for (const Bits bits : operands) columns.push_back({bits});
  return run_elementwise(op, std::vector<Type>(operands.size(), type), columns, type).at(0);
}

TEST(NumbersFloat, SubnormalsAreKept) {
  EXPECT_EQ(one("mul %x0, %x1", Type::kF32, {from_float(0x1p-75f), from_float(0x1p-74f)}), 1u);
  EXPECT_EQ(one("sub %x0, %x1", Type::kF32, {0x00800001, 0x00800000}), 1u);
  EXPECT_EQ(one("add %x0, %x1", Type::kF64, {1, 1}), 2u);
  EXPECT_EQ(one("div %x0, %x1", Type::kF16, {0x0400, 0x6400}), 1u);  // 2^-14 / 2^10
  EXPECT_EQ(one("div %x0, %x1", Type::kF16, {0x0400, 0x6800}), 0u);  // half of the least: to even
  EXPECT_EQ(one("add %x0, %x1", Type::kBF16, {1, 2}), 3u);
  EXPECT_EQ(one("add %x0, %x1", Type::kF8E4M3, {1, 2}), 3u);
}

TEST(NumbersFloat, F8ResultsSaturateAsCastsDo) {
  EXPECT_EQ(one("add %x0, %x1", Type::kF8E4M3, {0x7e, 0x7e}), 0x7eu);
  EXPECT_EQ(one("mul %x0, %x1", Type::kF8E5M2, {0x7b, 0xfb}), 0xfbu);
  EXPECT_EQ(one("add %x0, %x1", Type::kF16, {0x7bff, 0x7bff}), 0x7c00u);
}

// 1.001 · 1.001 in f16 plus a little: f32 first, then f16, is what the page says, not one rounding to f16.
TEST(NumbersFloat, FmaOfSmallTypesRoundsInF32First) {
  for (const Type type : {Type::kF16, Type::kBF16, Type::kF8E4M3, Type::kF8E5M2}) {
    const Column a = reference::random_bits(type, 60000, 1), b = reference::random_bits(type, 60000, 2),
                 c = reference::random_bits(type, 60000, 3);
    Column want;
    for (size_t i = 0; i < a.size(); ++i) want.push_back(floats::fma(type, a[i], b[i], c[i]));
    const std::vector<Type> types = {type, type, type};
    expect_same("fma", type, run_elementwise("fma %x0, %x1, %x2", types, {a, b, c}, type), want, types, {a, b, c});
  }
}

struct Triples {
  Column a, b, c;
};
// Specials with each other, random bits, and c near -a·b or far below it, where two roundings give other bits than one.
Triples triples(Type type) {
  Triples out;
  auto add = [&](Bits a, Bits b, Bits c) {
    out.a.push_back(a);
    out.b.push_back(b);
    out.c.push_back(c);
  };
  const Column special = reference::specials(type), bits = reference::random_bits(type, 9000, 4),
               elements = reference::random_elements(type, 9000, 5, false);
  for (const Bits a : special) {
    for (const Bits b : special) {
      for (const Bits c : special) add(a, b, c);
    }
  }
  const Bits sign = Bits{1} << (reference::width(type) - 1);
  for (size_t i = 0; i + 2 < bits.size(); i += 3) {
    add(bits[i], bits[i + 1], bits[i + 2]);
    for (const Column& source : {bits, elements}) {
      const Bits a = source[i], b = source[i + 1], product = floats::mul(type, a, b);
      add(a, b, product ^ sign);
      add(a, b, (product ^ sign) + 1);
      add(a, b, bits[i + 2] & (sign | 0xff));  // the least subnormals
    }
  }
  // Products that are ties of the type, with a sticky bit far below on either side.
  const int mantissa = type == Type::kF64 ? 52 : 23;
  const double step = std::ldexp(1.0, -(mantissa / 2 + 1));
  for (int k = 1; k < 200; ++k) {
    const Bits a = reference::element_of(type, 1 + k * static_cast<long double>(step));
    for (const long double tiny : {0x1p-120L, -0x1p-120L, 0x1p-60L, -0x1p-60L})
      add(a, a, reference::element_of(type, tiny));
  }
  return out;
}

TEST(NumbersFloat, FmaOfF32AndF64RoundsOnce) {
  for (const Type type : {Type::kF32, Type::kF64}) {
    const Triples x = triples(type);
    Column host, exact;
    for (size_t i = 0; i < x.a.size(); ++i) {
      host.push_back(floats::fma(type, x.a[i], x.b[i], x.c[i]));
      exact.push_back(rounded_fma(type, x.a[i], x.b[i], x.c[i]));
    }
    const std::vector<Type> types = {type, type, type};
    const std::vector<Column> columns = {x.a, x.b, x.c};
    const Column got = run_elementwise("fma %x0, %x1, %x2", types, columns, type);
    expect_same("fma", type, got, host, types, columns);
    expect_same("fma by binary128", type, got, exact, types, columns);
  }
}

TEST(NumbersFloat, SqrtOfSmallTypesRoundsOnceFromF32) {
  for (const Type type : {Type::kF16, Type::kBF16, Type::kF8E4M3, Type::kF8E5M2}) {
    const Column x = reference::all_values(type);
    Column want;
    for (const Bits bits : x) want.push_back(floats::sqrt(type, bits));
    expect_same("sqrt", type, run_elementwise("math %x0 {fn = sqrt}", {type}, {x}, type), want, {type}, {x});
  }
}

// q is the correctly rounded root when x lies between the squares of the ends of q's interval: these have p+1 bits, so
// their squares fit binary128 and nothing rounds here.
TEST(NumbersFloat, SqrtOfF32AndF64IsCorrectlyRounded) {
  using reference::Quad;
  for (const Type type : {Type::kF32, Type::kF64}) {
    Column x = values(type, 20000);
    for (Bits& bits : x) {
      if (!reference::is_nan(type, bits) && bits != Bits{1} << (reference::width(type) - 1))
        bits &= reference::mask(type) >> 1;
    }
    // Squares of neighbours of 1 + k ulp: roots beside ties.
    for (Bits k = 0; k < 64; ++k) x.push_back(reference::element_of(type, 1) + k);
    const Column got = run_elementwise("math %x0 {fn = sqrt}", {type}, {x}, type);
    for (size_t i = 0; i < x.size(); ++i) {
      const long double value = reference::real_value(type, x[i]), root = reference::real_value(type, got[i]);
      if (std::isnan(value) || value == 0 || std::isinf(value)) {
        EXPECT_TRUE(reference::same(type, got[i], x[i])) << x[i];
        continue;
      }
      const long double half = std::ldexp(0.5L, std::ilogb(root) - (type == Type::kF64 ? 52 : 23));
      const Quad low = static_cast<Quad>(root) - half, high = static_cast<Quad>(root) + half;
      // The interval is half as long below a power of two; roots there would have to be exact or closer still.
      EXPECT_TRUE(low * low <= value && value <= high * high) << type_name(type) << " " << x[i];
    }
    EXPECT_TRUE(reference::is_nan(
        type, run_elementwise("math %x0 {fn = sqrt}", {type}, {{reference::element_of(type, -1)}}, type)[0]));
  }
}

TEST(NumbersFloat, DivFastStaysWithinTwoUlp) {
  const Pairs& x = pairs(Type::kF32);
  const Column got = run_elementwise("div %x0, %x1 {fast = 1}", {Type::kF32, Type::kF32}, {x.a, x.b}, Type::kF32);
  for (size_t i = 0; i < got.size(); ++i) {
    const long double want = reference::real_value(Type::kF32, x.a[i]) / reference::real_value(Type::kF32, x.b[i]);
    EXPECT_LE(reference::ulp_error(Type::kF32, got[i], want), 2) << x.a[i] << " / " << x.b[i];
  }
}

}  // namespace
}  // namespace kiln::oracle

// cast between all pairs of types: every value of a source of up to 16 bits, and of wider ones samples with traps: just
// beside the ties of every narrower float, where rounding twice goes wrong, and beside the ends of every int type.
#include <cmath>

#include "numbers.h"
#include "reference/cast.h"
#include "reference/inputs.h"
#include "reference/ints.h"

namespace kiln::oracle {
namespace {

namespace ref = kiln::reference;

// The midpoint above each of some values of `to`, that midpoint's neighbours in `from`, and neighbours further off, as
// far as f32 reaches and as far as f64 does. A Dyadic of 2·value + 1 step is exact.
void add_ties(Type from, Type to, Column& out) {
  const ref::Format format = ref::format(to);
  Column codes = {0, 1, 2, format.largest(), format.largest() - 1, format.largest() - 2};
  for (const Bits bits : ref::random_bits(to, 300, 31)) codes.push_back(bits % format.largest());
  for (const Bits bits : ref::random_elements(to, 300, 32, false)) codes.push_back(bits & (format.sign_bit() - 1));
  if (!ref::is_float(from)) {
    // Ties that ints have: magnitudes above 2^(mantissa + 1).
    const Bits one = ref::element_of(to, 1);
    for (const Bits bits : ref::random_bits(to, 2000, 33)) {
      const Bits code = one + bits % (Bits{65} << format.mantissa_bits);
      if (code < format.largest()) codes.push_back(code);
    }
  }
  for (const Bits code : codes) {
    if (code > format.largest()) continue;
    ref::Dyadic middle = ref::decode(format, code);
    // Two steps above twice the code is one step; the field's own step is that of the code.
    const int step = format.least_unit() + std::max(static_cast<int>(code >> format.mantissa_bits) - 1, 0);
    if (middle.magnitude == 0) middle.exponent = step;
    middle.magnitude = 2 * middle.magnitude + 1;
    middle.exponent -= 1;
    for (const bool negative : {false, true}) {
      middle.negative = negative;
      if (ref::is_float(from)) {
        const Bits tie = ref::encode(from, middle);
        for (const Bits offset : {Bits{0}, Bits{1}, Bits{1} << 20, Bits{1} << 28}) {
          out.push_back((tie + offset) & ref::mask(from));
          out.push_back((tie - offset) & ref::mask(from));
        }
        continue;
      }
      const long double value = ref::to_long_double(middle);
      if (std::fabs(value) > 0x1p64L || value != std::trunc(value)) continue;
      const auto tie = static_cast<ref::Wide>(value);
      for (const int offset : {0, 1, -1, 100, -100}) {
        if (tie + offset >= ref::int_min(from) && tie + offset <= ref::int_max(from))
          out.push_back(ref::wrap(from, tie + offset));
      }
    }
  }
}

void add_int_ends(Type from, Column& out) {
  for (int power = 0; power <= 65; ++power) {
    for (const int sign : {1, -1}) {
      const long double end = sign * std::ldexp(1.0L, power);
      for (const long double offset : {-1.0L, -0.5L, -0.25L, 0.0L, 0.25L, 0.5L, 1.0L}) {
        const Bits bits = ref::element_of(from, end + offset);
        for (const int more : {-1, 0, 1}) out.push_back((bits + static_cast<Bits>(more)) & ref::mask(from));
      }
    }
  }
}

Column cast_sources(Type from, Type to) {
  Column out = values(from, 2000);
  if (ref::width(from) <= 16) return out;
  for (size_t i = 0, n = out.size(); i < n && !ref::is_float(from); ++i) out.push_back(out[i] >> (i % 60));
  add_int_ends(from, out);
  if (ref::is_float(to)) add_ties(from, to, out);
  return out;
}

void expect_cast(Type from, Type to, const std::string& more, ref::Overflow overflow) {
  const Column x = cast_sources(from, to);
  const std::string op = "cast %x0 {to = " + type_name(to) + more + "}";
  expect_same(op, to, run_elementwise(op, {from}, {x}, to), ref::cast(from, to, x, overflow), {from}, {x});
}

TEST(NumbersCast, AllPairsOfTypesByValueRoundedOnce) {
  for (const Type from : ref::kAllTypes) {
    for (const Type to : ref::kAllTypes) expect_cast(from, to, "", ref::Overflow::kDefault);
  }
}

TEST(NumbersCast, WithoutSaturationF8OverflowsToInfinityOrNan) {
  for (const Type from : ref::kAllTypes) {
    for (const Type to : {Type::kF8E4M3, Type::kF8E5M2})
      expect_cast(from, to, ", saturate = 0", ref::Overflow::kSpecial);
  }
}

// By bits, a NaN's payload and an infinite f8 too; where casts saturate and where they do not.
TEST(NumbersCast, ToItsOwnTypeItIsItselfBitByBit) {
  for (const Type type : ref::kAllTypes) {
    EXPECT_TRUE(run_elementwise("cast %x0 {to = " + type_name(type) + "}", {type}, {values(type)}, type) ==
                values(type))
        << type_name(type);
  }
}

TEST(NumbersCast, ToItsOwnTypeItIsItselfWithoutSaturationToo) {
  for (const Type type : {Type::kF8E4M3, Type::kF8E5M2}) {
    const Column x = values(type);
    const Column got = run_elementwise("cast %x0 {to = " + type_name(type) + ", saturate = 0}", {type}, {x}, type);
    for (size_t i = 0; i < x.size(); ++i) EXPECT_EQ(got[i], x[i]) << type_name(type);
  }
}

Column nans_of(Type type) {
  Column out;
  for (const Bits bits : values(type)) {
    if (ref::is_nan(type, bits)) out.push_back(bits);
  }
  // Signalling, its payload in the lowest bit alone.
  if (type != Type::kF8E4M3) out.push_back(ref::format(type).infinity() | 1);
  return out;
}

// How many results are not NaN, or lack the quiet bit, which the comparisons above do not look at.
size_t not_quiet(Type from, Type to) {
  const Bits quiet = ref::format(to).quiet_nan();
  size_t out = 0;
  for (const Bits bits : run_elementwise("cast %x0 {to = " + type_name(to) + "}", {from}, {nans_of(from)}, to)) {
    out += (bits & quiet) != quiet;
  }
  return out;
}

bool widens_small(Type from, Type to) { return (from == Type::kF16 || from == Type::kBF16) && to == Type::kF32; }

TEST(NumbersCast, NanStaysNanAndIsQuiet) {
  for (const Type from : ref::kFloatTypes) {
    for (const Type to : ref::kFloatTypes) {
      if (from == to || widens_small(from, to)) continue;
      EXPECT_EQ(not_quiet(from, to), 0u) << type_name(from) << " to " << type_name(to);
    }
  }
}

// A widening of bits, whose quiet bit the page leaves open.
TEST(NumbersCast, NanOfF16AndBf16IsNanInF32Too) {
  for (const Type from : {Type::kF16, Type::kBF16}) {
    for (const Bits bits : run_elementwise("cast %x0 {to = f32}", {from}, {nans_of(from)}, Type::kF32)) {
      EXPECT_TRUE(ref::is_nan(Type::kF32, bits)) << type_name(from);
    }
  }
}

Bits one(Type from, Type to, Bits bits, const std::string& more = "") {
  return run_elementwise("cast %x0 {to = " + type_name(to) + more + "}", {from}, {{bits}}, to).at(0);
}

TEST(NumbersCast, FloatToIntInNumbers) {
  EXPECT_EQ(one(Type::kF32, Type::kI32, from_float(-2.9f)), 0xfffffffeu);
  EXPECT_EQ(one(Type::kF32, Type::kI8, from_float(1e9f)), 0x7fu);
  EXPECT_EQ(one(Type::kF32, Type::kI8, from_float(-1e9f)), 0x80u);
  EXPECT_EQ(one(Type::kF32, Type::kU8, from_float(-0.9f)), 0u);
  EXPECT_EQ(one(Type::kF32, Type::kU8, from_float(-3)), 0u);
  EXPECT_EQ(one(Type::kF32, Type::kU32, 0x7fc00000), 0u);
  EXPECT_EQ(one(Type::kF64, Type::kI64, from_double(0x1p63)), 0x7fffffffffffffffu);
  EXPECT_EQ(one(Type::kF64, Type::kU64, from_double(INFINITY)), 0xffffffffffffffffu);
  EXPECT_EQ(one(Type::kF32, Type::kI1, 0x7fc00000), 1u);
  EXPECT_EQ(one(Type::kF32, Type::kI1, 0x80000000), 0u);
  EXPECT_EQ(one(Type::kF32, Type::kI1, 1), 1u);
  EXPECT_EQ(one(Type::kI32, Type::kI1, 2), 1u);  // not the low bit
}

TEST(NumbersCast, IntToIntKeepsLowBitsAndExtendsByTheOperandsSignedness) {
  EXPECT_EQ(one(Type::kI8, Type::kU32, 0xff), 0xffffffffu);
  EXPECT_EQ(one(Type::kU8, Type::kI32, 0xff), 0xffu);
  EXPECT_EQ(one(Type::kI32, Type::kI8, 0x12380), 0x80u);
  EXPECT_EQ(one(Type::kI1, Type::kI32, 1), 1u);
}

TEST(NumbersCast, RoundsOnceWhereTwoStepsWouldDiffer) {
  // Through f32 each of these would become the tie first, and then go to the even neighbour below.
  EXPECT_EQ(one(Type::kF64, Type::kF16, from_double(1 + 0x1p-11 + 0x1p-40)), 0x3c01u);
  EXPECT_EQ(one(Type::kF64, Type::kBF16, from_double(1 + 0x1p-8 + 0x1p-40)), 0x3f81u);
  EXPECT_EQ(one(Type::kF64, Type::kF8E4M3, from_double(1 + 0x1p-4 + 0x1p-40)), 0x39u);
  EXPECT_EQ(one(Type::kI64, Type::kBF16, (Bits{1} << 40) + (Bits{1} << 32) + 1), 0x5381u);
  // Through f64 here.
  EXPECT_EQ(one(Type::kU64, Type::kF32, (Bits{1} << 63) + (Bits{1} << 39) + 1), 0x5f000001u);
  EXPECT_EQ(one(Type::kI64, Type::kF32, (Bits{1} << 62) + (Bits{1} << 38) + 1), 0x5e800001u);
}

TEST(NumbersCast, HalvesGoToEvenAndOverflowIsByType) {
  EXPECT_EQ(one(Type::kF32, Type::kBF16, 0x3f808000), 0x3f80u);
  EXPECT_EQ(one(Type::kF32, Type::kBF16, 0x3f818000), 0x3f82u);
  EXPECT_TRUE(ref::is_nan(Type::kBF16, one(Type::kF32, Type::kBF16, 0x7f800001)));  // not infinity: nor by rounding up
  EXPECT_EQ(one(Type::kF32, Type::kF16, from_float(65519.996f)), 0x7bffu);
  EXPECT_EQ(one(Type::kF32, Type::kF16, from_float(65520)), 0x7c00u);
  EXPECT_EQ(one(Type::kF32, Type::kBF16, from_float(-3.4e38f)), 0xff80u);
  EXPECT_EQ(one(Type::kF32, Type::kF8E4M3, from_float(INFINITY)), 0x7eu);
  EXPECT_EQ(one(Type::kF32, Type::kF8E5M2, from_float(-INFINITY)), 0xfbu);
  EXPECT_EQ(one(Type::kF32, Type::kF8E4M3, from_float(INFINITY), ", saturate = 0") & 0x7f, 0x7fu);
  EXPECT_EQ(one(Type::kF32, Type::kF8E5M2, from_float(-INFINITY), ", saturate = 0"), 0xfcu);
  EXPECT_EQ(one(Type::kI32, Type::kF32, 16777217), from_float(16777216));
  EXPECT_EQ(one(Type::kI32, Type::kF32, 16777219), from_float(16777220));
}

}  // namespace
}  // namespace kiln::oracle

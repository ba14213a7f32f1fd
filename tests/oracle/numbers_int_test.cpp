// The rules for ints of docs/reference/ops.md, every int type, against 128-bit arithmetic.
#include "numbers.h"
#include "reference/inputs.h"
#include "reference/ints.h"

namespace kiln::oracle {
namespace {

namespace ints = reference::ints;

void expect_all_ints(const std::string& op, const Binary& reference) {
  for (const Type type : reference::kIntTypes) expect_binary(op + " %x0, %x1", type, reference);
}

TEST(NumbersInt, AddWraps) { expect_all_ints("add", ints::add); }
TEST(NumbersInt, SubWraps) { expect_all_ints("sub", ints::sub); }
TEST(NumbersInt, MulWraps) { expect_all_ints("mul", ints::mul); }
TEST(NumbersInt, DivTruncatesAndGivesZeroForZeroAndMinForMinByMinusOne) { expect_all_ints("div", ints::div); }
TEST(NumbersInt, RemHasTheDividendsSignAndGivesXForZeroAndZeroForMinByMinusOne) { expect_all_ints("rem", ints::rem); }
TEST(NumbersInt, MulhiIsTheHighHalfOfTheFullProductBySignedness) { expect_all_ints("mulhi", ints::mulhi); }
TEST(NumbersInt, MinAndMaxGoBySignedness) {
  expect_all_ints("min", ints::min);
  expect_all_ints("max", ints::max);
}
TEST(NumbersInt, NumericChangesNoIntMinOrMax) {
  for (const Type type : reference::kIntTypes) {
    expect_binary("min %x0, %x1 {numeric = 1}", type, ints::min);
    expect_binary("max %x0, %x1 {numeric = 1}", type, ints::max);
  }
}

TEST(NumbersInt, AndOrXorGoBitByBitI1Too) {
  for (const Type type :
       {Type::kI1, Type::kI8, Type::kI16, Type::kI32, Type::kI64, Type::kU8, Type::kU16, Type::kU32, Type::kU64}) {
    expect_binary("and %x0, %x1", type, ints::bit_and);
    expect_binary("or %x0, %x1", type, ints::bit_or);
    expect_binary("xor %x0, %x1", type, ints::bit_xor);
  }
}

TEST(NumbersInt, NegAndAbsKeepMin) {
  for (const Type type : reference::kIntTypes) {
    const Column x = values(type);
    Column neg, abs;
    for (const Bits bits : x) {
      neg.push_back(ints::neg(type, bits));
      abs.push_back(ints::abs(type, bits));
    }
    expect_same("neg", type, run_elementwise("neg %x0", {type}, {x}, type), neg, {type}, {x});
    expect_same("abs", type, run_elementwise("abs %x0", {type}, {x}, type), abs, {type}, {x});
  }
}

// Every amount around each multiple of 8 and far beyond the width, up to all ones, which is -1 for signed types.
TEST(NumbersInt, ShiftsByTheWidthOrMoreAsUnsignedGiveZeroOrTheSignFill) {
  for (const Type type : reference::kIntTypes) {
    const Bits mask = reference::mask(type);
    Column amounts = {mask, mask - 1, mask >> 1, (mask >> 1) + 1, (Bits{1} << 32) & mask};
    for (Bits amount = 0; amount <= 130; ++amount) amounts.push_back(amount & mask);
    Column elements = reference::specials(type), more = reference::random_bits(type, 64, 5);
    elements.insert(elements.end(), more.begin(), more.end());
    Pairs operands;
    for (const Bits x : elements) {
      for (const Bits amount : amounts) operands.add(x, amount);
    }
    Column left, right;
    for (size_t i = 0; i < operands.a.size(); ++i) {
      left.push_back(ints::shl(type, operands.a[i], operands.b[i]));
      right.push_back(ints::shr(type, operands.a[i], operands.b[i]));
    }
    const std::vector<Type> types = {type, type};
    const std::vector<Column> columns = {operands.a, operands.b};
    expect_same("shl", type, run_elementwise("shl %x0, %x1", types, columns, type), left, types, columns);
    expect_same("shr", type, run_elementwise("shr %x0, %x1", types, columns, type), right, types, columns);
  }
}

// The page's own sentences with their numbers written out, so that no reference stands between.
Bits one(const std::string& op, Type type, int64_t a, int64_t b) {
  return run_elementwise(op, {type, type}, {{reference::wrap(type, a)}, {reference::wrap(type, b)}}, type).at(0);
}

TEST(NumbersInt, TheRulesInNumbers) {
  const auto i32 = [](int64_t value) { return reference::wrap(Type::kI32, value); };
  constexpr int64_t kMin = -2147483648LL;
  EXPECT_EQ(one("div %x0, %x1", Type::kI32, -7, 2), i32(-3));
  EXPECT_EQ(one("div %x0, %x1", Type::kI32, 7, -2), i32(-3));
  EXPECT_EQ(one("div %x0, %x1", Type::kI32, -7, 0), i32(0));
  EXPECT_EQ(one("div %x0, %x1", Type::kI32, kMin, -1), i32(kMin));
  EXPECT_EQ(one("rem %x0, %x1", Type::kI32, -7, 2), i32(-1));
  EXPECT_EQ(one("rem %x0, %x1", Type::kI32, 7, -2), i32(1));
  EXPECT_EQ(one("rem %x0, %x1", Type::kI32, -7, 0), i32(-7));
  EXPECT_EQ(one("rem %x0, %x1", Type::kI32, kMin, -1), i32(0));
  EXPECT_EQ(one("add %x0, %x1", Type::kI32, 2147483647, 1), i32(kMin));
  EXPECT_EQ(one("mulhi %x0, %x1", Type::kI32, -1, 1), i32(-1));
  EXPECT_EQ(one("mulhi %x0, %x1", Type::kU32, -1, -1), i32(-2));
  EXPECT_EQ(one("mulhi %x0, %x1", Type::kI64, INT64_MIN, INT64_MIN), Bits{1} << 62);
  EXPECT_EQ(one("shl %x0, %x1", Type::kI32, 1, 32), i32(0));
  EXPECT_EQ(one("shl %x0, %x1", Type::kI32, 1, -1), i32(0));
  EXPECT_EQ(one("shr %x0, %x1", Type::kI32, -5, 32), i32(-1));
  EXPECT_EQ(one("shr %x0, %x1", Type::kI32, 5, -1), i32(0));
  EXPECT_EQ(one("shr %x0, %x1", Type::kU32, -5, 1), i32(0x7ffffffd));
  EXPECT_EQ(one("shr %x0, %x1", Type::kU32, -5, 40), i32(0));
  EXPECT_EQ(run_elementwise("abs %x0", {Type::kI8}, {{0x80}}, Type::kI8).at(0), 0x80u);
  EXPECT_EQ(run_elementwise("neg %x0", {Type::kI8}, {{0x80}}, Type::kI8).at(0), 0x80u);
  EXPECT_EQ(run_elementwise("neg %x0", {Type::kU8}, {{1}}, Type::kU8).at(0), 0xffu);
}

}  // namespace
}  // namespace kiln::oracle

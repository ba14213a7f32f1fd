// min, max, neg, abs, cmp, select, bitcast: what chooses or moves bits.
#include "numbers.h"
#include "reference/floats.h"
#include "reference/inputs.h"
#include "reference/order.h"

namespace kiln::oracle {
namespace {

namespace floats = reference::floats;

// Of f8e5m2 without infinities, which have a test of their own.
Pairs min_max_operands(Type type) {
  if (type != Type::kF8E5M2) return fewer_pairs(type);
  Pairs out;
  const Pairs& all = pairs(type);
  auto infinite = [](Bits bits) { return (bits & 0x7f) == 0x7c; };
  for (size_t i = 0; i < all.a.size(); ++i) {
    if (!infinite(all.a[i]) && !infinite(all.b[i])) out.add(all.a[i], all.b[i]);
  }
  return out;
}

void expect_min_max(const std::string& attributes, bool numeric) {
  for (const Type type : reference::kFloatTypes) {
    const Pairs x = min_max_operands(type);
    auto min = [=](Type t, Bits a, Bits b) { return floats::min(t, a, b, numeric); };
    auto max = [=](Type t, Bits a, Bits b) { return floats::max(t, a, b, numeric); };
    expect_binary("min %x0, %x1" + attributes, type, type, x, min, true);
    expect_binary("max %x0, %x1" + attributes, type, type, x, max, true);
  }
}

TEST(NumbersChoice, ANanOperandOfMinOrMaxGivesNan) { expect_min_max("", false); }
TEST(NumbersChoice, NumericMinAndMaxGiveTheOtherOperandOfANan) { expect_min_max(" {numeric = 1}", true); }

TEST(NumbersChoice, MinAndMaxGiveAnInfiniteF8e5m2AsItIs) {
  constexpr Bits kInfinity = 0x7c, kMinusInfinity = 0xfc, kOne = 0x3c, kNan = 0x7e;
  auto one = [](const std::string& op, Bits a, Bits b) {
    return run_elementwise(op, {Type::kF8E5M2, Type::kF8E5M2}, {{a}, {b}}, Type::kF8E5M2).at(0);
  };
  EXPECT_EQ(one("max %x0, %x1", kInfinity, kOne), kInfinity);
  EXPECT_EQ(one("min %x0, %x1", kOne, kMinusInfinity), kMinusInfinity);
  EXPECT_EQ(one("max %x0, %x1 {numeric = 1}", kNan, kInfinity), kInfinity);
  EXPECT_EQ(one("min %x0, %x1 {numeric = 1}", kMinusInfinity, kNan), kMinusInfinity);
  EXPECT_EQ(one("min %x0, %x1", kOne, kInfinity), kOne);
}

// By bits: not even a NaN is exempt.
TEST(NumbersChoice, NegFlipsAndAbsClearsTheSignBitOfEveryFloat) {
  for (const Type type : reference::kFloatTypes) {
    const Column x = values(type);
    Column neg, abs;
    for (const Bits bits : x) {
      neg.push_back(floats::neg(type, bits));
      abs.push_back(floats::abs(type, bits));
    }
    EXPECT_EQ(run_elementwise("neg %x0", {type}, {x}, type), neg) << type_name(type);
    EXPECT_EQ(run_elementwise("abs %x0", {type}, {x}, type), abs) << type_name(type);
  }
}

TEST(NumbersChoice, CmpIsOrderedButForNeAndI1ComparesAsZeroAndOne) {
  using reference::Predicate;
  constexpr std::pair<const char*, Predicate> kPredicates[] = {{"eq", Predicate::kEq}, {"ne", Predicate::kNe},
                                                               {"lt", Predicate::kLt}, {"le", Predicate::kLe},
                                                               {"gt", Predicate::kGt}, {"ge", Predicate::kGe}};
  for (const Type type : reference::kAllTypes) {
    for (const auto& [word, predicate] : kPredicates) {
      expect_binary(std::string("cmp %x0, %x1 {pred = ") + word + "}", type, Type::kI1, fewer_pairs(type),
                    [p = predicate](Type t, Bits a, Bits b) { return Bits{reference::compare(p, t, a, b)}; });
    }
  }
}

TEST(NumbersChoice, CmpOfNanAndOfZerosInNumbers) {
  const Bits nan = 0x7fc00000, zero = 0, minus = 0x80000000;
  const std::vector<Column> x = {{nan, nan, zero, minus}, {nan, zero, minus, zero}};
  const std::vector<Type> types = {Type::kF32, Type::kF32};
  EXPECT_EQ(run_elementwise("cmp %x0, %x1 {pred = eq}", types, x, Type::kI1), (Column{0, 0, 1, 1}));
  EXPECT_EQ(run_elementwise("cmp %x0, %x1 {pred = ne}", types, x, Type::kI1), (Column{1, 1, 0, 0}));
  EXPECT_EQ(run_elementwise("cmp %x0, %x1 {pred = le}", types, x, Type::kI1), (Column{0, 0, 1, 1}));
  EXPECT_EQ(run_elementwise("cmp %x0, %x1 {pred = lt}", types, x, Type::kI1), (Column{0, 0, 0, 0}));
  EXPECT_EQ(run_elementwise("cmp %x0, %x1 {pred = ge}", types, x, Type::kI1), (Column{0, 0, 1, 1}));
}

// By bits again: select changes none, whatever NaN the other side holds.
TEST(NumbersChoice, SelectLeavesNoTraceOfTheSideNotChosen) {
  for (const Type type : reference::kAllTypes) {
    const Pairs& x = fewer_pairs(type);
    const Column cond = reference::random_bits(Type::kI1, static_cast<int64_t>(x.a.size()), 9);
    Column want;
    for (size_t i = 0; i < cond.size(); ++i) want.push_back(cond[i] != 0 ? x.a[i] : x.b[i]);
    const Column got = run_elementwise("select %x0, %x1, %x2", {Type::kI1, type, type}, {cond, x.a, x.b}, type);
    EXPECT_TRUE(got == want) << type_name(type);
  }
}

TEST(NumbersChoice, BitcastKeepsTheBitsBetweenAllTypesOfOneWidth) {
  for (const Type from : reference::kAllTypes) {
    const Column x = values(from);
    for (const Type to : reference::kAllTypes) {
      if (reference::width(from) != reference::width(to)) continue;
      EXPECT_TRUE(run_elementwise("bitcast %x0 {to = " + type_name(to) + "}", {from}, {x}, to) == x)
          << type_name(from) << type_name(to);
    }
  }
}

}  // namespace
}  // namespace kiln::oracle

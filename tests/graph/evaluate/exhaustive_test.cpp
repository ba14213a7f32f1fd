// Every value of the small types, and every pair of 8 bits, against tests/support/reference, which sees no header of
// Kiln.
#include <algorithm>

#include "evaluate/arrays.h"
#include "reference/cast.h"
#include "reference/floats.h"
#include "reference/formats.h"
#include "reference/ints.h"
#include "reference/math.h"

namespace kiln::graph::evaluating {
namespace {

namespace ref = kiln::reference;
using enum ElementType;
using enum TensorOp;
using ref::Bits;

ref::Type type_of(ElementType type) { return static_cast<ref::Type>(type); }

Array array(ElementType type, const std::vector<Bits>& bits) {
  Array out = own(type, {static_cast<int64_t>(bits.size())});
  for (size_t i = 0; i < bits.size(); ++i) set_bits(out, static_cast<int64_t>(i), bits[i]);
  return out;
}

std::vector<Bits> all_values(ElementType type) {
  std::vector<Bits> out(size_t{1} << dsl::info(type).bits);
  for (size_t i = 0; i < out.size(); ++i) out[i] = i;
  return out;
}

// All pairs of 8 bits.
struct Pairs {
  std::vector<Bits> a, b;
  Pairs() {
    for (Bits x = 0; x < 256; ++x) {
      for (Bits y = 0; y < 256; ++y) {
        a.push_back(x);
        b.push_back(y);
      }
    }
  }
};

// Results of one op, by element; any NaN is as good as another, and zeros of either sign where `any_zero`.
void expect(TensorOp op, AttrList attrs, const std::vector<Array>& operands, ElementType type,
            const std::function<Bits(size_t)>& want, bool any_zero = false, Bits off_by = 0) {
  auto graph = graph_of(op, {operands.begin(), operands.end()}, std::move(attrs));
  ASSERT_TRUE(graph) << graph.error().message;
  auto got = evaluate(*graph, operands);
  ASSERT_TRUE(got) << got.error().message;
  const Array& y = got->front();
  ASSERT_EQ(y.element, type);
  int wrong = 0;
  for (int64_t i = 0; i < y.count() && wrong < 5; ++i) {
    const Bits is = y.bits(i), should = want(static_cast<size_t>(i));
    const ref::Type t = type_of(type);
    const bool nan = ref::is_nan(t, is) && ref::is_nan(t, should);
    const bool zero = any_zero && ref::is_zero(t, is) && ref::is_zero(t, should);
    const bool near = off_by > 0 && (is - should <= off_by || should - is <= off_by);
    if (is == should || nan || zero || near) continue;
    std::string of;
    for (const Array& operand : operands) of += " " + std::to_string(operand.bits(i));
    ADD_FAILURE() << info(op).name << " of " << dsl::info(operands[0].element).name << " bits" << of << ": " << is
                  << ", not " << should;
    ++wrong;
  }
}

TEST(EvaluateExhaustive, IntsOfEightBits) {
  const Pairs pairs;
  using Function = Bits (*)(ref::Type, Bits, Bits);
  const std::pair<TensorOp, Function> binary[] = {
      {kAdd, ref::ints::add},    {kSub, ref::ints::sub},     {kMul, ref::ints::mul},     {kDiv, ref::ints::div},
      {kRem, ref::ints::rem},    {kMulhi, ref::ints::mulhi}, {kMin, ref::ints::min},     {kMax, ref::ints::max},
      {kShl, ref::ints::shl},    {kShr, ref::ints::shr},     {kAnd, ref::ints::bit_and}, {kOr, ref::ints::bit_or},
      {kXor, ref::ints::bit_xor}};
  for (const ElementType type : {kI8, kU8}) {
    const ref::Type t = type_of(type);
    const std::vector<Array> operands = {array(type, pairs.a), array(type, pairs.b)};
    for (const auto& [op, function] : binary) {
      expect(op, {}, operands, type, [&](size_t i) { return function(t, pairs.a[i], pairs.b[i]); });
    }
    for (int64_t predicate = 0; predicate < 6; ++predicate) {
      expect(kCmp, {predicate}, operands, kI1, [&](size_t i) -> Bits {
        const ref::Wide a = ref::int_value(t, pairs.a[i]), b = ref::int_value(t, pairs.b[i]);
        const bool holds[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
        return holds[predicate];
      });
    }
    const std::vector<Bits> all = all_values(type);
    const std::vector<Array> one = {array(type, all)};
    expect(kNot, {}, one, type, [&](size_t i) { return all[i] ^ 0xff; });
    expect(kSign, {}, one, type, [&](size_t i) {
      const ref::Wide x = ref::int_value(t, all[i]);
      return ref::wrap(t, (x > 0) - (x < 0));
    });
    if (type == kU8) continue;
    expect(kNeg, {}, one, type, [&](size_t i) { return ref::ints::neg(t, all[i]); });
    expect(kAbs, {}, one, type, [&](size_t i) { return ref::ints::abs(t, all[i]); });
  }
}

TEST(EvaluateExhaustive, FloatsOfEightBits) {
  const Pairs pairs;
  using Function = Bits (*)(ref::Type, Bits, Bits);
  const std::pair<TensorOp, Function> binary[] = {{kAdd, ref::floats::add},
                                                  {kSub, ref::floats::sub},
                                                  {kMul, ref::floats::mul},
                                                  {kDiv, ref::floats::div},
                                                  {kRem, ref::floats::rem}};
  for (const ElementType type : {kF8E4M3, kF8E5M2}) {
    const ref::Type t = type_of(type);
    const std::vector<Array> operands = {array(type, pairs.a), array(type, pairs.b)};
    for (const auto& [op, function] : binary) {
      expect(op, {}, operands, type, [&](size_t i) { return function(t, pairs.a[i], pairs.b[i]); });
    }
    expect(kMin, {}, operands, type, [&](size_t i) { return ref::floats::min(t, pairs.a[i], pairs.b[i]); }, true);
    expect(kMax, {}, operands, type, [&](size_t i) { return ref::floats::max(t, pairs.a[i], pairs.b[i]); }, true);
    for (const Bits c : {0x00, 0x80, 0x01, 0x38, 0xb9, 0x7b, 0x7c, 0x7f}) {
      std::vector<Array> three = operands;
      three.push_back(array(type, std::vector<Bits>(pairs.a.size(), c)));
      expect(kFma, {}, three, type, [&](size_t i) { return ref::floats::fma(t, pairs.a[i], pairs.b[i], c); });
    }
    for (int64_t predicate = 0; predicate < 6; ++predicate) {
      expect(kCmp, {predicate}, operands, kI1, [&](size_t i) -> Bits {
        const long double a = ref::to_real(t, pairs.a[i]), b = ref::to_real(t, pairs.b[i]);
        const bool holds[] = {a == b, a != b, a<b, a <= b, a> b, a >= b};
        return holds[predicate];
      });
    }
  }
}

class SmallFloats : public testing::TestWithParam<ElementType> {};

// Elementary functions come from f64 by way of f32: within one step of the type of what long double says.
TEST_P(SmallFloats, AllFunctionsOfAllValues) {
  const ElementType type = GetParam();
  const ref::Type t = type_of(type);
  const std::vector<Bits> all = all_values(type);
  const std::vector<Array> one = {array(type, all)};
  const auto real = [&](const char* name) {
    return [&, name](size_t i) { return ref::from_real(t, ref::math(name, ref::to_real(t, all[i]))); };
  };
  expect(kNeg, {}, one, type, [&](size_t i) { return ref::floats::neg(t, all[i]); });
  expect(kAbs, {}, one, type, [&](size_t i) { return ref::floats::abs(t, all[i]); });
  expect(kSqrt, {}, one, type, [&](size_t i) { return ref::floats::sqrt(t, all[i]); });
  expect(kSign, {}, one, type, [&](size_t i) {
    const long double x = ref::to_real(t, all[i]);
    return x > 0 ? ref::from_real(t, 1) : x < 0 ? ref::from_real(t, -1) : all[i];
  });
  // Infinities of f8 stay what they are where no rounding is.
  for (const auto& [op, name] : {std::pair(kFloor, "floor"), {kCeil, "ceil"}, {kRound, "round"}, {kTrunc, "trunc"}}) {
    expect(op, {}, one, type, [&](size_t i) { return std::isinf(ref::to_real(t, all[i])) ? all[i] : real(name)(i); });
  }
  for (const auto& [op, name] : {std::pair(kSignbit, "signbit"), {kIsnan, "isnan"}, {kIsinf, "isinf"}}) {
    if (op == kSignbit) {
      expect(op, {}, one, kI1, [&](size_t i) -> Bits { return all[i] >> (dsl::info(type).bits - 1); });
    } else {
      expect(op, {}, one, kI1, [&](size_t i) -> Bits { return ref::math(name, ref::to_real(t, all[i])) != 0; });
    }
  }
  const std::pair<TensorOp, const char*> functions[] = {
      {kExp, "exp"},     {kExp2, "exp2"},   {kExpm1, "expm1"}, {kLog, "log"},    {kLog2, "log2"},
      {kLog10, "log10"}, {kLog1p, "log1p"}, {kSin, "sin"},     {kCos, "cos"},    {kTan, "tan"},
      {kAsin, "asin"},   {kAcos, "acos"},   {kAtan, "atan"},   {kSinh, "sinh"},  {kCosh, "cosh"},
      {kTanh, "tanh"},   {kErf, "erf"},     {kErfc, "erfc"},   {kRsqrt, "rsqrt"}};
  for (const auto& [op, name] : functions) expect(op, {}, one, type, real(name), false, 1);
}

TEST_P(SmallFloats, SortAsNumbersDo) {
  const ElementType type = GetParam();
  const ref::Type t = type_of(type);
  std::vector<Bits> sorted = all_values(type);
  const std::vector<Array> one = {array(type, sorted)};
  std::stable_sort(sorted.begin(), sorted.end(), [&](Bits a, Bits b) {
    const long double x = ref::to_real(t, a), y = ref::to_real(t, b);
    return std::isnan(x) ? false : std::isnan(y) || x < y;
  });
  expect(kSort, {int64_t{0}, int64_t{0}}, one, type, [&](size_t i) { return sorted[i]; });
}

INSTANTIATE_TEST_SUITE_P(EvaluateExhaustive, SmallFloats, testing::Values(kF16, kBF16, kF8E4M3, kF8E5M2),
                         [](const auto& info) { return std::string(dsl::info(info.param).name); });

class Casts : public testing::TestWithParam<ElementType> {};

TEST_P(Casts, OfAllValuesToAllTypes) {
  const ElementType from = GetParam();
  const std::vector<Bits> all = from == kI1 ? std::vector<Bits>{0, 1} : all_values(from);
  const std::vector<Array> one = {array(from, all)};
  for (int i = 0; i < dsl::kElementTypeCount; ++i) {
    const auto to = static_cast<ElementType>(i);
    expect(kCast, {to}, one, to, [&](size_t k) { return ref::cast(type_of(from), type_of(to), all[k]); });
  }
}

INSTANTIATE_TEST_SUITE_P(EvaluateExhaustive, Casts,
                         testing::Values(kI1, kI8, kU8, kI16, kU16, kF16, kBF16, kF8E4M3, kF8E5M2),
                         [](const auto& info) { return std::string(dsl::info(info.param).name); });

// i1 as ops of bits have it.
TEST(EvaluateExhaustive, BitsOfI1) {
  const std::vector<Bits> a = {0, 0, 1, 1}, b = {0, 1, 0, 1};
  const std::vector<Array> two = {array(kI1, a), array(kI1, b)};
  expect(kAnd, {}, two, kI1, [&](size_t i) { return a[i] & b[i]; });
  expect(kOr, {}, two, kI1, [&](size_t i) { return a[i] | b[i]; });
  expect(kXor, {}, two, kI1, [&](size_t i) { return a[i] ^ b[i]; });
  expect(kNot, {}, {two[0]}, kI1, [&](size_t i) { return a[i] ^ 1; });
}

}  // namespace
}  // namespace kiln::graph::evaluating

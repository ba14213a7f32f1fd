// Identities of arithmetic that keep every bit, NaN, infinity and zero's sign.
#include <cmath>

#include "kiln/dsl/wide.h"
#include "simplify/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

// What is left when one operand of a commuting op is this number.
ValueId other_than(const Site& s, double number) {
  if (s.simplifier.is_number(s.in(1), number)) return s.in(0);
  if (s.simplifier.is_number(s.in(0), number)) return s.in(1);
  return kNoValue;
}

ValueId times_one(const Site& s) { return other_than(s, 1); }

ValueId times_minus_one(const Site& s) {
  const ValueId x = other_than(s, -1);
  return x == kNoValue || (!s.is_float() && !dsl::info(s.type.element).is_signed) ? kNoValue
                                                                                  : s.simplifier.make(kNeg, {x});
}

ValueId over_one(const Site& s) { return s.simplifier.is_number(s.in(1), 1) ? s.in(0) : kNoValue; }

// Division by a power of two is multiplication, where its inverse is a normal number.
ValueId over_power_of_two(const Site& s) {
  const auto by = s.simplifier.float_splat(s.in(1));
  if (!by || !std::isnormal(*by)) return kNoValue;
  int exponent = 0;
  if (std::abs(std::frexp(*by, &exponent)) != 0.5) return kNoValue;
  const uint64_t bits = dsl::bits_from_double(s.type.element, 1 / *by);
  const double inverse = dsl::double_from_bits(s.type.element, bits);
  constexpr double kSmallest[] = {6.103515625e-05, 1.1754943508222875e-38,
                                  2.2250738585072014e-308};  // normal f16, f32, f64
  const int width = dsl::info(s.type.element).bits;
  const double smallest = width == 64                           ? kSmallest[2]
                          : s.type.element == ElementType::kF16 ? kSmallest[0]
                                                                : kSmallest[1];
  if (width < 16 || inverse * *by != 1 || std::abs(inverse) < smallest || std::abs(*by) < smallest) return kNoValue;
  return s.simplifier.make(kMul, {s.in(0), s.simplifier.full(s.type, bits)});
}

ValueId plus_zero(const Site& s) { return other_than(s, s.is_float() ? -0.0 : 0); }
ValueId minus_zero(const Site& s) { return s.simplifier.is_number(s.in(1), 0) ? s.in(0) : kNoValue; }

ValueId plus_negated(const Site& s) {
  if (const Node* neg = s.simplifier.node(s.in(1), kNeg))
    return s.simplifier.make(kSub, {s.in(0), s.simplifier.operand(*neg, 0)});
  if (const Node* neg = s.simplifier.node(s.in(0), kNeg))
    return s.simplifier.make(kSub, {s.in(1), s.simplifier.operand(*neg, 0)});
  return kNoValue;
}

ValueId minus_negated(const Site& s) {
  const Node* neg = s.simplifier.node(s.in(1), kNeg);
  return neg ? s.simplifier.make(kAdd, {s.in(0), s.simplifier.operand(*neg, 0)}) : kNoValue;
}

ValueId negated_twice(const Site& s) {
  const Node* neg = s.simplifier.node(s.in(0), kNeg);
  return neg ? s.simplifier.operand(*neg, 0) : kNoValue;
}

ValueId both_negated(const Site& s) {
  const Node *a = s.simplifier.node(s.in(0), kNeg), *b = s.simplifier.node(s.in(1), kNeg);
  if (!a || !b) return kNoValue;
  return s.simplifier.make(s.op, {s.simplifier.operand(*a, 0), s.simplifier.operand(*b, 0)});
}

// -x of an unsigned x wraps: its magnitude is it itself.
ValueId abs_of_sign_change(const Site& s) {
  if (const Node* neg = s.simplifier.node(s.in(0), kNeg); neg && dsl::info(s.type.element).is_signed)
    return s.simplifier.make(kAbs, {s.simplifier.operand(*neg, 0)});
  return s.simplifier.node(s.in(0), kAbs) ? s.in(0) : kNoValue;
}

ValueId of_itself(const Site& s) { return s.in(0) == s.in(1) ? s.in(0) : kNoValue; }

ValueId int_times_zero(const Site& s) {
  if (s.is_float()) return kNoValue;
  return s.simplifier.is_zero(s.in(0)) || s.simplifier.is_zero(s.in(1)) ? s.simplifier.full(s.type, 0) : kNoValue;
}

ValueId int_minus_itself(const Site& s) {
  return !s.is_float() && s.in(0) == s.in(1) ? s.simplifier.full(s.type, 0) : kNoValue;
}

ValueId power(const Site& s) {
  const auto exponent = s.simplifier.float_splat(s.in(1));
  if (!exponent) return kNoValue;
  if (*exponent == 0) return s.simplifier.full_number(s.type, 1);
  if (*exponent == 1) return s.in(0);
  if (*exponent == 2) return s.simplifier.make(kMul, {s.in(0), s.in(0)});
  return *exponent == -1 ? s.simplifier.make(kDiv, {s.simplifier.full_number(s.type, 1), s.in(0)}) : kNoValue;
}

}  // namespace

std::vector<RuleRow> arithmetic_rules() {
  using enum Algebra;
  return {
      {{"times_one", "x * 1", "x", kIeee, ""}, {kMul}, times_one},
      {{"times_minus_one", "x * -1", "-x", kIeee, "floats and signed ints"}, {kMul}, times_minus_one},
      {{"over_one", "x / 1", "x", kIeee, ""}, {kDiv}, over_one},
      {{"over_power_of_two", "x / 2^k", "x * 2^-k", kIeee, "floats from 16 bits on; both are normal numbers"},
       {kDiv},
       over_power_of_two},
      {{"plus_zero", "x + -0", "x", kIeee, "ints: x + 0. Of floats +0 would turn -0 into +0"}, {kAdd}, plus_zero},
      {{"minus_zero", "x - 0", "x", kIeee, ""}, {kSub}, minus_zero},
      {{"plus_negated", "x + -y", "x - y", kIeee, ""}, {kAdd}, plus_negated},
      {{"minus_negated", "x - -y", "x + y", kIeee, ""}, {kSub}, minus_negated},
      {{"negated_twice", "--x", "x", kIeee, ""}, {kNeg}, negated_twice},
      {{"both_negated", "-x * -y", "x * y", kIeee, "div too"}, {kMul, kDiv}, both_negated},
      {{"abs_of_sign_change", "abs(-x)", "abs(x)", kIeee, "not of unsigned x; abs(abs(x)) too"},
       {kAbs},
       abs_of_sign_change},
      {{"min_of_itself", "min(x, x)", "x", kIeee, "max, and, or too"}, {kMin, kMax, kAnd, kOr}, of_itself},
      {{"int_times_zero", "x * 0", "0", kIeee, "ints"}, {kMul}, int_times_zero},
      {{"int_minus_itself", "x - x", "0", kIeee, "ints; xor too"}, {kSub, kXor}, int_minus_itself},
      {{"power", "pow(x, 2)", "x * x", kIeee, "exponents -1, 0, 1 too"}, {kPow}, power},
  };
}

}  // namespace kiln::graph

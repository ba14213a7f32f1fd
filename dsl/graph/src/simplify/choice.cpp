// Select, comparisons, bits and casts.
#include <array>

#include "simplify/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

ValueId known_condition(const Site& s) {
  const auto condition = s.simplifier.splat(s.in(0));
  return condition ? s.in(*condition != 0 ? 1 : 2) : kNoValue;
}

ValueId same_either_way(const Site& s) { return s.in(1) == s.in(2) ? s.in(1) : kNoValue; }

ValueId negated_condition(const Site& s) {
  const Node* turned = s.simplifier.node(s.in(0), kNot);
  return turned ? s.simplifier.make(kSelect, {s.simplifier.operand(*turned, 0), s.in(2), s.in(1)}) : kNoValue;
}

ValueId compared_with_itself(const Site& s) {
  if (s.in(0) != s.in(1)) return kNoValue;
  const auto pred = enum_attr<Predicate>(s.attrs, 0);
  const bool strict = pred == Predicate::kLt || pred == Predicate::kGt;
  if (strict) return s.simplifier.full(s.type, 0);
  if (dsl::is_float(s.simplifier.type(s.in(0)).element)) return kNoValue;  // NaN
  return s.simplifier.full(s.type, pred == Predicate::kNe ? 0 : 1);
}

ValueId turned_twice(const Site& s) {
  const Node* turned = s.simplifier.node(s.in(0), kNot);
  return turned ? s.simplifier.operand(*turned, 0) : kNoValue;
}

uint64_t all_ones(ElementType element) {
  const int bits = dsl::info(element).bits;
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

ValueId with_all_or_none(const Site& s) {
  for (size_t i = 0; i < 2; ++i) {
    const auto bits = s.simplifier.splat(s.in(i));
    if (!bits || (*bits != 0 && *bits != all_ones(s.type.element))) continue;
    const bool none = *bits == 0;
    if (s.op == kXor) return none ? s.in(1 - i) : s.simplifier.make(kNot, {s.in(1 - i)});
    return none == (s.op == kAnd) ? s.in(i) : s.in(1 - i);
  }
  return kNoValue;
}

ValueId cast_to_itself(const Site& s) {
  return s.simplifier.type(s.in(0)).element == s.type.element ? s.in(0) : kNoValue;
}

// Whether every value of one type is one of another.
bool holds(ElementType wide, ElementType narrow) {
  const auto &w = dsl::info(wide), &n = dsl::info(narrow);
  if (wide == narrow) return true;
  if (n.is_float) {
    if (!w.is_float) return false;
    if (wide == ElementType::kF64) return true;
    if (wide == ElementType::kF32) return n.bits < 32;
    return n.bits == 8 && w.bits == 16;  // f16 and bf16 hold both forms of f8
  }
  if (w.is_float) {
    const int digits = wide == ElementType::kF64    ? 53
                       : wide == ElementType::kF32  ? 24
                       : wide == ElementType::kF16  ? 11
                       : wide == ElementType::kBF16 ? 8
                                                    : 3;
    return n.bits - (n.is_signed ? 1 : 0) <= digits;
  }
  return w.is_signed == n.is_signed ? w.bits >= n.bits : w.is_signed && w.bits > n.bits;
}

// The first cast loses nothing, so the second sees the same value.
ValueId cast_through_wider(const Site& s) {
  const Node* inner = s.simplifier.node(s.in(0), kCast);
  if (!inner) return kNoValue;
  const ValueId x = s.simplifier.operand(*inner, 0);
  if (!holds(s.simplifier.type(s.in(0)).element, s.simplifier.type(x).element)) return kNoValue;
  return s.simplifier.make(kCast, {x}, {s.type.element});
}

ValueId bitcast_twice(const Site& s) {
  if (s.simplifier.type(s.in(0)).element == s.type.element) return s.in(0);
  const Node* inner = s.simplifier.node(s.in(0), kBitcast);
  return inner ? s.simplifier.make(kBitcast, {s.simplifier.operand(*inner, 0)}, {s.type.element}) : kNoValue;
}

}  // namespace

std::vector<RuleRow> choice_rules() {
  using enum Algebra;
  return {
      {{"known_condition", "select(true, x, y)", "x", kIeee, "false: y"}, {kSelect}, known_condition},
      {{"same_either_way", "select(c, x, x)", "x", kIeee, ""}, {kSelect}, same_either_way},
      {{"negated_condition", "select(~c, x, y)", "select(c, y, x)", kIeee, ""}, {kSelect}, negated_condition},
      {{"compared_with_itself", "x < x", "false", kIeee, "of ints all comparisons; of floats < and >, for NaN"},
       {kCmp},
       compared_with_itself},
      {{"turned_twice", "~~x", "x", kIeee, ""}, {kNot}, turned_twice},
      {{"with_all_or_none", "x & 0", "0", kIeee, "and, or, xor with no bits and with all"},
       {kAnd, kOr, kXor},
       with_all_or_none},
      {{"cast_to_itself", "cast(x, type of x)", "x", kIeee, ""}, {kCast}, cast_to_itself},
      {{"cast_through_wider", "cast(cast(x, wide), t)", "cast(x, t)", kIeee,
        "where the wide type has all values of x's: a cast that rounds stays"},
       {kCast},
       cast_through_wider},
      {{"bitcast_twice", "bitcast(bitcast(x, a), b)", "bitcast(x, b)", kIeee, ""}, {kBitcast}, bitcast_twice},
  };
}

}  // namespace kiln::graph

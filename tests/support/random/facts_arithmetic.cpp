// Facts: arithmetic, math and casts.
#include <algorithm>
#include <cmath>

#include "random/facts_rules.h"

namespace kiln::random_kernel {

using dsl::ElementType;
using dsl::MathFn;
using dsl::OpCode;

Level Rule::worst() const {
  Level out = Level::kBits;
  for (const Fact& fact : in) out = std::max(out, fact.level);
  return out;
}

Fact any_int(ElementType type, bool may_wrap) {
  Fact out = full_fact(dsl::scalar_type(type));
  out.may_wrap = may_wrap && type != ElementType::kI1;
  return out;
}

Fact any_float(Level level) {
  Fact out;
  out.level = level;
  return out;
}

Fact near(double rtol, double atol) {
  Fact out;
  out.level = Level::kNear;
  out.rtol = rtol;
  out.atol = atol;
  return out;
}

namespace {

// The range where it needs no wrapping, else everything.
Fact ranged(ElementType type, Wide low, Wide high, bool may_wrap) {
  if (low < lowest_int(type) || high > highest_int(type)) return any_int(type, true);
  Fact out;
  out.low = low;
  out.high = high;
  out.may_wrap = may_wrap;
  return out;
}

bool is_below(const Fact& fact, Wide bound) { return fact.low > -bound && fact.high < bound; }

}  // namespace

Outcome int_rule(const Rule& rule) {
  const ElementType type = rule.element(0);
  const Fact &a = rule.in[0], &b = rule.in[rule.in.size() > 1 ? 1 : 0];
  const bool wrapped = a.may_wrap || b.may_wrap;
  switch (rule.op.code) {
    case OpCode::kAdd:
      return fine(ranged(type, a.low + b.low, a.high + b.high, wrapped));
    case OpCode::kSub:
      return fine(ranged(type, a.low - b.high, a.high - b.low, wrapped));
    case OpCode::kMul: {
      if (!is_below(a, Wide{1} << 62) || !is_below(b, Wide{1} << 62)) return fine(any_int(type, true));
      const Wide corners[] = {a.low * b.low, a.low * b.high, a.high * b.low, a.high * b.high};
      return fine(
          ranged(type, *std::min_element(corners, corners + 4), *std::max_element(corners, corners + 4), wrapped));
    }
    case OpCode::kMin:
      return fine(ranged(type, std::min(a.low, b.low), std::min(a.high, b.high), wrapped));
    case OpCode::kMax:
      return fine(ranged(type, std::max(a.low, b.low), std::max(a.high, b.high), wrapped));
    case OpCode::kNeg:
      return fine(ranged(type, -a.high, -a.low, a.may_wrap));
    case OpCode::kRem:
      // rem begins a new value, so hashing and then rem makes an index.
      if (b.low < 1) return fine(any_int(type, true));
      return fine(ranged(type, a.low < 0 ? std::max(a.low, 1 - b.high) : 0,
                         std::min(std::max(a.high, Wide{0}), b.high - 1), false));
    case OpCode::kDiv:
      if (a.low < 0 || b.low < 1) return fine(any_int(type, true));
      return fine(ranged(type, a.low / b.high, a.high / b.low, wrapped));
    default:
      return fine(any_int(type, type != ElementType::kI1));
  }
}

Outcome float_rule(const Rule& rule) {
  const ElementType type = rule.element(0);
  const Fact &a = rule.in[0], &b = rule.in[rule.in.size() > 1 ? 1 : 0];
  const OpCode code = rule.op.code;
  if (code == OpCode::kNeg || code == OpCode::kAbs) {  // the sign bit alone
    Fact out = a;
    out.integral = a.integral && code == OpCode::kAbs;
    return fine(out);
  }
  if (rule.worst() == Level::kNear) return open("arithmetic on inexact values");
  Fact out = any_float(std::max(rule.worst(), Level::kValue));
  const bool divides = code == OpCode::kDiv || code == OpCode::kRem;
  if (divides && b.level == Level::kAnyZero) return open("division by a zero of unknown sign");
  if (code == OpCode::kMin || code == OpCode::kMax) {
    out.integral = a.integral && b.integral;
    if (!out.integral) out.level = Level::kAnyZero;
    out.bound = std::max(a.bound, b.bound);
    return fine(out);
  }
  if (code == OpCode::kDiv && rule.number(0) == 1) {  // fast
    const bool tame = a.integral && b.integral && a.bound < 1e6 && b.bound < 1e6 && out.level == Level::kValue;
    return tame && type == ElementType::kF32 ? fine(near(4 * unit_of(type), 0)) : open("fast division of extremes");
  }
  double bound = std::numeric_limits<double>::infinity();
  if (code == OpCode::kAdd || code == OpCode::kSub) bound = a.bound + b.bound;
  if (code == OpCode::kMul) bound = a.bound * b.bound;
  if (code == OpCode::kFma) bound = a.bound * b.bound + rule.in[2].bound;
  if (std::isnan(bound)) bound = std::numeric_limits<double>::infinity();
  const bool sums = code == OpCode::kAdd || code == OpCode::kSub;
  out.integral = sums && a.integral && b.integral && bound <= 2 / unit_of(type);
  if (!out.integral) bound *= 1 + 2 * unit_of(type);
  if (bound <= largest_of(type) / 2) out.bound = bound;
  return fine(out);
}

namespace {

// Units in the last place between two backends that are each within the bound of docs/reference/ops.md.
double math_units(MathFn fn, bool is_double) {
  switch (fn) {
    case MathFn::kPow:
    case MathFn::kTan:
    case MathFn::kErfc:
      return is_double ? 17 : 9;
    case MathFn::kExp:
    case MathFn::kExp2:
    case MathFn::kLog:
    case MathFn::kLog2:
    case MathFn::kSin:
    case MathFn::kCos:
    case MathFn::kErf:
      return is_double ? 9 : 5;
    default:
      return 9;
  }
}

}  // namespace

Outcome math_rule(const Rule& rule) {
  const MathFn fn = static_cast<MathFn>(rule.number(0));
  const ElementType type = rule.element(0);
  const Level level = rule.worst();
  if (level == Level::kNear) return open("a function of inexact values");
  switch (fn) {
    case MathFn::kSignbit:
      if (level != Level::kBits) return open("signbit of a zero or NaN of unknown sign");
      return fine(any_int(ElementType::kI1, false));
    case MathFn::kIsnan:
    case MathFn::kIsinf:
      return fine(any_int(ElementType::kI1, false));
    case MathFn::kCopysign: {
      if (rule.in[1].level != Level::kBits) return open("copysign of a zero or NaN of unknown sign");
      Fact out = any_float(rule.in[0].level == Level::kAnyZero ? Level::kValue : rule.in[0].level);
      out.bound = rule.in[0].bound;
      return fine(out);
    }
    case MathFn::kSqrt:
    case MathFn::kFloor:
    case MathFn::kCeil:
    case MathFn::kRound:
    case MathFn::kTrunc:
      if (rule.number(1) == 1) return open("a fast function of extremes");
      return fine(any_float(std::max(level, Level::kValue)));
    default:
      break;
  }
  if (level == Level::kAnyZero) return open("a function of a zero of unknown sign");
  // Fast functions have no bound to compare by.
  if (rule.number(1) == 1) return open("a fast function");
  // Small floats: computed in f32 and rounded, so the rounding may go the other way, by one unit.
  const bool small = dsl::is_small_float(type);
  return fine(near(small ? unit_of(type) * 1.01 : math_units(fn, type == ElementType::kF64) * unit_of(type),
                   smallest_of(type) * (small ? 1 : 8)));
}

Outcome cast_rule(const Rule& rule) {
  const ElementType from = rule.element(0), to = std::get<ElementType>(rule.op.attrs[0]);
  const Fact& x = rule.in[0];
  if (rule.op.code == OpCode::kBitcast) {
    if (x.level != Level::kBits) return open("the bits of a zero or NaN of unknown sign");
    return fine(dsl::is_float(to) ? any_float(Level::kBits) : any_int(to, true));
  }
  if (!dsl::is_float(to)) {
    if (x.level == Level::kNear) return open("an int of an inexact value");
    const bool fits = !dsl::is_float(from) && x.low >= lowest_int(to) && x.high <= highest_int(to);
    if (to == ElementType::kI1) return fine(any_int(to, false));
    return fine(fits ? x : any_int(to, true));
  }
  if (!dsl::is_float(from)) {
    Fact out;
    const auto bound = static_cast<double>(std::max(x.high, -x.low));
    if (bound <= largest_of(to)) out.bound = bound;
    out.integral = bound <= 2 / unit_of(to);
    return fine(out);
  }
  if (x.level == Level::kNear) {
    if (rule.number(1) == 1 || rule.number(2) == 0)
      return open("a rounding of inexact values that is not nearest even");
    return fine(near(x.rtol + 1.01 * unit_of(to), x.atol + smallest_of(to)));
  }
  Fact out = any_float(from == to ? x.level : std::max(x.level, Level::kValue));
  if (x.bound * (1 + unit_of(to)) <= largest_of(to)) out.bound = x.bound * (1 + unit_of(to));
  out.integral = x.integral && x.bound <= 2 / unit_of(to);
  return fine(out);
}

}  // namespace kiln::random_kernel

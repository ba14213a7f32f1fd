// Value ranges and axes through arithmetic, comparisons and casts.
#include "passes/axis_arithmetic.h"

#include <algorithm>
#include <numeric>

namespace kiln::codegen::axis {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpCode;
using dsl::Type;
using dsl::Wide;

constexpr Wide kMaxProduct = Wide{1} << 62;  // of two such numbers the product is a Wide

// The largest power of two that divides every multiple: what wrapping around leaves of divisibility.
int64_t power_of_two(int64_t multiple) { return multiple & -multiple; }

Wide clamp_far(Wide distance) { return std::clamp(distance, -kFar, kFar); }

// One binary op on ints: its operands with what all its rules need.
class Binary {
 public:
  Binary(const Facts& facts, const Op& op)
      : facts_(facts),
        op_(op),
        x_(facts.operand(op, 0)),
        y_(facts.operand(op, 1)),
        type_(facts.type(op.results[0])),
        extent_(type_.shape.empty() ? 1 : type_.shape.back().as_constant().value()) {}

  AxisInfo info() {
    out_ = unknown(type_);
    out_.constant = common_groups(x_.constant, y_.constant, extent_);
    switch (op_.code) {
      case OpCode::kAdd:
        add();
        break;
      case OpCode::kSub:
        sub();
        break;
      case OpCode::kMul:
        mul(y_);
        break;
      case OpCode::kDiv:
        div();
        break;
      case OpCode::kRem:
        rem();
        break;
      case OpCode::kMin:
      case OpCode::kMax:
        min_max();
        break;
      case OpCode::kAnd:
      case OpCode::kOr:
      case OpCode::kXor:
        bits();
        break;
      case OpCode::kShl:
        shl();
        break;
      case OpCode::kShr:
        shr();
        break;
      default:
        break;
    }
    return out_;
  }

 private:
  int64_t each(const AxisInfo& info) const { return multiple_of_groups(info, 1); }

  // The exact result lies in low…high: so does the op's, if the type holds that. Else it may have wrapped.
  void settle(Wide low, Wide high) {
    const AxisInfo all = unknown(type_);
    if (low >= all.low && high <= all.high) {
      out_.low = low, out_.high = high;
      return;
    }
    if (facts_.wrap == Wrap::kIndex) {
      if (std::max(low, all.low) <= std::min(high, all.high)) {
        out_.low = std::max(low, all.low), out_.high = std::min(high, all.high);
      }
      return;
    }
    out_.multiple_of = power_of_two(multiple_of_groups(out_, 1));
    out_.contiguous = 1;
    out_.base = dsl::kNoValue;
  }

  // The distance of a sum from a base, which may also say more about its range.
  void set_base(const AxisInfo& x, Wide low, Wide high, Wide& least, Wide& most) {
    if (x.base == dsl::kNoValue) return;
    out_.base = x.base;
    out_.base_low = clamp_far(x.base_low + low);
    out_.base_high = clamp_far(x.base_high + high);
    const AxisInfo& base = facts_.info[x.base];
    least = std::max(least, base.low + out_.base_low);
    most = std::min(most, base.high + out_.base_high);
  }

  void add() {
    out_.contiguous = std::max(common_groups(x_.contiguous, y_.constant, extent_),
                               common_groups(x_.constant, y_.contiguous, extent_));
    out_.multiple_of = std::gcd(multiple_of_groups(x_, out_.contiguous), multiple_of_groups(y_, out_.contiguous));
    Wide low = x_.low + y_.low, high = x_.high + y_.high;
    // The one that varies more is taken to be the distance's base.
    const bool y_is_base =
        y_.base != dsl::kNoValue && (x_.base == dsl::kNoValue || y_.high - y_.low > x_.high - x_.low);
    if (y_is_base) {
      set_base(y_, x_.low, x_.high, low, high);
    } else {
      set_base(x_, y_.low, y_.high, low, high);
    }
    settle(low, high);
  }

  void sub() {
    out_.contiguous = common_groups(x_.contiguous, y_.constant, extent_);
    out_.multiple_of = std::gcd(multiple_of_groups(x_, out_.contiguous), multiple_of_groups(y_, out_.contiguous));
    Wide low = x_.low - y_.high, high = x_.high - y_.low;
    if (x_.base != dsl::kNoValue && x_.base == y_.base) {
      low = std::max(low, x_.base_low - y_.base_high);
      high = std::min(high, x_.base_high - y_.base_low);
    } else {
      set_base(x_, -y_.high, -y_.low, low, high);
    }
    settle(low, high);
  }

  void mul(const AxisInfo& y) {
    const int64_t a = each(x_), b = each(y);
    if (__builtin_mul_overflow(a, b, &out_.multiple_of)) out_.multiple_of = std::max(a, b);
    const Wide ends[] = {x_.low, x_.high, y.low, y.high};
    const AxisInfo all = unknown(type_);
    if (std::any_of(std::begin(ends), std::end(ends),
                    [](Wide end) { return end > kMaxProduct || end < -kMaxProduct; })) {
      settle(all.low - 1, all.high + 1);
      return;
    }
    const auto [low, high] = std::minmax({x_.low * y.low, x_.low * y.high, x_.high * y.low, x_.high * y.high});
    settle(low, high);
  }

  // Truncated, x/0 = 0, MIN/-1 = MIN.
  void div() {
    if (y_.low >= 1) {
      const auto [low, high] = std::minmax({x_.low / y_.low, x_.low / y_.high, x_.high / y_.low, x_.high / y_.high});
      out_.low = low, out_.high = high;
    } else if (x_.low >= 0 && y_.low >= 0) {
      out_.low = 0, out_.high = x_.high;
    }
    if (!y_.is_known() || y_.low < 1 || y_.low > INT64_MAX) return;
    const auto by = static_cast<int64_t>(y_.low);
    if (each(x_) % by == 0) out_.multiple_of = each(x_) / by;
    // Contiguous groups that begin with a multiple have one quotient each.
    if (x_.low >= 0 && x_.contiguous % by == 0 && x_.multiple_of % by == 0) {
      out_.constant = std::max(out_.constant, by);
    }
  }

  // The dividend's sign; x rem 0 = x.
  void rem() {
    out_.low = std::min(x_.low, Wide{0}), out_.high = std::max(x_.high, Wide{0});
    out_.multiple_of = std::gcd(each(x_), each(y_));
    if (y_.low < 1) return;
    if (x_.low >= 0 && x_.high < y_.low) {
      out_ = x_;
      return;
    }
    out_.low = std::max(out_.low, 1 - y_.high), out_.high = std::min(out_.high, y_.high - 1);
    if (!y_.is_known() || y_.low > INT64_MAX) return;
    const auto by = static_cast<int64_t>(y_.low);
    if (each(x_) % by == 0) out_.low = out_.high = 0;
    const int64_t group = std::gcd(x_.contiguous, by);
    if (x_.low >= 0 && group > 1 && x_.multiple_of % group == 0) {
      out_.contiguous = group;
      out_.multiple_of = std::gcd(multiple_of_groups(x_, group), by);
    }
  }

  void min_max() {
    const bool is_min = op_.code == OpCode::kMin;
    out_.multiple_of = std::gcd(each(x_), each(y_));
    out_.low = is_min ? std::min(x_.low, y_.low) : std::max(x_.low, y_.low);
    out_.high = is_min ? std::min(x_.high, y_.high) : std::max(x_.high, y_.high);
    if (is_min ? x_.high <= y_.low : x_.low >= y_.high) {
      out_ = x_;
    } else if (is_min ? y_.high <= x_.low : y_.low >= x_.high) {
      out_ = y_;
    } else if (const AxisInfo& one = y_.base != dsl::kNoValue ? y_ : x_; one.base != dsl::kNoValue) {
      out_.base = one.base;
      out_.base_low = is_min ? -kFar : one.base_low;
      out_.base_high = is_min ? one.base_high : kFar;
    }
  }

  void bits() {
    const int64_t a = power_of_two(each(x_)), b = power_of_two(each(y_));
    const bool natural = x_.low >= 0 && y_.low >= 0;
    Wide ones = 1;
    while (ones <= std::max(x_.high, y_.high)) ones *= 2;
    if (op_.code == OpCode::kAnd) {
      out_.multiple_of = a == 0 || b == 0 ? 0 : std::max(a, b);
      if (x_.low >= 0 || y_.low >= 0) {
        out_.low = 0;
        out_.high = natural ? std::min(x_.high, y_.high) : x_.low >= 0 ? x_.high : y_.high;
      }
      if (type_.element == ElementType::kI1) out_.low = std::min(x_.low, y_.low);
    } else {
      out_.multiple_of = std::gcd(a, b);
      if (natural) out_.low = 0, out_.high = ones - 1;
      if (natural && op_.code == OpCode::kOr) out_.low = std::max(x_.low, y_.low);
      if (op_.code == OpCode::kXor && x_.is_known() && y_.is_known()) out_.low = out_.high = x_.low ^ y_.low;
    }
  }

  void shl() {
    if (!y_.is_known()) return;
    if (y_.low < 0 || y_.low >= dsl::info(type_.element).bits) {
      out_.low = out_.high = 0;
    } else if (y_.low < 62) {
      mul(known(ElementType::kI64, Wide{1} << static_cast<int>(y_.low)));
    }
  }

  void shr() {
    out_.low = std::min(x_.low, Wide{0}), out_.high = std::max(x_.high, Wide{x_.low < 0 ? -1 : 0});
    if (!y_.is_known() || y_.low < 0) return;
    const auto by = static_cast<int>(std::min(y_.low, Wide{64}));
    out_.low = x_.low >> by, out_.high = x_.high >> by;
    if (by < 62 && each(x_) % (int64_t{1} << by) == 0) out_.multiple_of = each(x_) >> by;
  }

  const Facts& facts_;
  const Op& op_;
  const AxisInfo &x_, &y_;
  const Type& type_;
  int64_t extent_;
  AxisInfo out_;
};

AxisInfo truth(const Type& type, std::optional<bool> value) {
  return value ? known(type.element, *value ? 1 : 0) : unknown(type);
}

// lhs < rhs for all elements, for none of them, or unknown. `or_equal`: lhs <= rhs.
std::optional<bool> is_less(const AxisInfo& x, const AxisInfo& y, bool or_equal) {
  const Wide slack = or_equal ? 1 : 0;
  if (x.high < y.low + slack) return true;
  if (x.low >= y.high + slack) return false;
  if (x.base == dsl::kNoValue || x.base != y.base) return std::nullopt;
  if (x.base_high < y.base_low + slack) return true;
  if (x.base_low >= y.base_high + slack) return false;
  return std::nullopt;
}

// Neighbours that count up from a multiple of g are all below a multiple of g, or none is: the groups in which x < y,
// and its opposite, are constant.
int64_t groups_below(const AxisInfo& x, const AxisInfo& y, int64_t extent) {
  const int64_t together = common_groups(x.contiguous, y.constant, extent);
  return std::gcd(together, std::gcd(x.multiple_of, y.multiple_of));  // gcd(0, g) is g
}

AxisInfo compared(const Facts& facts, const Op& op) {
  const AxisInfo &x = facts.operand(op, 0), &y = facts.operand(op, 1);
  const Type& type = facts.type(op.results[0]);
  const int64_t extent = type.shape.empty() ? 1 : type.shape.back().as_constant().value();
  int64_t groups = 1;
  std::optional<bool> value;
  if (dsl::is_int(facts.type(op.operands[0]).element)) {
    switch (static_cast<dsl::Predicate>(int_attr(op, 0))) {
      case dsl::Predicate::kLt:
        value = is_less(x, y, false);
        groups = groups_below(x, y, extent);
        break;
      case dsl::Predicate::kLe:
        value = is_less(x, y, true);
        groups = groups_below(y, x, extent);
        break;
      case dsl::Predicate::kGt:
        value = is_less(y, x, false);
        groups = groups_below(y, x, extent);
        break;
      case dsl::Predicate::kGe:
        value = is_less(y, x, true);
        groups = groups_below(x, y, extent);
        break;
      case dsl::Predicate::kEq:
      case dsl::Predicate::kNe: {
        const bool is_ne = static_cast<dsl::Predicate>(int_attr(op, 0)) == dsl::Predicate::kNe;
        const bool apart = is_less(x, y, false) == true || is_less(y, x, false) == true;
        if (apart) value = is_ne;
        if (is_less(x, y, true) == true && is_less(y, x, true) == true) value = !is_ne;
        break;
      }
    }
  }
  AxisInfo out = truth(type, value);
  out.constant = std::max(common_groups(x.constant, y.constant, extent), groups);
  return out;
}

AxisInfo selected(const Facts& facts, const Op& op) {
  const AxisInfo &condition = facts.operand(op, 0), &x = facts.operand(op, 1), &y = facts.operand(op, 2);
  if (condition.is_known()) return condition.low != 0 ? x : y;
  const Type& type = facts.type(op.results[0]);
  const int64_t extent = type.shape.empty() ? 1 : type.shape.back().as_constant().value();
  AxisInfo out = join(x, y, type);
  const int64_t group = common_groups(out.contiguous, condition.constant, extent);
  out.multiple_of = multiple_of_groups(out, group, type.pointer ? dsl::info(type.element).bytes : 1);
  out.contiguous = group;
  out.constant = common_groups(out.constant, condition.constant, extent);
  return out;
}

AxisInfo converted(const Facts& facts, const Op& op) {
  const AxisInfo& x = facts.operand(op, 0);
  const Type &from = facts.type(op.operands[0]), &to = facts.type(op.results[0]);
  AxisInfo out = unknown(to);
  out.constant = x.constant;
  if (op.operands.size() > 1) out.constant = 1;  // random words differ from lane to lane
  if (dsl::is_float(from.element) || dsl::is_float(to.element)) return out;
  if (to.element == ElementType::kI1) {
    if (x.low > 0 || x.high < 0) out.low = 1;
    if (x.low == 0 && x.high == 0) out.high = 0;
  } else if (x.low >= out.low && x.high <= out.high) {
    return x;
  } else if (facts.wrap == Wrap::kIndex) {
    const Wide low = std::max(x.low, out.low), high = std::min(x.high, out.high);
    if (low > high) return out;
    out = x;
    out.low = low, out.high = high;
  } else {
    out.multiple_of = power_of_two(multiple_of_groups(x, 1));
  }
  return out;
}

AxisInfo pointer_sum(const Facts& facts, const Op& op) {
  const AxisInfo &x = facts.operand(op, 0), &y = facts.operand(op, 1);
  const Type& type = facts.type(op.results[0]);
  const int64_t extent = type.shape.empty() ? 1 : type.shape.back().as_constant().value();
  const int64_t bytes = dsl::info(type.element).bytes;
  AxisInfo out = unknown(type);
  out.constant = common_groups(x.constant, y.constant, extent);
  out.contiguous =
      std::max(common_groups(x.contiguous, y.constant, extent), common_groups(x.constant, y.contiguous, extent));
  int64_t moved;
  if (__builtin_mul_overflow(multiple_of_groups(y, out.contiguous), bytes, &moved)) moved = bytes;
  out.multiple_of = std::gcd(multiple_of_groups(x, out.contiguous, bytes), moved);
  return out;
}

AxisInfo negated(const Facts& facts, const Op& op) {
  const AxisInfo& x = facts.operand(op, 0);
  const Type& type = facts.type(op.results[0]);
  AxisInfo out = unknown(type);
  out.constant = x.constant;
  if (!dsl::is_int(type.element)) return out;
  if (op.code == OpCode::kAbs && x.low >= 0) return x;
  out.multiple_of = multiple_of_groups(x, 1);
  Wide low = -x.high, high = -x.low;
  if (op.code == OpCode::kAbs) low = x.high <= 0 ? low : Wide{0}, high = std::max(x.high, high);
  if (low < out.low || high > out.high) {
    out.multiple_of = power_of_two(out.multiple_of);  // MIN, or an unsigned number
    return out;
  }
  out.low = low, out.high = high;
  return out;
}

}  // namespace

std::optional<AxisInfo> arithmetic_info(const Facts& facts, const Op& op) {
  switch (op.code) {
    case OpCode::kCmp:
      return compared(facts, op);
    case OpCode::kSelect:
      return selected(facts, op);
    case OpCode::kCast:
      return converted(facts, op);
    case OpCode::kAddptr:
      return pointer_sum(facts, op);
    case OpCode::kNeg:
    case OpCode::kAbs:
      return negated(facts, op);
    case OpCode::kAdd:
    case OpCode::kSub:
    case OpCode::kMul:
    case OpCode::kDiv:
    case OpCode::kRem:
    case OpCode::kMin:
    case OpCode::kMax:
    case OpCode::kAnd:
    case OpCode::kOr:
    case OpCode::kXor:
    case OpCode::kShl:
    case OpCode::kShr:
      if (dsl::is_int(facts.type(op.results[0]).element)) return Binary(facts, op).info();
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace kiln::codegen::axis

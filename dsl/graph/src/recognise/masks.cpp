#include "recognise/masks.h"

#include <cmath>

#include "kiln/graph/extents.h"

namespace kiln::graph::recognition {
namespace {

using enum TensorOp;
using Condition = Masks::Condition;

// row·r + column·c + rest, of the last two axes of the frame.
struct Line {
  int64_t row = 0, column = 0;
  Expr rest;
};

constexpr int kMostDepth = 8;

std::optional<Line> line_of(const Matching& m, const Seen& seen, int depth = kMostDepth) {
  const Node* node = m.node(seen.value);
  if (!node || depth == 0) return std::nullopt;
  if (auto rest = m.expression(seen.value)) return Line{0, 0, std::move(*rest)};
  const int last = static_cast<int>(seen.axes.size()) - 1;
  switch (node->op) {
    case kIota: {
      const auto axis = static_cast<int>(int_attr(m.attrs(seen.value), 2));
      for (int i = 0; i <= last; ++i) {
        if (seen.axes[static_cast<size_t>(i)] != axis) continue;
        if (i < last - 1) return std::nullopt;
        return i == last ? Line{0, 1, Expr(0)} : Line{1, 0, Expr(0)};
      }
      return std::nullopt;
    }
    case kCast: {
      const ElementType from = m.type(m.operand(seen.value, 0)).element;
      const bool ints = dsl::is_int(m.type(seen.value).element) && dsl::is_int(from);
      return ints ? line_of(m, m.peel(seen, 0), depth - 1) : std::nullopt;
    }
    case kAdd:
    case kSub: {
      if (dsl::is_float(m.type(seen.value).element)) return std::nullopt;
      const auto a = line_of(m, m.peel(seen, 0), depth - 1), b = line_of(m, m.peel(seen, 1), depth - 1);
      if (!a || !b) return std::nullopt;
      const int64_t sign = node->op == kAdd ? 1 : -1;
      return Line{a->row + sign * b->row, a->column + sign * b->column, a->rest + Expr(sign) * b->rest};
    }
    default:
      return std::nullopt;
  }
}

class Reader {
 public:
  Reader(Matching& m, const std::vector<Expr>& frame)
      : m_(m),
        shift_(frame.back() - frame[frame.size() - 2]),
        sees_itself_(at_most(m.dims(), frame[frame.size() - 2], frame.back()) == Known::kYes) {}

  // Takes a condition for one of the attributes, or keeps it.
  void read(const Condition& condition) {
    const bool fits = std::isinf(condition.beyond) || sees_itself_;
    if (!fits || !taken(m_.peel(condition.value), condition.negated, kMostDepth)) others.push_back(condition);
  }
  // An added tensor that is 0 or -inf by a condition.
  bool read_added(ValueId value) {
    const Seen seen = m_.peel(value);
    if (m_.is(seen.value, kTriangle)) return hidden(m_.operand(seen.value, 0)) && in_triangle(seen, /*negated=*/true);
    if (m_.is(seen.value, kMul)) return read_product(seen);
    if (!m_.is(seen.value, kSelect)) return false;
    const bool negated = hidden(m_.operand(seen.value, 1));
    const size_t zero = negated ? 2 : 1;
    if (!m_.is_number(m_.operand(seen.value, zero), 0)) return false;
    if (!negated && !hidden(m_.operand(seen.value, 2))) return false;
    return taken(m_.peel(seen, 0), negated, kMostDepth);
  }

  Mask mask;
  std::vector<Condition> others;

 private:
  // A finite number hides nothing from a row that sees nothing else.
  bool hidden(ValueId value) const { return hides(m_, value) && (sees_itself_ || m_.is_number(value, -INFINITY)); }

  // A condition as a number, 1 where it holds, or 1 less it, times a finite number that hides.
  bool read_product(const Seen& seen) {
    for (size_t i = 0; i < 2; ++i) {
      const ValueId factor = m_.operand(seen.value, i);
      if (!hidden(factor) || m_.is_number(factor, -INFINITY)) continue;
      Seen other = m_.peel(seen, 1 - i);
      const bool less = m_.is(other.value, kSub) && m_.is_number(m_.operand(other.value, 0), 1);
      if (less) other = m_.peel(other, 1);
      if (!m_.is(other.value, kCast)) return false;
      const Seen condition = m_.peel(other, 0);
      return m_.type(condition.value).element == ElementType::kI1 && taken(condition, !less, kMostDepth);
    }
    return false;
  }

  bool taken(const Seen& seen, bool negated, int depth) {
    const Node* node = m_.node(seen.value);
    if (!node || depth == 0) return false;
    if (node->op == kNot) return taken(m_.peel(seen, 0), !negated, depth - 1);
    if (node->op == (negated ? kOr : kAnd)) {
      // Both or none.
      const Mask before = mask;
      if (taken(m_.peel(seen, 0), negated, depth - 1) && taken(m_.peel(seen, 1), negated, depth - 1)) return true;
      mask = before;
      return false;
    }
    if (node->op == kTriangle) {
      const bool all = m_.type(seen.value).element == ElementType::kI1 && m_.is_number(m_.operand(seen.value, 0), 1);
      return all && in_triangle(seen, negated);
    }
    return node->op == kCmp && compared(seen, negated);
  }

  // Whether elements are where a triangle keeps its operand's.
  bool in_triangle(const Seen& seen, bool negated) {
    const auto rank = static_cast<int>(m_.rank(seen.value));
    const size_t last = seen.axes.size() - 1;
    if (seen.axes[last] != rank - 1 || seen.axes[last - 1] != rank - 2) return false;
    const int64_t diagonal = int_attr(m_.attrs(seen.value), 0);
    // upper: column ≥ row + diagonal, that is row - column + diagonal ≤ 0.
    if (flag_attr(m_.attrs(seen.value), 1)) return at_most_zero({1, -1, Expr(diagonal)}, negated);
    return at_most_zero({-1, 1, Expr(-diagonal)}, negated);
  }

  bool compared(const Seen& seen, bool negated) {
    auto predicate = enum_attr<Predicate>(m_.attrs(seen.value), 0);
    // triangle(…) compared with 0
    const Seen left = m_.peel(seen, 0);
    if (m_.is(left.value, kTriangle) && m_.is_number(m_.operand(seen.value, 1), 0)) {
      const auto filled = m_.number(m_.operand(left.value, 0));
      if (!filled || *filled == 0 || std::isnan(*filled)) return false;
      if (predicate == Predicate::kEq) return in_triangle(left, !negated);
      return predicate == Predicate::kNe && in_triangle(left, negated);
    }
    const auto a = line_of(m_, left), b = line_of(m_, m_.peel(seen, 1));
    if (!a || !b) return false;
    const Line difference{a->row - b->row, a->column - b->column, a->rest - b->rest};
    const Line opposite{-difference.row, -difference.column, Expr(-1) * difference.rest};
    switch (predicate) {
      case Predicate::kLe:
        return at_most_zero(difference, negated);
      case Predicate::kLt:
        return at_most_zero(opposite, !negated);
      case Predicate::kGe:
        return at_most_zero(opposite, negated);
      case Predicate::kGt:
        return at_most_zero(difference, !negated);
      default:
        return false;
    }
  }

  // line ≤ 0, or, negated, line > 0.
  bool at_most_zero(Line line, bool negated) {
    if (negated) line = {-line.row, -line.column, Expr(1) - line.rest};
    if (line.row == -1 && line.column == 1) {
      // column ≤ row - rest: causal where -rest is N - M.
      if (!m_.same_extent(Expr(-1) * line.rest, shift_)) return false;
      mask.causal = true;
      return true;
    }
    if (line.row != 1 || line.column != -1) return false;
    // column ≥ row + rest: column > row + N - M - w where w is N - M - rest + 1.
    const auto window = (shift_ - line.rest + Expr(1)).as_constant();
    if (!window || *window < 1 || mask.window != 0) return false;
    mask.window = *window;
    return true;
  }

  Matching& m_;
  Expr shift_;        // N - M
  bool sees_itself_;  // N ≥ M: the attributes leave each row a place
};

bool is_one(const Expr& extent) { return extent.as_constant() == 1; }

std::span<const Expr> without_ones_in_front(std::span<const Expr> shape) {
  while (!shape.empty() && is_one(shape.front())) shape = shape.subspan(1);
  return shape;
}

// In a shape, or in one that is the same but for ones in front, where the value is a view of that.
ValueId shaped(Matching& m, ValueId value, const std::vector<Expr>& shape) {
  const auto wanted = without_ones_in_front(shape);
  for (ValueId from = value;; from = m.operand(from, 0)) {
    if (m.rank(from) <= 4 && m.same_extents(without_ones_in_front(m.shape(from)), wanted)) return from;
    if (!m.is(from, kReshape)) return m.emit(kReshape, {from}, {shape});
  }
}

ValueId before_repeats(const Matching& m, ValueId value) {
  while (m.is(value, kBroadcast) || m.is(value, kStopGradient)) value = m.operand(value, 0);
  return value;
}

// A tensor of the frame's shape as an operand that broadcasts to [B, H, M, N], as small as it was.
ValueId as_operand(Matching& m, ValueId value, const std::vector<Expr>& frame, const Front& front) {
  const ValueId small = before_repeats(m, value);
  std::vector<Expr> shape = m.shape(small);
  if (shape.size() <= 2 || frame.size() == 4) return small;
  shape.insert(shape.begin(), frame.size() - shape.size(), Expr(1));
  if (frame.size() == 3) {
    const bool of_batch = m.same_extent(front.batch, frame[0]);
    return shaped(m, small, {of_batch ? shape[0] : Expr(1), of_batch ? Expr(1) : shape[0], shape[1], shape[2]});
  }
  if (is_one(shape[1]) && is_one(shape[2])) return shaped(m, small, {shape[0], Expr(1), shape[3], shape[4]});
  const bool each = m.same_extent(shape[1], frame[1]) && m.same_extent(shape[2], frame[2]);
  if (each) return shaped(m, small, {shape[0], front.heads, shape[3], shape[4]});
  return m.reshaped(value, {front.batch, front.heads, frame[frame.size() - 2], frame.back()});
}

ValueId filled(Matching& m, ElementType element, const std::vector<Expr>& shape, double number) {
  return m.emit(kFull, {}, {element, shape, Literal{dsl::bits_from_double(element, number)}});
}

ValueId repeated(Matching& m, ValueId value, const std::vector<Expr>& shape) {
  if (value == kNoValue || m.same_extents(m.shape(value), shape)) return value;
  return m.emit(kBroadcast, {value}, {shape});
}

// `shown` where a condition holds, and what is beyond it elsewhere.
ValueId choice(Matching& m, const Condition& condition, ValueId shown, const TensorType& scores) {
  ValueId small = condition.value;
  std::vector<Expr> shape = scores.shape;
  if (shown == kNoValue) {
    small = before_repeats(m, condition.value);
    shape = m.shape(small);
    shown = filled(m, scores.element, shape, 0);
  }
  const ValueId beyond = filled(m, scores.element, shape, condition.beyond);
  if (shown == kNoValue || beyond == kNoValue) return kNoValue;
  return repeated(m,
                  condition.negated ? m.emit(kSelect, {small, beyond, shown}) : m.emit(kSelect, {small, shown, beyond}),
                  scores.shape);
}

// All conditions as one.
ValueId all_of(Matching& m, std::span<const Condition> conditions, const std::vector<Expr>& frame, const Front& front) {
  ValueId all = kNoValue;
  for (const Condition& condition : conditions) {
    ValueId each = condition.value;
    if (conditions.size() == 1) each = as_operand(m, each, frame, front);
    if (each != kNoValue && condition.negated) each = m.emit(kNot, {each});
    if (each == kNoValue) return kNoValue;
    all = all == kNoValue ? each : m.emit(kAnd, {all, each});
    if (all == kNoValue) return kNoValue;
  }
  return conditions.size() == 1 ? all : as_operand(m, all, frame, front);
}

}  // namespace

bool hides(const Matching& m, ValueId value) {
  const auto number = m.number(value);
  const double least = m.type(value).element == ElementType::kF16 ? -6e4 : -1e30;
  return number && *number <= least;
}

std::optional<Mask> mask_of(Matching& m, const Masks& masks, const TensorType& scores, const Front& front) {
  const std::vector<Expr>& frame = scores.shape;
  Reader reader(m, frame);
  for (const Condition& condition : masks.conditions) {
    if (!m.same_extents(m.shape(condition.value), frame)) return std::nullopt;
    reader.read(condition);
  }
  ValueId added = kNoValue;
  for (const ValueId value : masks.added) {
    if (!m.same_extents(m.shape(value), frame)) return std::nullopt;
    if (reader.read_added(value)) continue;
    added = added == kNoValue ? value : m.emit(kAdd, {added, value});
  }
  // Finite numbers are added: where all of a row has them it is a mean, as it was.
  std::vector<Condition> hard;
  for (const Condition& condition : reader.others) {
    if (std::isinf(condition.beyond)) {
      hard.push_back(condition);
      continue;
    }
    const ValueId low = choice(m, condition, kNoValue, scores);
    if (low == kNoValue) return std::nullopt;
    added = added == kNoValue ? low : m.emit(kAdd, {added, low});
  }
  Mask out = reader.mask;
  if (added == kNoValue) {
    if (hard.empty()) return out;
    out.operand = all_of(m, hard, frame, front);
  } else {
    for (const Condition& condition : hard) {
      added = choice(m, condition, added, scores);
      if (added == kNoValue) return std::nullopt;
    }
    out.operand = as_operand(m, added, frame, front);
  }
  if (out.operand == kNoValue) return std::nullopt;
  return out;
}

}  // namespace kiln::graph::recognition

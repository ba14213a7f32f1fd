// Views of views, views that change nothing, and views of one value.
#include <algorithm>

#include "kiln/graph/extents.h"
#include "simplify/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;
using Exprs = std::vector<Expr>;
using Ints = std::vector<int64_t>;

ValueId changes_nothing(const Site& s) {
  if (s.simplifier.type(s.in(0)) != s.type) return kNoValue;
  switch (s.op) {
    case kReshape:
    case kBroadcast:
    case kSlice:  // of step 1 along every axis that has more than one element: all of it
      if (s.op == kSlice && std::ranges::any_of(ints_attr(s.attrs, 2), [](int64_t step) { return step != 1; }))
        return kNoValue;
      return s.in(0);
    case kPermute:
      return std::ranges::is_sorted(ints_attr(s.attrs, 0)) ? s.in(0) : kNoValue;
    case kReverse: {
      const auto one = [&](int64_t axis) { return s.type.shape[static_cast<size_t>(axis)].as_constant() == 1; };
      return std::ranges::all_of(ints_attr(s.attrs, 0), one) ? s.in(0) : kNoValue;
    }
    case kPad:
      return s.in(0);
    default:
      return kNoValue;
  }
}

ValueId of_one_value(const Site& s) {
  const auto bits = s.simplifier.splat(s.in(0));
  if (!bits) return kNoValue;
  if (s.op == kPad && s.simplifier.splat(s.in(1)) != bits) return kNoValue;
  return s.simplifier.full(s.type, *bits);
}

ValueId reshaped_twice(const Site& s) {
  const Node* inner = s.simplifier.node(s.in(0), kReshape);
  return inner ? s.simplifier.make(kReshape, {s.simplifier.operand(*inner, 0)}, {s.type.shape}) : kNoValue;
}

ValueId permuted_twice(const Site& s) {
  const Node* inner = s.simplifier.node(s.in(0), kPermute);
  if (!inner) return kNoValue;
  Ints order;
  for (const int64_t axis : ints_attr(s.attrs, 0))
    order.push_back(ints_attr(s.simplifier.attrs(*inner), 0)[static_cast<size_t>(axis)]);
  return s.simplifier.make(kPermute, {s.simplifier.operand(*inner, 0)}, {std::move(order)});
}

// Axes are aligned at the last one both times.
ValueId broadcast_twice(const Site& s) {
  const Node* inner = s.simplifier.node(s.in(0), kBroadcast);
  return inner ? s.simplifier.make(kBroadcast, {s.simplifier.operand(*inner, 0)}, {s.type.shape}) : kNoValue;
}

ValueId sliced_twice(const Site& s) {
  const Node* inner = s.simplifier.node(s.in(0), kSlice);
  if (!inner) return kNoValue;
  const AttrList& of_inner = s.simplifier.attrs(*inner);
  Exprs start, end;
  Ints step;
  for (size_t i = 0; i < s.type.shape.size(); ++i) {
    const int64_t first = ints_attr(of_inner, 2)[i], second = ints_attr(s.attrs, 2)[i];
    int64_t both = 0;
    if (__builtin_mul_overflow(first, second, &both)) return kNoValue;
    const Expr begin = shape_attr(of_inner, 0)[i] + shape_attr(s.attrs, 0)[i] * Expr(first);
    start.push_back(begin);
    // The last element is (end - 1)·first + start of the inner one; nothing behind it.
    const Expr stop = shape_attr(of_inner, 0)[i] + (shape_attr(s.attrs, 1)[i] - Expr(1)) * Expr(first) + Expr(1);
    const bool empty = s.type.shape[i].as_constant() == 0;
    if (!empty && interval(s.simplifier.graph().dims, s.type.shape[i]).low < 1)
      return kNoValue;  // may be empty: stop < start
    end.push_back(empty ? begin : stop);
    step.push_back(both);
  }
  const ValueId out =
      s.simplifier.make(kSlice, {s.simplifier.operand(*inner, 0)}, {std::move(start), std::move(end), std::move(step)});
  return out != kNoValue && s.simplifier.type(out) == s.type ? out : kNoValue;
}

ValueId reversed_twice(const Site& s) {
  const Node* inner = s.simplifier.node(s.in(0), kReverse);
  if (!inner) return kNoValue;
  Ints axes = ints_attr(s.attrs, 0);
  for (const int64_t axis : ints_attr(s.simplifier.attrs(*inner), 0)) {
    const auto found = std::ranges::find(axes, axis);
    if (found == axes.end()) {
      axes.push_back(axis);
    } else {
      axes.erase(found);
    }
  }
  std::ranges::sort(axes);
  const ValueId x = s.simplifier.operand(*inner, 0);
  return axes.empty() ? x : s.simplifier.make(kReverse, {x}, {std::move(axes)});
}

ValueId cat_of_one(const Site& s) {
  const auto axis = static_cast<size_t>(int_attr(s.attrs, 0));
  std::vector<ValueId> filled;
  for (const ValueId x : s.operands) {
    if (s.simplifier.type(x).shape[axis].as_constant() != 0) filled.push_back(x);
  }
  if (filled.size() == 1) return filled[0];
  if (filled.empty() || filled.size() == s.operands.size()) return kNoValue;
  return s.simplifier.make(kCat, filled, s.attrs);
}

ValueId known_extent(const Site& s) {
  const auto value = expr_attr(s.attrs, 1).as_constant();
  if (!value) return kNoValue;
  const ElementType element = s.type.element;
  // From i64 as by cast: floats round once, ints saturate.
  if (dsl::is_float(element)) {
    if (*value > (int64_t{1} << 53) || *value < -(int64_t{1} << 53)) return kNoValue;
    return s.simplifier.full_number(s.type, static_cast<double>(*value));
  }
  const int bits = dsl::info(element).bits;
  const bool fits = *value >= 0 && (bits >= 63 || *value < (int64_t{1} << (bits - 1)));
  return fits && element != ElementType::kI1 ? s.simplifier.full(s.type, static_cast<uint64_t>(*value)) : kNoValue;
}

}  // namespace

std::vector<RuleRow> view_rules() {
  using enum Algebra;
  const std::vector<TensorOp> views = {kReshape, kPermute, kBroadcast, kSlice, kReverse, kPad};
  return {
      {{"view_changes_nothing", "reshape(x, shape of x)", "x", kIeee,
        "permute in order, slice of all, reverse of nothing, pad by nothing"},
       views,
       changes_nothing},
      {{"view_of_one_value", "broadcast(full(v))", "full(v)", kIeee, "every view; pad by the same value"},
       views,
       of_one_value},
      {{"reshaped_twice", "reshape(reshape(x, a), b)", "reshape(x, b)", kIeee, ""}, {kReshape}, reshaped_twice},
      {{"permuted_twice", "permute(permute(x, a), b)", "permute(x, a∘b)", kIeee, ""}, {kPermute}, permuted_twice},
      {{"broadcast_twice", "broadcast(broadcast(x, a), b)", "broadcast(x, b)", kIeee, ""},
       {kBroadcast},
       broadcast_twice},
      {{"sliced_twice", "slice(slice(x, a), b)", "slice(x, a∘b)", kIeee, "where it is not empty"},
       {kSlice},
       sliced_twice},
      {{"reversed_twice", "reverse(reverse(x, a), b)", "reverse(x, a△b)", kIeee, ""}, {kReverse}, reversed_twice},
      {{"cat_of_one", "cat(x)", "x", kIeee, "empty ones do not count"}, {kCat}, cat_of_one},
      {{"known_extent", "extent(4)", "full(4)", kIeee, ""}, {kExtent}, known_extent},
  };
}

}  // namespace kiln::graph

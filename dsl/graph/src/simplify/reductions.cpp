// Reductions of nothing, of one value and of reductions.
#include <algorithm>

#include "kiln/graph/extents.h"
#include "simplify/rules.h"

namespace kiln::graph {
namespace {

using enum TensorOp;

bool reduces_elements(const Site& s) {
  const TensorType& x = s.simplifier.type(s.in(0));
  return std::ranges::any_of(ints_attr(s.attrs, 1),
                             [&](int64_t axis) { return x.shape[static_cast<size_t>(axis)].as_constant() != 1; });
}

ValueId along_nothing(const Site& s) {
  if (reduces_elements(s)) return kNoValue;
  return s.simplifier.type(s.in(0)) == s.type ? s.in(0) : s.simplifier.make(kReshape, {s.in(0)}, {s.type.shape});
}

// Sums of +0 are +0; of others it depends on the count. min, max, and, or are the value where there is one.
ValueId of_one_value(const Site& s) {
  const auto bits = s.simplifier.splat(s.in(0));
  if (!bits) return kNoValue;
  const auto kind = enum_attr<ReduceKind>(s.attrs, 0);
  if (kind == ReduceKind::kSum && *bits == 0) return s.simplifier.full(s.type, 0);
  if (kind == ReduceKind::kProd && s.simplifier.is_number(s.in(0), 1)) return s.simplifier.full(s.type, *bits);
  if (kind == ReduceKind::kSum || kind == ReduceKind::kProd || kind == ReduceKind::kXor) return kNoValue;
  const TensorType& x = s.simplifier.type(s.in(0));
  const auto filled = [&](int64_t axis) {
    return interval(s.simplifier.graph().dims, x.shape[static_cast<size_t>(axis)]).low >= 1;
  };
  return std::ranges::all_of(ints_attr(s.attrs, 1), filled) ? s.simplifier.full(s.type, *bits) : kNoValue;
}

// Of one kind, along axes of both.
ValueId reduced_twice(const Site& s) {
  const Node* inner = s.simplifier.node(s.in(0), kReduce);
  if (!inner) return kNoValue;
  const AttrList& of_inner = s.simplifier.attrs(*inner);
  if (int_attr(of_inner, 0) != int_attr(s.attrs, 0) || flag_attr(of_inner, 2) || flag_attr(s.attrs, 2)) return kNoValue;
  const ValueId x = s.simplifier.operand(*inner, 0);
  std::vector<int64_t> axes = ints_attr(of_inner, 1), left;
  for (int64_t axis = 0; axis < s.simplifier.type(x).rank(); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end()) left.push_back(axis);
  }
  for (const int64_t axis : ints_attr(s.attrs, 1)) axes.push_back(left[static_cast<size_t>(axis)]);
  std::ranges::sort(axes);
  return s.simplifier.make(kReduce, {x}, {s.attrs[0], std::move(axes), int64_t{0}});
}

// Sums and products of floats are of another order then.
ValueId exactly_reduced_twice(const Site& s) {
  const auto kind = enum_attr<ReduceKind>(s.attrs, 0);
  const bool rounds = s.is_float() && (kind == ReduceKind::kSum || kind == ReduceKind::kProd);
  return rounds ? kNoValue : reduced_twice(s);
}

}  // namespace

std::vector<RuleRow> reduce_rules() {
  using enum Algebra;
  return {
      {{"reduced_along_nothing", "sum(x, [])", "x", kIeee, "axes of extent 1 too: a reshape"},
       {kReduce},
       along_nothing},
      {{"reduced_one_value", "sum(0)", "0", kIeee,
        "prod of 1; min, max, and, or of any value along axes that are not empty"},
       {kReduce},
       of_one_value},
      {{"exactly_reduced_twice", "max(max(x, a), b)", "max(x, a∪b)", kIeee, "all kinds of ints"},
       {kReduce},
       exactly_reduced_twice},
      {{"reduced_twice", "sum(sum(x, a), b)", "sum(x, a∪b)", kReal, "sums and products of floats"},
       {kReduce},
       reduced_twice},
  };
}

}  // namespace kiln::graph

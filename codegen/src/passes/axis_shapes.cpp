// Value ranges and axes through ops that move elements.
#include "passes/axis_shapes.h"

#include <algorithm>
#include <numeric>

namespace kiln::codegen::axis {
namespace {

using dsl::Op;
using dsl::OpCode;
using dsl::Type;

// The same elements in some other order: what holds of each of them is left.
AxisInfo elements_only(const AxisInfo& x, int64_t step) {
  AxisInfo out = x;
  out.multiple_of = multiple_of_groups(x, 1, step);
  out.contiguous = out.constant = 1;
  return out;
}

AxisInfo repeated(const AxisInfo& x, int64_t extent, int64_t step) {
  AxisInfo out = elements_only(x, step);
  out.constant = extent;
  return out;
}

// A slice along the last axis: groups that begin elsewhere are smaller.
AxisInfo shifted(const AxisInfo& x, int64_t start, int64_t step) {
  AxisInfo out = x;
  out.contiguous = std::gcd(x.contiguous, start);
  out.multiple_of = multiple_of_groups(x, out.contiguous, step);
  out.constant = std::gcd(x.constant, start);
  return out;
}

}  // namespace

std::optional<AxisInfo> shape_info(const Facts& facts, const Op& op) {
  if (op.operands.empty()) return std::nullopt;
  const bool is_scalar = facts.type(op.operands[0]).shape.empty();
  const AxisInfo& x = facts.operand(op, 0);
  const Type& from = facts.type(op.operands[0]);
  const Type& to = op.results.empty() ? from : facts.type(op.results[0]);
  const int64_t step = from.pointer ? dsl::info(from.element).bytes : 1;
  const int64_t extent = to.shape.empty() ? 1 : to.shape.back().as_constant().value();
  const int axis = to.rank() - 1;
  switch (op.code) {
    case OpCode::kSplat:
      return repeated(x, extent, step);
    case OpCode::kBroadcast:
      return is_scalar || from.shape.back() == to.shape.back() ? x : repeated(x, extent, step);
    case OpCode::kExpandDims:
      return int_attr(op, 0) == axis ? elements_only(x, step) : x;
    case OpCode::kPermute: {
      const auto& order = std::get<std::vector<dsl::Expr>>(op.attrs[0]);
      return is_scalar || order.back().as_constant() == axis ? x : elements_only(x, step);
    }
    case OpCode::kReshape: {
      if (!from.shape.empty() && !to.shape.empty() && from.shape.back() == to.shape.back()) return x;
      // Splats stay splats; of rows put together nothing is known.
      const bool one_row = from.rank() == 1;
      if (one_row && x.constant >= dsl::element_count(from)) return repeated(x, extent, step);
      return elements_only(x, step);
    }
    case OpCode::kSlice:
      return int_attr(op, 0) == axis ? shifted(x, number_attr(op, 1), step) : x;
    case OpCode::kCat:
      if (int_attr(op, 0) != axis) return join(x, facts.operand(op, 1), to);
      return join(elements_only(x, step), elements_only(facts.operand(op, 1), step), to);
    case OpCode::kJoin:
      return join(elements_only(x, step), elements_only(facts.operand(op, 1), step), to);
    case OpCode::kSplit:
    case OpCode::kGather:
      return elements_only(x, step);
    default:
      return std::nullopt;
  }
}

}  // namespace kiln::codegen::axis

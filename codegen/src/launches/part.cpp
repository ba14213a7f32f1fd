#include "launches/part.h"

#include <algorithm>

#include "kiln/dsl/rewrite.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen {
namespace {

using dsl::ElementType;
using dsl::Op;
using dsl::OpBuilder;
using dsl::OpCode;
using dsl::ValueId;

constexpr int64_t kLongReduce = 1 << 16;  // elements; each chunk would do it again

int64_t extent_of(const dsl::Kernel& kernel, ValueId id, size_t axis) {
  return *kernel.type(id).shape[axis].as_constant();
}

// Whether the op is what gives its result this axis, of one place: it is that of all parts.
bool inserts_axis(const Op& op, size_t axis) {
  return op.code == OpCode::kExpandDims && static_cast<size_t>(int_attr(op, 0)) == axis;
}

// The axis of the operand that becomes this axis of the result of a shape op.
size_t source_axis(const Op& op, size_t axis) {
  if (op.code == OpCode::kExpandDims) return axis - (static_cast<size_t>(int_attr(op, 0)) < axis ? 1 : 0);
  if (op.code == OpCode::kPermute) {
    return static_cast<size_t>(*std::get<std::vector<dsl::Expr>>(op.attrs[0])[axis].as_constant());
  }
  return axis;
}

}  // namespace

bool PartCheck::along(ValueId id, size_t axis) {
  if (!seen_along_.insert({id, axis}).second) return true;
  const Op* op = definition_[id];
  if (!op) return false;
  switch (op->code) {
    case OpCode::kArange:
      return true;
    case OpCode::kSplat:
      return whole(op->operands[0]);
    case OpCode::kBroadcast:
      if (extent_of(kernel_, op->operands[0], axis) == 1) return whole(op->operands[0]);
      return along(op->operands[0], axis);
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      if (inserts_axis(*op, axis)) return whole(op->operands[0]);
      return along(op->operands[0], source_axis(*op, axis));
    default:
      break;
  }
  if (op->code != OpCode::kLoad && !is_elementwise(*op)) return false;
  return std::all_of(op->operands.begin(), op->operands.end(), [&](ValueId x) { return along(x, axis); });
}

bool PartCheck::whole(ValueId id) {
  if (!seen_whole_.insert(id).second) return true;
  const Op* op = definition_[id];
  if (!op) return is_param(id);
  switch (family_of(*op)) {
    case dsl::OpFamily::kProgram:
    case dsl::OpFamily::kMake:
    case dsl::OpFamily::kView:
      break;
    default: {
      const bool is_short =
          op->code == OpCode::kReduce && dsl::element_count(kernel_.type(op->operands[0])) <= kLongReduce;
      if (!is_short && op->code != OpCode::kLoad && !is_elementwise(*op)) return false;
    }
  }
  return std::all_of(op->operands.begin(), op->operands.end(), [&](ValueId x) { return whole(x); });
}

bool PartCheck::is_only_along(ValueId tile, size_t axis) const {
  return !seen_whole_.contains(tile) &&
         std::ranges::all_of(seen_along_, [&](const auto& seen) { return seen.first != tile || seen.second == axis; });
}

bool PartCheck::is_param(ValueId id) const {
  return std::any_of(kernel_.params.begin(), kernel_.params.end(),
                     [&](const dsl::Param& param) { return param.value == id; });
}

bool can_take_part(const dsl::Kernel& kernel, ValueId tile, size_t axis) { return PartCheck(kernel).along(tile, axis); }

PartBuilder::PartBuilder(const dsl::Kernel& source, dsl::Kernel& target, std::vector<Op>& out, const dsl::Location& loc,
                         Part part)
    : source_(source),
      definition_(dsl::definitions(source)),
      build_(target, out, loc),
      target_(target),
      out_(out),
      part_(part) {}

ValueId PartBuilder::part(ValueId tile, size_t axis) {
  if (auto known = memo_.find({tile, axis}); known != memo_.end()) return known->second;
  const ValueId out = part_new(tile, axis);
  memo_[{tile, axis}] = out;
  return out;
}

std::vector<dsl::Expr> PartBuilder::cut(ValueId tile, size_t axis) const {
  std::vector<dsl::Expr> shape = source_.type(tile).shape;
  shape[axis] = part_.extent;
  return shape;
}

ValueId PartBuilder::part_new(ValueId tile, size_t axis) {
  const Op& op = *definition_[tile];
  switch (op.code) {
    case OpCode::kArange: {
      const int64_t start = number_attr(op, 0) + part_.first;
      const ValueId numbers = build_.add(OpCode::kArange, {}, {dsl::Expr(start), dsl::Expr(start + part_.extent)});
      if (part_.offset == dsl::kNoValue) return numbers;
      return build_.add(OpCode::kAdd, {build_.splat(part_.offset, cut(tile, axis)), numbers});
    }
    case OpCode::kSplat:
      return build_.splat(op.operands[0], cut(tile, axis));
    case OpCode::kBroadcast: {
      const bool repeats = extent_of(source_, op.operands[0], axis) == 1;
      return build_.add(OpCode::kBroadcast, {repeats ? op.operands[0] : part(op.operands[0], axis)}, {cut(tile, axis)});
    }
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      if (inserts_axis(op, axis)) return tile;
      return build_.add(op.code, {part(op.operands[0], source_axis(op, axis))}, op.attrs);
    default:
      return clone(op, tile, axis);
  }
}

// A load or an elementwise op, which may have several results.
ValueId PartBuilder::clone(const Op& op, ValueId wanted, size_t axis) {
  Op out{op.code, {}, {}, op.attrs, {}, op.loc};
  for (ValueId operand : op.operands) out.operands.push_back(part(operand, axis));
  for (ValueId result : op.results) {
    dsl::Type type = source_.type(result);
    type.shape = cut(result, axis);
    const ValueId id = fresh_value(target_, std::move(type));
    out.results.push_back(id);
    memo_[{result, axis}] = id;
  }
  out_.push_back(std::move(out));
  return memo_[{wanted, axis}];
}

ValueId PartBuilder::whole_index(ValueId index) {
  const std::vector<dsl::Expr> shape = build_.type(index).shape;
  const ValueId first = part_.offset == dsl::kNoValue
                            ? build_.constant(ElementType::kI32, static_cast<uint64_t>(part_.first))
                            : part_.offset;
  return build_.add(OpCode::kAdd, {index, build_.splat(first, shape)});
}

ValueId spread_last(OpBuilder& build, ValueId tile, const std::vector<dsl::Expr>& shape) {
  if (shape.size() == 1) return build.splat(tile, shape);
  const ValueId column = build.add(OpCode::kExpandDims, {tile}, {static_cast<int64_t>(shape.size() - 1)});
  return build.add(OpCode::kBroadcast, {column}, {shape});
}

ValueId along_last(OpBuilder& build, const std::vector<dsl::Expr>& shape) {
  ValueId index = build.add(OpCode::kArange, {}, {dsl::Expr(0), shape.back()});
  for (size_t i = 1; i < shape.size(); ++i) index = build.add(OpCode::kExpandDims, {index}, {int64_t{0}});
  return shape.size() == 1 ? index : build.add(OpCode::kBroadcast, {index}, {shape});
}

ValueId row_numbers(OpBuilder& build, const std::vector<dsl::Expr>& shape, int64_t scale) {
  if (shape.empty()) return build.constant(ElementType::kI32, 0);
  ValueId total = dsl::kNoValue;
  int64_t stride = scale;
  for (size_t axis = shape.size(); axis-- > 0; stride *= *shape[axis].as_constant()) {
    ValueId index = build.add(OpCode::kArange, {}, {dsl::Expr(0), shape[axis]});
    const ValueId factor = build.constant(ElementType::kI32, static_cast<uint64_t>(stride));
    index = build.add(OpCode::kMul, {index, build.splat(factor, {shape[axis]})});
    for (size_t other = 0; other < shape.size(); ++other) {
      if (other != axis) index = build.add(OpCode::kExpandDims, {index}, {static_cast<int64_t>(other)});
    }
    if (shape.size() > 1) index = build.add(OpCode::kBroadcast, {index}, {shape});
    total = total == dsl::kNoValue ? index : build.add(OpCode::kAdd, {total, index});
  }
  return total;
}

}  // namespace kiln::codegen

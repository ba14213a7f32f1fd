// Tiles that lie in memory as they are, so that a dot can read them in place.
#include "cpu/nest/nest.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {

std::optional<Nest::MemoryView> Nest::memory_view(ValueId id, const Extents& read) {
  MemoryView view;
  Point point = normalise(id, identity());
  const Op* op = ctx.schedule.definition[id];
  while (!ctx.slots[id] && op && is_view(*op)) {
    point = source_point(*op, point);
    id = op->operands[0];
    op = ctx.schedule.definition[id];
  }
  auto strides_at = [&](auto stride_of) {
    view.strides.assign(static_cast<size_t>(rank()), ctx.i64(0));
    for (size_t axis = 0; axis < point.size(); ++axis) {
      if (point[axis] != kZero) view.strides[static_cast<size_t>(point[axis])] = stride_of(axis);
    }
  };
  if (const auto& slot = ctx.slots[id]) {
    if (!slot->valid_under.empty()) return std::nullopt;
    view.pointer = scratch_slot_address(ctx, *slot);
    strides_at([&](size_t axis) { return ctx.i64(slot->strides[axis]); });
    view.whole = ir.getTrue();
    return view;
  }
  if (!op || op->code != OpCode::kLoad) return std::nullopt;
  return memory_view(op->operands[0], op->operands.size() > 1 ? std::optional(op->operands[1]) : std::nullopt, point,
                     read);
}

std::optional<Nest::MemoryView> Nest::memory_view(ValueId pointers, std::optional<ValueId> mask, Point point,
                                                  const Extents& read) {
  MemoryView view;
  // The mask, if any, must be one that bounds decide.
  view.whole = ir.getTrue();
  if (mask) {
    register_mask(*mask, point);
    if (!masks_.count({*mask, normalise(*mask, point)})) return std::nullopt;
    for (int d = 0; d < rank(); ++d) {
      if (!dims_[d].bound) continue;
      Value* needed = ctx.i64(dims_[d].extent);
      for (const auto& [dim, extent] : read) {
        if (dim == d) needed = extent;
      }
      view.whole = ir.CreateAnd(view.whole, ir.CreateICmpSGE(dims_[d].bound, needed));
    }
  }
  // The address: a base pointer and affine offsets.
  Affine offset;
  offset.base = ctx.i64(0);
  offset.coefficients.assign(static_cast<size_t>(rank()), ctx.i64(0));
  ValueId at = pointers;
  while (!ctx.type(at).is_scalar()) {
    const Op* step = ctx.schedule.definition[at];
    if (!step || ctx.slots[at]) return std::nullopt;
    if (step->code == OpCode::kAddptr) {
      const auto part = affine(step->operands[1], normalise(step->operands[1], point), false);
      if (!part) return std::nullopt;
      offset.base = ir.CreateAdd(offset.base, part->base);
      for (size_t d = 0; d < offset.coefficients.size(); ++d) {
        if (part->coefficients[d]) offset.coefficients[d] = ir.CreateAdd(offset.coefficients[d], part->coefficients[d]);
      }
      point = normalise(step->operands[0], point);
    } else if (step->code == OpCode::kSplat) {
      point = {};
    } else if (is_view(*step)) {
      point = source_point(*step, point);
    } else {
      return std::nullopt;
    }
    at = step->operands[0];
  }
  view.pointer =
      ir.CreateGEP(memory_type(ir.getContext(), ctx.type(pointers).element, false), ctx.scalars[at], offset.base);
  view.strides.assign(offset.coefficients.begin(), offset.coefficients.end());
  return view;
}

Value* Nest::bound_along(ValueId id, int dim) {
  Point point = normalise(id, identity());
  const Op* op = ctx.schedule.definition[id];
  while (op && is_view(*op)) {
    point = source_point(*op, point);
    id = op->operands[0];
    op = ctx.schedule.definition[id];
  }
  if (!op || op->code != OpCode::kLoad || op->operands.size() != 2) return nullptr;
  return bound_of_mask(op->operands[1], point, dim);
}

Value* Nest::bound_of_mask(ValueId id, const Point& point, int dim) {
  Value* bound = nullptr;
  llvm::SmallVector<std::pair<ValueId, Point>, 8> todo = {{id, normalise(id, point)}};
  for (std::set<MaskAt> seen; !todo.empty();) {
    const auto [mask, at] = todo.pop_back_val();
    const Op* part = ctx.schedule.definition[mask];
    if (!seen.insert({mask, at}).second) continue;
    if (!part || ctx.type(mask).is_scalar() || !llvm::is_contained(at, static_cast<int8_t>(dim))) continue;
    if (part->code == OpCode::kAnd) {
      for (ValueId operand : part->operands) todo.emplace_back(operand, normalise(operand, at));
    } else if (is_view(*part)) {
      todo.emplace_back(part->operands[0], source_point(*part, at));
    } else if (Bounds bounds; part->code == OpCode::kCmp && add_comparison(*part, at, bounds)) {
      for (const auto& [where, value] : bounds) {
        if (where != dim) continue;
        bound = bound ? ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bound, value) : value;
      }
    }
  }
  if (!bound) return nullptr;
  bound = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, bound, ctx.i64(dims_[dim].extent));
  return ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, bound, ctx.i64(0));
}

Nest::Along Nest::along(ValueId id, const Point& point, int dim, bool exact) const {
  std::map<Key, Along> known;
  return along(id, point, dim, exact, known);
}

Nest::Along Nest::along(ValueId id, const Point& point, int dim, bool exact, std::map<Key, Along>& known) const {
  const auto [at, is_new] = known.try_emplace({id, {point.begin(), point.end()}}, Along::kSomehow);
  if (is_new) at->second = along_new(id, point, dim, exact, known);
  return at->second;
}

Nest::Along Nest::along_new(ValueId id, const Point& point, int dim, bool exact, std::map<Key, Along>& known) const {
  if (!llvm::is_contained(point, static_cast<int8_t>(dim))) return Along::kSame;
  const Op* op = ctx.schedule.definition[id];
  const dsl::Type& type = ctx.type(id);
  if (!op || ctx.slots[id] || type.pointer || dsl::is_float(type.element)) return Along::kSomehow;
  auto operand = [&](size_t i) { return along(op->operands[i], normalise(op->operands[i], point), dim, exact, known); };
  const dsl::ElementTypeInfo& element = dsl::info(type.element);
  const bool may_wrap = exact && (!element.is_signed || element.bits < 32);
  switch (op->code) {
    case OpCode::kArange:
      return Along::kByOne;
    case OpCode::kSplat:
      return Along::kSame;
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      return along(op->operands[0], source_point(*op, point), dim, exact, known);
    case OpCode::kCast: {
      const dsl::ElementTypeInfo& source = dsl::info(ctx.type(op->operands[0]).element);
      if (source.is_float || source.bits > element.bits || source.is_signed != element.is_signed)
        return Along::kSomehow;
      return operand(0);
    }
    case OpCode::kAdd:
    case OpCode::kSub: {
      const Along x = operand(0), y = operand(1);
      if (may_wrap || x == Along::kSomehow || y == Along::kSomehow) return Along::kSomehow;
      if (y == Along::kSame) return x;
      return x == Along::kSame && op->code == OpCode::kAdd ? y : Along::kLinearly;
    }
    case OpCode::kMul: {
      const Along x = operand(0), y = operand(1);
      if (x == Along::kSame && y == Along::kSame) return Along::kSame;
      if (may_wrap || x == Along::kSomehow || y == Along::kSomehow) return Along::kSomehow;
      return x == Along::kSame || y == Along::kSame ? Along::kLinearly : Along::kSomehow;
    }
    default:
      return Along::kSomehow;
  }
}

Nest::Along Nest::pointers_along(ValueId id, Point point, int dim) const {
  Along total = Along::kSame;
  for (point = normalise(id, point); llvm::is_contained(point, static_cast<int8_t>(dim));) {
    const Op* op = ctx.schedule.definition[id];
    if (!op || ctx.slots[id]) return Along::kSomehow;
    if (op->code == OpCode::kAddptr) {
      const Along part = along(op->operands[1], normalise(op->operands[1], point), dim, false);
      if (part == Along::kSomehow) return part;
      if (part != Along::kSame) total = total == Along::kSame ? part : Along::kLinearly;
      point = normalise(op->operands[0], point);
    } else if (is_view(*op)) {
      point = source_point(*op, point);
    } else {
      return op->code == OpCode::kSplat ? total : Along::kSomehow;
    }
    id = op->operands[0];
  }
  return total;
}

bool Nest::is_convex_along(ValueId mask, const Point& point, int dim) const {
  std::set<Key> seen;
  return is_convex_along(mask, point, dim, seen);
}

// What was seen is so, or else the answer is known.
bool Nest::is_convex_along(ValueId mask, const Point& point_in, int dim, std::set<Key>& seen) const {
  const Point point = normalise(mask, point_in);
  if (!llvm::is_contained(point, static_cast<int8_t>(dim))) return true;
  if (!seen.insert({mask, {point.begin(), point.end()}}).second) return true;
  const Op* op = ctx.schedule.definition[mask];
  if (!op || ctx.slots[mask]) return false;
  switch (op->code) {
    case OpCode::kAnd:
      return is_convex_along(op->operands[0], point, dim, seen) && is_convex_along(op->operands[1], point, dim, seen);
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      return is_convex_along(op->operands[0], source_point(*op, point), dim, seen);
    case OpCode::kSplat:
      return true;
    case OpCode::kCmp:
      return static_cast<dsl::Predicate>(std::get<int64_t>(op->attrs[0])) != dsl::Predicate::kNe &&
             llvm::all_of(op->operands, [&](ValueId operand) {
               return along(operand, normalise(operand, point), dim, true) != Along::kSomehow;
             });
    default:
      return false;
  }
}

// Each comparison of a convex mask but one for equality holds on one side of some index: false at both ends, it is
// false between them.
Result<Value*> Nest::fails_between(ValueId mask, const Point& first, const Point& last) {
  FailsBetween known;
  return fails_between(mask, first, last, known);
}

Result<Value*> Nest::fails_between(ValueId mask, const Point& first_in, const Point& last_in, FailsBetween& known) {
  const Point first = normalise(mask, first_in), last = normalise(mask, last_in);
  const std::pair<Key, Key> key = {{mask, {first.begin(), first.end()}}, {mask, {last.begin(), last.end()}}};
  if (const auto found = known.find(key); found != known.end()) return found->second;
  auto fails = fails_between_new(mask, first, last, known);
  if (fails) known[key] = *fails;
  return fails;
}

Result<Value*> Nest::fails_between_new(ValueId mask, const Point& first, const Point& last, FailsBetween& known) {
  const Op& op = *ctx.schedule.definition[mask];
  if (op.code == OpCode::kAnd) {
    auto left = fails_between(op.operands[0], first, last, known);
    auto right = fails_between(op.operands[1], first, last, known);
    if (!left || !right) return left ? right : left;
    return ir.CreateOr(*left, *right);
  }
  if (is_view(op)) {
    return fails_between(op.operands[0], source_point(op, first), source_point(op, last), known);
  }
  const bool equality =
      op.code == OpCode::kCmp && static_cast<dsl::Predicate>(std::get<int64_t>(op.attrs[0])) == dsl::Predicate::kEq;
  if (equality && first != last) return splat(ir.getFalse());
  auto at_first = evaluate(mask, first), at_last = evaluate(mask, last);
  if (!at_first || !at_last) return at_first ? at_last : at_first;
  return ir.CreateNot(ir.CreateOr(splat(*at_first), splat(*at_last)));
}

}  // namespace kiln::codegen::cpu

// Masks that become bounds of a nest's interior.
#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {
namespace {

// Two computations of one number: authors compare in i32 here and in i64 there.
bool is_same(const Value* x, const Value* y, int depth = 8) {
  if (x == y) return true;
  const auto *left = llvm::dyn_cast<llvm::Instruction>(x), *right = llvm::dyn_cast<llvm::Instruction>(y);
  if (depth == 0 || !left || !right || left->mayReadOrWriteMemory() || !left->isSameOperationAs(right)) return false;
  return llvm::all_of(llvm::zip(left->operands(), right->operands()),
                      [&](const auto& pair) { return is_same(std::get<0>(pair), std::get<1>(pair), depth - 1); });
}

}  // namespace

// The point of a shape op's operand.
Point Nest::source_point(const Op& op, const Point& point) const {
  Point out = point;
  if (op.code == OpCode::kExpandDims) {
    out.erase(out.begin() + std::get<int64_t>(op.attrs[0]));
  } else if (op.code == OpCode::kPermute) {
    const auto& order = std::get<std::vector<dsl::Expr>>(op.attrs[0]);
    for (size_t i = 0; i < point.size(); ++i) out[static_cast<size_t>(*order[i].as_constant())] = point[i];
  }
  return normalise(op.operands[0], out);
}

llvm::SmallVector<std::pair<ValueId, Point>, 3> Nest::sources(ValueId id, const Op& op, const Point& point) const {
  switch (op.code) {
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      return {{op.operands[0], source_point(op, point)}};
    case OpCode::kSplit: {
      Point whole = point;
      whole.push_back(at_index(id == op.results[1] ? 1 : 0));
      return {{op.operands[0], normalise(op.operands[0], whole)}};
    }
    case OpCode::kJoin: {
      Point part = point;
      const int8_t half = part.pop_back_val();
      part = normalise(op.operands[0], part);
      if (half < 0) return {{op.operands[static_cast<size_t>(index_at(half))], part}};
      return {{op.operands[0], part}, {op.operands[1], part}};
    }
    default: {
      llvm::SmallVector<std::pair<ValueId, Point>, 3> out;
      for (ValueId operand : op.operands) {
        if (!ctx.type(operand).is_scalar()) out.emplace_back(operand, normalise(operand, point));
      }
      return out;
    }
  }
}

// base + Σ coefficient·index < bound: `index < (bound - base) / coefficient`, rounded up, where exactly one index takes
// part.
bool Nest::add_comparison(const Op& cmp, const Point& point, Bounds& bounds) {
  const MaskAt key{cmp.results[0], point};
  if (auto known = comparisons_.find(key); known != comparisons_.end()) {
    if (known->second) bounds.push_back(*known->second);
    return known->second.has_value();
  }
  auto& entry = comparisons_[key];
  auto predicate = static_cast<dsl::Predicate>(std::get<int64_t>(cmp.attrs[0]));
  ValueId low = cmp.operands[0], high = cmp.operands[1];
  if (predicate == dsl::Predicate::kGt || predicate == dsl::Predicate::kGe) std::swap(low, high);
  if (predicate == dsl::Predicate::kEq || predicate == dsl::Predicate::kNe) return false;
  if (dsl::is_float(ctx.type(low).element)) return false;
  const bool inclusive = predicate == dsl::Predicate::kLe || predicate == dsl::Predicate::kGe;
  auto left = affine(low, normalise(low, point), true), right = affine(high, normalise(high, point), true);
  if (!left || !right) return false;
  int found = -1;
  int64_t step = 1;
  for (int d = 0; d < rank(); ++d) {
    if (right->coefficients[d]) return false;
    if (!left->coefficients[d]) continue;
    auto* constant = llvm::dyn_cast<llvm::ConstantInt>(left->coefficients[d]);
    if (!constant || !constant->getValue().isStrictlyPositive() || found >= 0) return false;
    step = constant->getSExtValue();
    found = d;
  }
  Value* bound = ir.CreateBinaryIntrinsic(llvm::Intrinsic::ssub_sat, right->base, left->base);
  if (inclusive) bound = ir.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, bound, ctx.i64(1));
  if (step > 1) {
    bound = ir.CreateBinaryIntrinsic(llvm::Intrinsic::sadd_sat, bound, ctx.i64(step - 1));
    bound = ir.CreateSDiv(bound, ctx.i64(step));
  }
  entry = found < 0 ? all_or_nothing(ir.CreateICmpSGT(bound, ctx.i64(0))) : Bound{found, known_bound(bound)};
  bounds.push_back(*entry);
  return true;
}

// What is equal is one value from here on.
Value* Nest::known_bound(Value* bound) const {
  for (const auto& [mask, entry] : comparisons_) {
    if (entry && is_same(entry->second, bound)) return entry->second;
  }
  return bound;
}

// Of a condition that is the same for all lanes.
Nest::Bound Nest::all_or_nothing(Value* condition) {
  const int dim = std::max(vector_dim_, 0);
  return {dim, ir.CreateSelect(condition, ctx.i64(dims_[dim].extent), ctx.i64(0))};
}

// A scalar condition for the whole tile, as what is left of a comparison along an axis of one place.
void Nest::add_splat(const Op& splat, const Point& point, Bounds& bounds) {
  auto& entry = comparisons_[{splat.results[0], point}];
  if (!entry) entry = all_or_nothing(ctx.scalars[splat.operands[0]]);
  bounds.push_back(*entry);
}

// Adds the bounds that the mask consists of; false when it is not a conjunction of such comparisons.
bool Nest::add_bounds(ValueId mask, const Point& point, Bounds& bounds, std::set<MaskAt>& seen) {
  if (!seen.insert({mask, point}).second) return true;
  const Op* op = ctx.schedule.definition[mask];
  if (!op || ctx.type(mask).is_scalar() || ctx.slots[mask]) return false;
  switch (op->code) {
    case OpCode::kAnd:
      return add_bounds(op->operands[0], normalise(op->operands[0], point), bounds, seen) &&
             add_bounds(op->operands[1], normalise(op->operands[1], point), bounds, seen);
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      return add_bounds(op->operands[0], source_point(*op, point), bounds, seen);
    case OpCode::kCmp:
      return add_comparison(*op, point, bounds);
    case OpCode::kSplat:
      add_splat(*op, point, bounds);
      return true;
    default:
      return false;
  }
}

void Nest::register_mask(ValueId mask, const Point& point_in) {
  const Point point = normalise(mask, point_in);
  if (masks_.count({mask, point})) return;
  Bounds bounds;
  std::set<MaskAt> seen;
  if (!add_bounds(mask, point, bounds, seen)) {
    outside_uniform_ = false;
    return;
  }
  for (auto& [dim, bound] : bounds) {
    Dim& d = dims_[dim];
    Value* least = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, d.bound ? d.bound : ctx.i64(d.extent), bound);
    d.bound = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, least, ctx.i64(0));
  }
  // Masks that constrain the same dimensions by the same values fail together. The order is by address: for comparing
  // only, the code must not depend on it.
  std::sort(bounds.begin(), bounds.end());
  bounds.erase(std::unique(bounds.begin(), bounds.end()), bounds.end());
  for (const auto& [other, its_bounds] : mask_bounds_) {
    if (its_bounds != bounds) outside_uniform_ = false;
  }
  masks_.insert({mask, point});
  mask_bounds_[{mask, point}] = std::move(bounds);
}

void Nest::register_masks(ValueId id, const Point& point_in) {
  const Point point = normalise(id, point_in);
  const Op* op = ctx.schedule.definition[id];
  if (!op || ctx.type(id).is_scalar() || ctx.slots[id]) return;
  if (!visited_.insert({id, std::vector<int8_t>(point.begin(), point.end())}).second) return;
  if (op->code == OpCode::kLoad && op->operands.size() > 1) register_mask(op->operands[1], point);
  for (const auto& [operand, at] : sources(id, *op, point)) {
    if (!ctx.type(operand).is_scalar()) register_masks(operand, at);
  }
}

bool Nest::uniform_outside(ValueId id, const Point& point_in) {
  const Point point = normalise(id, point_in);
  if (!varies(point)) return true;
  const Key key{id, {point.begin(), point.end()}};
  if (auto known = uniform_memo_.find(key); known != uniform_memo_.end()) return known->second;
  return uniform_memo_[key] = uniform_outside_new(id, point);
}

bool Nest::uniform_outside_new(ValueId id, const Point& point) {
  const Op* op = ctx.schedule.definition[id];
  if (!op || ctx.slots[id] || !outside_uniform_) return false;
  if (masks_.count({id, point})) return true;
  switch (op->code) {
    case OpCode::kArange:
      return false;
    case OpCode::kLoad:
      if (op->operands.size() < 2 || !masks_.count({op->operands[1], normalise(op->operands[1], point)})) return false;
      return op->operands.size() < 3 || uniform_outside(op->operands[2], point);
    case OpCode::kSplat:
      return true;
    case OpCode::kJoin:
      if (varies({point.back()})) return false;
      [[fallthrough]];
    default:
      return llvm::all_of(sources(id, *op, point), [&](const auto& source) {
        return ctx.type(source.first).is_scalar() || uniform_outside(source.first, source.second);
      });
  }
}

bool Nest::interior_suffices(std::optional<MaskAt> sink_mask) const {
  if (mask_bounds_.empty()) return true;
  if (!sink_mask) return false;
  auto own = mask_bounds_.find({sink_mask->mask, normalise(sink_mask->mask, sink_mask->point)});
  if (own == mask_bounds_.end()) return false;
  for (const auto& [mask, bounds] : mask_bounds_) {
    for (const auto& bound : bounds) {
      if (!llvm::is_contained(own->second, bound)) return false;
    }
  }
  return true;
}

void Nest::limit_to(llvm::ArrayRef<MaskAt> sink_masks) {
  // By dimension, what each of the masks allows.
  std::map<int, llvm::SmallVector<Value*, 2>> limits;
  for (const MaskAt& mask : sink_masks) {
    const auto own = mask_bounds_.find({mask.mask, normalise(mask.mask, mask.point)});
    if (own == mask_bounds_.end()) return;
    std::map<int, Value*> least;
    for (const auto& [dim, bound] : own->second) {
      Value*& limit = least[dim];
      limit = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, limit ? limit : ctx.i64(dims_[dim].extent), bound);
    }
    for (const auto& [dim, limit] : least) limits[dim].push_back(limit);
  }
  for (const auto& [dim, each] : limits) {
    if (each.size() < sink_masks.size()) continue;
    Value* limit = each[0];
    for (Value* other : llvm::ArrayRef(each).drop_front()) {
      limit = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, limit, other);
    }
    dims_[dim].limit = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smax, limit, ctx.i64(0));
  }
}

bool Nest::mask_holds(ValueId mask, const Point& point) const {
  if (mode_ != Mode::kInterior || !masks_.count({mask, point})) return false;
  if (varies(point)) return true;
  // Values of outer loop levels are computed before all indices are known to be inside: only the bounds of the loops
  // around that level hold.
  const auto bounds = mask_bounds_.find({mask, point});
  return rows_restricted_ && llvm::all_of(bounds->second, [&](const std::pair<int, Value*>& bound) {
           return bound.first != vector_dim_ && dims_[bound.first].extent > 1 &&
                  llvm::is_contained(point, static_cast<int8_t>(bound.first));
         });
}

}  // namespace kiln::codegen::cpu

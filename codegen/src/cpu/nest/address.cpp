// Index arithmetic as affine functions of the nest's indices, and the addresses of chunks.
#include "cpu/nest/nest.h"
#include "kiln/dsl/traits.h"

namespace kiln::codegen::cpu {

namespace {

Value* multiply(Builder& ir, Value* x, Value* y) {
  if (!x || !y) return nullptr;
  return ir.CreateMul(x, y);
}

bool is_zero(Value* x) {
  const auto* constant = llvm::dyn_cast_or_null<llvm::ConstantInt>(x);
  return constant && constant->isZero();
}

Value* sum(Builder& ir, Value* x, Value* y) {
  if (!x || is_zero(x)) return y ? y : x;
  return y && !is_zero(y) ? ir.CreateAdd(x, y) : x;
}

Value* widen(Builder& ir, Value* x, ElementType element) {
  return dsl::info(element).is_signed ? ir.CreateSExt(x, ir.getInt64Ty()) : ir.CreateZExt(x, ir.getInt64Ty());
}

}  // namespace

// All arithmetic on bases goes to the level before the nest: bases are uniform over it.
std::optional<Affine> Nest::affine(ValueId id, const Point& point, bool exact) {
  const Key key{id, {point.begin(), point.end()}};
  auto& memo = affine_memo_[exact ? 1 : 0];
  if (auto known = memo.find(key); known != memo.end()) return known->second;
  return memo[key] = affine_new(id, point, exact);
}

std::optional<Affine> Nest::affine_new(ValueId id, const Point& point, bool exact) {
  Affine out;
  out.coefficients.assign(static_cast<size_t>(rank()), nullptr);
  const dsl::Type& type = ctx.type(id);
  if (type.pointer || dsl::is_float(type.element) || type.element == ElementType::kI1) return std::nullopt;
  const dsl::ElementTypeInfo& element = dsl::info(type.element);
  if (exact && type.element == ElementType::kU64) return std::nullopt;  // i64 does not hold them all
  if (type.is_scalar()) {
    out.base = widen(ir, ctx.scalars[id], type.element);
    return out;
  }
  const Op* op = ctx.schedule.definition[id];
  if (!op || ctx.slots[id]) return std::nullopt;
  auto operand = [&](size_t i) { return affine(op->operands[i], normalise(op->operands[i], point), exact); };
  // Unsigned differences and arithmetic on narrow ints wrap in honest programs.
  const bool may_wrap = exact && (!element.is_signed || element.bits < 32);
  switch (op->code) {
    case OpCode::kArange:
      out.base = ctx.i64(*std::get<dsl::Expr>(op->attrs[0]).as_constant());
      if (point[0] >= 0) out.coefficients[point[0]] = ctx.i64(1);
      if (point[0] < kZero) out.base = ctx.i64(*std::get<dsl::Expr>(op->attrs[0]).as_constant() + index_at(point[0]));
      return out;
    case OpCode::kSplat:
      return affine(op->operands[0], {}, exact);
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      return affine(op->operands[0], source_point(*op, point), exact);
    case OpCode::kCast: {
      const dsl::Type& from = ctx.type(op->operands[0]);
      const dsl::ElementTypeInfo& source = dsl::info(from.element);
      if (source.is_float || source.bits > element.bits) return std::nullopt;
      // The value must stay what it is: no sign lost, none made up.
      if (source.is_signed ? !element.is_signed : element.is_signed && source.bits == element.bits) return std::nullopt;
      return operand(0);
    }
    case OpCode::kAdd:
    case OpCode::kSub: {
      if (may_wrap) return std::nullopt;
      auto x = operand(0), y = operand(1);
      if (!x || !y) return std::nullopt;
      auto combine = [&](Value* p, Value* q) -> Value* {
        if (op->code == OpCode::kAdd) return sum(ir, p, q);
        return q && !is_zero(q) ? ir.CreateSub(p ? p : ctx.i64(0), q) : p;
      };
      out.base = combine(x->base, y->base);
      for (int d = 0; d < rank(); ++d) out.coefficients[d] = combine(x->coefficients[d], y->coefficients[d]);
      return out;
    }
    case OpCode::kMul: {
      if (may_wrap) return std::nullopt;
      auto x = operand(0), y = operand(1);
      if (!x || !y) return std::nullopt;
      auto uniform = [](const Affine& a) {
        return llvm::all_of(a.coefficients, [](Value* v) { return v == nullptr; });
      };
      if (!uniform(*y)) std::swap(x, y);
      if (!uniform(*y)) return std::nullopt;
      out.base = multiply(ir, x->base, y->base);
      for (int d = 0; d < rank(); ++d) out.coefficients[d] = multiply(ir, x->coefficients[d], y->base);
      return out;
    }
    default:
      return std::nullopt;
  }
}

// Σ over the loop levels from the outside in, so that each partial sum is computed at its own level.
Value* Nest::affine_value(const Affine& affine, bool with_vector_dim) {
  Value* total = affine.base;
  for (int d = 0; d < rank(); ++d) {
    if (!affine.coefficients[d] || d == vector_dim_) continue;
    total = at_depth(dims_[d].depth,
                     [&] { return ir.CreateAdd(total, ir.CreateMul(dims_[d].index, affine.coefficients[d])); });
  }
  if (with_vector_dim && vector_dim_ >= 0 && affine.coefficients[vector_dim_]) {
    total = ir.CreateAdd(total, ir.CreateMul(dims_[vector_dim_].index, affine.coefficients[vector_dim_]));
  }
  return total;
}

// The lanes of a group that `index / D * D` makes of the vectors' axis; 1: it is no such product.
int Nest::group_of(const Op& product, const Point& point) const {
  const auto constant = [&](ValueId id) -> int64_t {
    const Op* op = ctx.schedule.definition[id];
    const bool is_splat = op && op->code == OpCode::kSplat;
    const auto* value = is_splat ? llvm::dyn_cast<llvm::ConstantInt>(ctx.scalars[op->operands[0]]) : nullptr;
    return value && value->getBitWidth() <= 64 ? value->getSExtValue() : 0;
  };
  // What a value is a copy of, and where.
  const auto source = [&](ValueId id, Point& here) {
    const Op* op = ctx.schedule.definition[id];
    here = normalise(id, here);
    while (op && is_view(*op)) {
      here = source_point(*op, here);
      op = ctx.schedule.definition[op->operands[0]];
    }
    return op;
  };
  const auto is_quotient = [&](ValueId id, int64_t by) {
    Point here = point;
    const Op* op = source(id, here);
    if (!op || op->code != OpCode::kDiv || ctx.slots[op->results[0]] || constant(op->operands[1]) != by) return false;
    const Op* index = source(op->operands[0], here);
    return index && index->code == OpCode::kArange && here == Point{static_cast<int8_t>(vector_dim_)} &&
           std::get<dsl::Expr>(index->attrs[0]).as_constant() == 0;
  };
  if (vector_dim_ < 0 || dims_[vector_dim_].inner) return 1;
  for (const bool first : {true, false}) {
    const int64_t factor = constant(product.operands[first ? 1 : 0]);
    // Chunks begin at multiples of their width, and have a register's lanes at least.
    const int64_t most = std::min(width_, ctx.target.vector_bytes / 4);
    if (factor < 2 || factor > most || !llvm::isPowerOf2_64(static_cast<uint64_t>(factor))) continue;
    if (is_quotient(product.operands[first ? 0 : 1], factor)) return static_cast<int>(factor);
  }
  return 1;
}

// A sum of affine parts and of one index that is rounded down to groups.
bool Nest::add_grouped(ValueId id, const Point& point_in, Offset& offset) {
  const Point point = normalise(id, point_in);
  if (auto part = at_depth(0, [&] { return affine(id, point, false); })) {
    at_depth(0, [&] {
      offset.affine.base = sum(ir, offset.affine.base, part->base);
      for (int d = 0; d < rank(); ++d)
        offset.affine.coefficients[d] = sum(ir, offset.affine.coefficients[d], part->coefficients[d]);
    });
    return true;
  }
  const Op* op = ctx.schedule.definition[id];
  if (!op || ctx.slots[id] || ctx.type(id).is_scalar()) return false;
  switch (op->code) {
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      return add_grouped(op->operands[0], source_point(*op, point), offset);
    case OpCode::kAdd:
      return add_grouped(op->operands[0], point, offset) && add_grouped(op->operands[1], point, offset);
    case OpCode::kMul: {
      const bool allowed = offset.groups && !offset.grouped && mode_ != Mode::kOutside;
      const int group = allowed ? group_of(*op, point) : 1;
      if (group == 1) return false;
      offset.grouped = MaskAt{id, point};
      offset.group = group;
      return true;
    }
    default:
      return false;
  }
}

Result<void> Nest::add_index(ValueId id, const Point& point, Offset& offset) {
  Offset with = offset;
  if (add_grouped(id, point, with)) {
    offset = std::move(with);
    return {};
  }
  auto value = evaluate(id, point);
  if (!value) return value.error();
  auto* wide = (*value)->getType()->getWithNewBitWidth(64);
  const bool is_signed = dsl::info(ctx.type(id).element).is_signed;
  offset.others.push_back(is_signed ? ir.CreateSExt(*value, wide) : ir.CreateZExt(*value, wide));
  return {};
}

// A vector of pointers.
Nest::Address Nest::address_of_lanes(llvm::Type* element, Value* base, const Offset& offset) {
  Value* lanes = splat(affine_value(offset.affine, false));
  if (Value* stride = vector_dim_ >= 0 ? offset.affine.coefficients[vector_dim_] : nullptr) {
    std::vector<llvm::Constant*> iota;
    for (int i = 0; i < width_; ++i) iota.push_back(ir.getInt64(static_cast<uint64_t>(i)));
    Value* index = ir.CreateAdd(splat(dims_[vector_dim_].index), llvm::ConstantVector::get(iota));
    lanes = ir.CreateAdd(lanes, ir.CreateMul(index, splat(stride)));
  }
  for (Value* other : offset.others) lanes = ir.CreateAdd(lanes, splat(other));
  return {ir.CreateGEP(element, base, lanes), false};
}

// The pointer tile is a base pointer moved by affine offsets (and, for gathers, by others).
Result<Nest::Address> Nest::address(ValueId id, const Point& point_in, Heeds heeds) {
  llvm::Type* element = memory_type(ir.getContext(), ctx.type(id).element, false);
  ValueId at = id;
  Point here = normalise(id, point_in);
  Offset offset;
  offset.groups = heeds == Heeds::kGroups;
  offset.affine.coefficients.assign(static_cast<size_t>(rank()), nullptr);
  while (!ctx.type(at).is_scalar()) {
    const Op* op = ctx.schedule.definition[at];
    if (!op || ctx.slots[at]) break;
    if (op->code == OpCode::kAddptr) {
      if (auto added = add_index(op->operands[1], here, offset); !added) return added.error();
      at = op->operands[0];
      here = normalise(at, here);
    } else if (op->code == OpCode::kSplat) {
      at = op->operands[0];
      here = {};
    } else if (is_view(*op)) {
      here = source_point(*op, here);
      at = op->operands[0];
    } else {
      break;
    }
  }
  // Chosen per lane (a select of pointers, say): evaluated like any value.
  auto base = ctx.type(at).is_scalar() ? Result<Value*>(ctx.scalars[at]) : evaluate(at, here);
  if (!base) return base.error();
  if (!offset.affine.base) offset.affine.base = ctx.i64(0);

  Value* stride = vector_dim_ >= 0 ? offset.affine.coefficients[vector_dim_] : nullptr;
  auto* constant = stride ? llvm::dyn_cast<llvm::ConstantInt>(stride) : nullptr;
  const bool by_lane = (*base)->getType()->isVectorTy() ||
                       llvm::any_of(offset.others, [](Value* v) { return v->getType()->isVectorTy(); }) ||
                       (stride && !(constant && (constant->isOne() || constant->isZero())));
  const bool neighbours = constant && constant->isOne();
  const bool varies_otherwise = (*base)->getType()->isVectorTy() ||
                                llvm::any_of(offset.others, [](Value* v) { return v->getType()->isVectorTy(); });
  if (heeds == Heeds::kStride && constant && !varies_otherwise && constant->getValue().isIntN(8)) {
    Value* total = affine_value(offset.affine, true);
    for (Value* other : offset.others) total = ir.CreateAdd(total, other);
    return Address{ir.CreateGEP(element, *base, total), neighbours, 1, static_cast<int>(constant->getSExtValue())};
  }
  if (offset.grouped && (by_lane || neighbours)) {
    auto value = evaluate(offset.grouped->mask, offset.grouped->point);
    if (!value) return value.error();
    offset.others.push_back(ir.CreateSExt(*value, (*value)->getType()->getWithNewBitWidth(64)));
    return address_of_lanes(element, *base, offset);
  }
  if (by_lane) return address_of_lanes(element, *base, offset);
  Value* total = affine_value(offset.affine, neighbours);
  if (offset.grouped) total = ir.CreateAdd(total, dims_[vector_dim_].index);
  for (Value* other : offset.others) total = ir.CreateAdd(total, other);
  return Address{ir.CreateGEP(element, *base, total), neighbours, offset.group};
}

}  // namespace kiln::codegen::cpu

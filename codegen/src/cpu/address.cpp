// Index arithmetic as affine functions of the nest's indices, and the addresses of chunks.
#include "cpu/nest.h"

namespace kiln::codegen::cpu {

namespace {

Value* multiply(Builder& b, Value* x, Value* y) {
  if (!x || !y) return nullptr;
  return b.CreateMul(x, y);
}

bool is_zero(Value* x) {
  const auto* constant = llvm::dyn_cast_or_null<llvm::ConstantInt>(x);
  return constant && constant->isZero();
}

Value* sum(Builder& b, Value* x, Value* y) {
  if (!x || is_zero(x)) return y ? y : x;
  return y && !is_zero(y) ? b.CreateAdd(x, y) : x;
}

Value* widen(Builder& b, Value* x, ElementType element) {
  return dsl::info(element).is_signed ? b.CreateSExt(x, b.getInt64Ty()) : b.CreateZExt(x, b.getInt64Ty());
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
  const dsl::Type& type = c.type(id);
  if (type.pointer || dsl::is_float(type.element) || type.element == ElementType::kI1) return std::nullopt;
  const dsl::ElementTypeInfo& element = dsl::info(type.element);
  if (exact && type.element == ElementType::kU64) return std::nullopt;  // i64 does not hold them all
  if (type.is_scalar()) {
    out.base = widen(b, c.scalars[id], type.element);
    return out;
  }
  const Op* op = c.definition[id];
  if (!op || c.slots[id]) return std::nullopt;
  auto operand = [&](size_t i) { return affine(op->operands[i], normalise(op->operands[i], point), exact); };
  // Unsigned differences and arithmetic on narrow ints wrap in honest programs.
  const bool may_wrap = exact && (!element.is_signed || element.bits < 32);
  switch (op->code) {
    case OpCode::kArange:
      out.base = c.i64(*std::get<dsl::Expr>(op->attrs[0]).as_constant());
      if (point[0] != kZero) out.coefficients[point[0]] = c.i64(1);
      return out;
    case OpCode::kSplat:
      return affine(op->operands[0], {}, exact);
    case OpCode::kBroadcast:
    case OpCode::kExpandDims:
    case OpCode::kPermute:
      return affine(op->operands[0], source_point(*op, point), exact);
    case OpCode::kCast: {
      const dsl::Type& from = c.type(op->operands[0]);
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
        if (op->code == OpCode::kAdd) return sum(b, p, q);
        return q && !is_zero(q) ? b.CreateSub(p ? p : c.i64(0), q) : p;
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
      out.base = multiply(b, x->base, y->base);
      for (int d = 0; d < rank(); ++d) out.coefficients[d] = multiply(b, x->coefficients[d], y->base);
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
                     [&] { return b.CreateAdd(total, b.CreateMul(dims_[d].index, affine.coefficients[d])); });
  }
  if (with_vector_dim && vector_dim_ >= 0 && affine.coefficients[vector_dim_]) {
    total = b.CreateAdd(total, b.CreateMul(dims_[vector_dim_].index, affine.coefficients[vector_dim_]));
  }
  return total;
}

// The pointer tile is a base pointer moved by affine offsets (and, for gathers, by others).
Result<Nest::Address> Nest::address(ValueId id, const Point& point_in) {
  const Point point = normalise(id, point_in);
  llvm::Type* element = memory_type(b.getContext(), c.type(id).element, false);
  ValueId at = id;
  Point here = point;
  Affine offset;
  offset.coefficients.assign(static_cast<size_t>(rank()), nullptr);
  llvm::SmallVector<Value*, 2> others;
  while (!c.type(at).is_scalar()) {
    const Op* op = c.definition[at];
    if (!op || c.slots[at]) break;
    if (op->code == OpCode::kAddptr) {
      const ValueId index = op->operands[1];
      auto part = at_depth(0, [&] { return affine(index, normalise(index, here), false); });
      if (part) {
        at_depth(0, [&] {
          offset.base = sum(b, offset.base, part->base);
          for (int d = 0; d < rank(); ++d)
            offset.coefficients[d] = sum(b, offset.coefficients[d], part->coefficients[d]);
        });
      } else {
        auto value = evaluate(index, here);
        if (!value) return value.error();
        auto* wide = (*value)->getType()->getWithNewBitWidth(64);
        others.push_back(dsl::info(c.type(index).element).is_signed ? b.CreateSExt(*value, wide)
                                                                    : b.CreateZExt(*value, wide));
      }
      at = op->operands[0];
      here = normalise(at, here);
    } else if (op->code == OpCode::kSplat) {
      at = op->operands[0];
      here = {};
    } else if (op->code == OpCode::kBroadcast || op->code == OpCode::kExpandDims || op->code == OpCode::kPermute) {
      here = source_point(*op, here);
      at = op->operands[0];
    } else {
      break;
    }
  }
  // Chosen per lane (a select of pointers, say): evaluated like any value.
  auto base = c.type(at).is_scalar() ? Result<Value*>(c.scalars[at]) : evaluate(at, here);
  if (!base) return base.error();
  if (!offset.base) offset.base = c.i64(0);

  Value* stride = vector_dim_ >= 0 ? offset.coefficients[vector_dim_] : nullptr;
  auto* constant = stride ? llvm::dyn_cast<llvm::ConstantInt>(stride) : nullptr;
  const bool by_lane = (*base)->getType()->isVectorTy() ||
                       llvm::any_of(others, [](Value* v) { return v->getType()->isVectorTy(); }) ||
                       (stride && !(constant && (constant->isOne() || constant->isZero())));
  const bool contiguous = !by_lane && constant && constant->isOne();
  Value* total = affine_value(offset, contiguous);
  if (!by_lane) {
    for (Value* other : others) total = b.CreateAdd(total, other);
    return Address{b.CreateGEP(element, *base, total), contiguous};
  }
  Value* lanes = splat(total);
  if (stride) {
    std::vector<llvm::Constant*> iota;
    for (int i = 0; i < width_; ++i) iota.push_back(b.getInt64(static_cast<uint64_t>(i)));
    Value* index = b.CreateAdd(splat(dims_[vector_dim_].index), llvm::ConstantVector::get(iota));
    lanes = b.CreateAdd(lanes, b.CreateMul(index, splat(stride)));
  }
  for (Value* other : others) lanes = b.CreateAdd(lanes, splat(other));
  return Address{b.CreateGEP(element, *base, lanes), false};
}

}  // namespace kiln::codegen::cpu

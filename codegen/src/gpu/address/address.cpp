// Where the pointers of a tile point: for each register an address and a constant, so that registers which differ by a
// constant share the arithmetic, and the constant becomes part of the instruction. Index arithmetic that reaches memory
// is taken not to wrap (docs/reference/ops.md), so it is done in 64 bits whatever its type.
#include "gpu/address/address.h"

#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

// An index: i64 plus a constant.
struct Term {
  Value* base = nullptr;  // null: 0
  int64_t constant = 0;
};
using Terms = std::vector<Term>;

Value* sum(Builder& ir, Value* x, Value* y) { return !x ? y : !y ? x : ir.CreateAdd(x, y); }

class Indices {
 public:
  explicit Indices(Context& ctx) : ctx_(ctx), ir_(ctx.ir) {}

  // Each value once in each layout: index arithmetic shares its parts.
  Result<Terms> get(ValueId id, const Layout& layout) {
    for (const auto& [known, terms] : known_[id]) {
      if (known == layout) return terms;
    }
    auto terms = compute(id, layout);
    if (terms) known_[id].emplace_back(layout, *terms);
    return terms;
  }

 private:
  Result<Terms> compute(ValueId id, const Layout& layout) {
    const Op* op = ctx_.placement.home[id] ? nullptr : ctx_.definition[id];
    if (!op || ctx_.type(id).rank() == 0) return opaque(id, layout);
    const auto operand = [&](size_t i, const Layout& wanted) { return get(op->operands[i], wanted); };
    switch (op->code) {
      case OpCode::kArange:
        return arange(*op, layout);
      case OpCode::kSplat: {
        Term term = scalar(op->operands[0]);
        return Terms(static_cast<size_t>(layout.size(Dim::kRegister)), term);
      }
      case OpCode::kExpandDims:
        return operand(0, slice(layout, static_cast<int>(int_attr(*op, 0))));
      case OpCode::kBroadcast: {
        const auto from = dsl::concrete_shape(ctx_.type(op->operands[0])), to = dsl::concrete_shape(ctx_.type(id));
        Layout wanted = layout;
        for (size_t axis = 0; axis < from.size(); ++axis) {
          const int a = static_cast<int>(axis);
          if (from[axis] != to[axis]) wanted = expand(slice(wanted, a), a);
        }
        return operand(0, wanted);
      }
      case OpCode::kAdd:
      case OpCode::kSub:
        return add(*op, layout);
      case OpCode::kMul:
        return multiply(*op, layout);
      case OpCode::kCast:
        if (dsl::is_int(ctx_.type(op->operands[0]).element)) return operand(0, layout);
        return opaque(id, layout);
      default:
        return opaque(id, layout);
    }
  }

  Value* widen(Value* x, const dsl::Type& type) {
    if (x->getType()->isIntegerTy(64)) return x;
    return dsl::info(type.element).is_signed ? ir_.CreateSExt(x, ir_.getInt64Ty())
                                             : ir_.CreateZExt(x, ir_.getInt64Ty());
  }

  Term term_of(Value* x) {
    if (auto* constant = llvm::dyn_cast<llvm::ConstantInt>(x)) return {nullptr, constant->getSExtValue()};
    return {x, 0};
  }

  Term scalar(ValueId id) { return term_of(widen(ctx_.scalar(id), ctx_.type(id))); }

  Result<Terms> opaque(ValueId id, const Layout& layout) {
    auto registers = ctx_.get(id, layout);
    if (!registers) return registers.error();
    Terms out;
    for (Value* x : *registers) out.push_back(term_of(widen(x, ctx_.type(id))));
    return out;
  }

  Result<Terms> arange(const Op& op, const Layout& layout) {
    Value* thread = ir_.CreateZExt(ctx_.thread_coordinate(layout, 0), ir_.getInt64Ty());
    // Bits of the register are other bits than those of the thread, unless the layout is a swizzle.
    Bits by_thread = 0;
    for (Dim dim : {Dim::kLane, Dim::kWarp}) {
      for (Bits basis : layout.bases(dim)) by_thread |= basis;
    }
    Terms out;
    for (size_t reg = 0; reg < static_cast<size_t>(layout.size(Dim::kRegister)); ++reg) {
      const int64_t mine = ctx_.register_coordinate(layout, reg, 0);
      const bool apart = (static_cast<Bits>(mine) & by_thread) == 0;
      out.push_back({apart ? thread : ir_.CreateXor(thread, ir_.getInt64(static_cast<uint64_t>(mine))),
                     number_attr(op, 0) + (apart ? mine : 0)});
    }
    return out;
  }

  Result<Terms> add(const Op& op, const Layout& layout) {
    auto x = get(op.operands[0], layout), y = get(op.operands[1], layout);
    if (!x || !y) return x ? y : x;
    const bool minus = op.code == OpCode::kSub;
    for (size_t i = 0; i < x->size(); ++i) {
      Term &p = (*x)[i], &q = (*y)[i];
      if (minus && q.base) q.base = ir_.CreateNeg(q.base);
      p = {sum(ir_, p.base, q.base), minus ? p.constant - q.constant : p.constant + q.constant};
    }
    return x;
  }

  // (p + m)·(q + n) with at least one of them free of a variable part, else as one value.
  Result<Terms> multiply(const Op& op, const Layout& layout) {
    auto x = get(op.operands[0], layout), y = get(op.operands[1], layout);
    if (!x || !y) return x ? y : x;
    for (size_t i = 0; i < x->size(); ++i) {
      Term p = (*x)[i], q = (*y)[i];
      if (p.base && !q.base) std::swap(p, q);
      if (!p.base) {
        Value* scaled = q.base && p.constant != 0 ? ir_.CreateMul(q.base, c64(p.constant)) : nullptr;
        (*x)[i] = {scaled, p.constant * q.constant};
      } else {
        (*x)[i] = {ir_.CreateMul(whole(p), whole(q)), 0};
      }
    }
    return x;
  }

  Value* c64(int64_t x) { return ir_.getInt64(static_cast<uint64_t>(x)); }
  Value* whole(const Term& term) {
    if (!term.base) return c64(term.constant);
    return term.constant == 0 ? term.base : ir_.CreateAdd(term.base, c64(term.constant));
  }

  Context& ctx_;
  Builder& ir_;
  std::map<ValueId, std::vector<std::pair<Layout, Terms>>> known_;
};

}  // namespace

Result<std::vector<Address>> addresses(Context& ctx, ValueId pointers, const Layout& layout) {
  Builder& ir = ctx.ir;
  const Op* op = ctx.placement.home[pointers] ? nullptr : ctx.definition[pointers];
  if (op && op->code == OpCode::kAddptr && ctx.type(pointers).rank() > 0) {
    auto base = addresses(ctx, op->operands[0], layout);
    if (!base) return base;
    auto indices = Indices(ctx).get(op->operands[1], layout);
    if (!indices) return indices.error();
    const auto bytes = static_cast<uint64_t>(dsl::info(ctx.type(pointers).element).bytes);
    llvm::Type* element = memory_type(ir.getContext(), ctx.type(pointers).element, false);
    for (size_t i = 0; i < base->size(); ++i) {
      Address& address = (*base)[i];
      if ((*indices)[i].base) address.base = ir.CreateGEP(element, address.base, (*indices)[i].base);
      // Addresses wrap: an index near the end of i64 may be behind a mask.
      const auto constant = static_cast<uint64_t>((*indices)[i].constant);
      address.offset = static_cast<int64_t>(static_cast<uint64_t>(address.offset) + constant * bytes);
    }
    return base;
  }
  auto registers = ctx.get(pointers, layout);
  if (!registers) return registers.error();
  std::vector<Address> out;
  for (Value* pointer : *registers) out.push_back({pointer, 0});
  return out;
}

}  // namespace kiln::codegen::gpu

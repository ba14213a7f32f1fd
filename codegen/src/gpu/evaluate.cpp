// Values without a home: computed in the layout in which somebody wants them, from operands in layouts that follow from
// it. A view asks its operand for what its own layout becomes when the view is undone:
//
//   broadcast  the axis of extent 1 loses its bits: threads that differ in it hold the same
//   permute    the axes change places            reshape  the row-major number stays
//   split      one more register bit, which is the last axis
#include "gpu/evaluate.h"

#include <algorithm>

#include "elementwise/calls.h"
#include "gpu/address/register_groups.h"
#include "gpu/layout/algebra.h"
#include "gpu/ops/inline_asm.h"
#include "gpu/ops/memory.h"
#include "gpu/ops/shape_ops.h"
#include "gpu/pipeline/early_loads.h"

namespace kiln::codegen::gpu {
namespace {

// The layout without the bits of an axis, which has extent 1 then.
Layout without_axis_bits(const Layout& layout, int axis) { return expand(slice(layout, axis), axis); }

}  // namespace

Result<Registers> get_without_copies(Context& ctx, ValueId id, const Layout& layout) {
  const Deduplicated unique = without_copies_in_registers(layout);
  auto few = ctx.get(id, unique.layout);
  if (!few || few->size() == static_cast<size_t>(layout.size(Dim::kRegister))) return few;
  Registers out;
  for (Bits reg = 0; reg < static_cast<Bits>(layout.size(Dim::kRegister)); ++reg) {
    out.push_back((*few)[multiply(unique.kept, reg)]);
  }
  return out;
}

namespace {

Result<Registers> compute_arange(Context& ctx, const Op& op, const Layout& layout) {
  const int64_t start = number_attr(op, 0);
  Registers out;
  for (size_t reg = 0; reg < static_cast<size_t>(layout.size(Dim::kRegister)); ++reg) {
    Value* element = ctx.coordinate(layout, reg, 0);
    out.push_back(start == 0 ? element : ctx.ir.CreateAdd(element, ctx.ir.getInt32(static_cast<uint32_t>(start))));
  }
  return out;
}

Result<Registers> compute_broadcast(Context& ctx, const Op& op, ValueId id, const Layout& layout) {
  const auto from = dsl::concrete_shape(ctx.type(op.operands[0])), to = dsl::concrete_shape(ctx.type(id));
  Layout wanted = layout;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] != to[axis]) wanted = without_axis_bits(wanted, static_cast<int>(axis));
  }
  return get_without_copies(ctx, op.operands[0], wanted);
}

// Of memory that nobody writes meanwhile, so that it does not matter when.
Result<Registers> compute_lookup(Context& ctx, const Op& op, const Layout& layout) {
  const Deduplicated unique = without_copies_in_registers(layout);
  if (unique.layout.bits(Dim::kRegister) < layout.bits(Dim::kRegister)) {
    return get_without_copies(ctx, op.results[0], layout);
  }
  if (ctx.early_loads && ctx.early_loads->has(op)) return ctx.early_loads->take(op, layout);
  return load_tile(ctx, op, layout, ctx.enabled(op.results[0]));
}

// Each thread asks for both halves where it wants one of them at least, and chooses.
Result<Registers> compute_join(Context& ctx, const Op& op, const Layout& layout) {
  const int last = layout.rank() - 1;
  const Layout half = slice(layout, last);
  auto a = get_without_copies(ctx, op.operands[0], half), b = get_without_copies(ctx, op.operands[1], half);
  if (!a || !b) return a ? b : a;
  Registers out;
  Value* thread = ctx.thread_coordinate(layout, last);
  for (size_t reg = 0; reg < a->size(); ++reg) {
    const bool odd = ctx.register_coordinate(layout, reg, last) != 0;
    const auto constant = llvm::dyn_cast<llvm::ConstantInt>(thread);
    Value *first = odd ? (*b)[reg] : (*a)[reg], *second = odd ? (*a)[reg] : (*b)[reg];
    out.push_back(constant && constant->isZero() ? first
                                                 : ctx.ir.CreateSelect(ctx.ir.CreateIsNull(thread), first, second));
  }
  return out;
}

Result<Registers> compute_split(Context& ctx, const Op& op, ValueId id, const Layout& layout) {
  auto both = ctx.get(op.operands[0], join(layout));
  if (!both) return both;
  Registers out;
  for (size_t i = id == op.results[0] ? 0 : 1; i < both->size(); i += 2) out.push_back((*both)[i]);
  return out;
}

// So many neighbours along the last axis are known to be alike: of `arange < splat`, where nothing can wrap.
int64_t equal_neighbours(Context& ctx, const Op& op) {
  if (op.code != OpCode::kCmp) return 1;
  const auto is = [&](ValueId id, OpCode code) { return ctx.definition[id] && ctx.definition[id]->code == code; };
  const ValueId x = op.operands[0], y = op.operands[1];
  const bool bounds =
      (is(x, OpCode::kArange) && is(y, OpCode::kSplat)) || (is(x, OpCode::kSplat) && is(y, OpCode::kArange));
  return bounds ? std::max<int64_t>(1, ctx.info[op.results[0]].constant) : 1;
}

// The quotient once, where both it and the remainder are wanted.
Value* divide_plainly(Context& ctx, const Op& op, llvm::ArrayRef<Value*> in) {
  Value* quotient = ctx.ir.CreateUDiv(in[0], in[1]);
  return op.code == OpCode::kDiv ? quotient : ctx.ir.CreateSub(in[0], ctx.ir.CreateMul(quotient, in[1]));
}

// What the target has instructions of its own for; null: nothing of the kind.
Value* emit_by_target(Context& ctx, const Op& op, llvm::ArrayRef<Value*> in) {
  const auto is_signed = [&] { return dsl::info(ctx.type(op.operands[0]).element).is_signed; };
  switch (op.code) {
    case OpCode::kMulhi:
      return ctx.target.multiply_high(ctx.ir, is_signed(), in[0], in[1]);
    case OpCode::kShl:
      return ctx.target.shift(ctx.ir, true, in[0], in[1]);
    case OpCode::kShr:
      return is_signed() ? nullptr : ctx.target.shift(ctx.ir, false, in[0], in[1]);
    default:
      return nullptr;
  }
}

Result<Value*> emit_one(Context& ctx, const Op& op, llvm::ArrayRef<Value*> in) {
  if (ctx.plain_divisions.contains(&op)) return divide_plainly(ctx, op, in);
  if (Value* own = emit_by_target(ctx, op, in)) return own;
  return emit_op(ctx, ctx.ir, op, in);
}

Result<Registers> compute_elementwise(Context& ctx, const Op& op, ValueId id, const Layout& layout) {
  const Deduplicated unique = without_copies_in_registers(layout);
  if (unique.layout.bits(Dim::kRegister) < layout.bits(Dim::kRegister)) return get_without_copies(ctx, id, layout);
  // What products are computing last: other operands are computed and loaded meanwhile.
  for (ValueId operand : op.operands) {
    if (ctx.is_pending(operand)) continue;
    if (auto registers = ctx.get(operand, layout); !registers) return registers;
  }
  std::vector<Registers> operands;
  for (ValueId operand : op.operands) {
    auto registers = ctx.get(operand, layout);
    if (!registers) return registers;
    operands.push_back(std::move(*registers));
  }
  int64_t alike = layout.rank() > 0 ? layout.contiguous_per_thread(layout.rank() - 1) : 1;
  while (alike > 1 && equal_neighbours(ctx, op) % alike != 0) alike /= 2;
  Registers out(static_cast<size_t>(layout.size(Dim::kRegister)),
                llvm::Constant::getNullValue(register_type(ctx.ir.getContext(), ctx.type(id))));
  const std::vector<bool> padding = ctx.padding(layout, ctx.type(id));
  for (const Group& group : groups_of(layout, alike)) {
    if (padding[group[0]]) continue;
    llvm::SmallVector<Value*, 4> in;
    for (const Registers& operand : operands) in.push_back(operand[group[0]]);
    auto value = emit_one(ctx, op, in);
    if (!value) return value.error();
    for (size_t reg : group) out[reg] = *value;
  }
  return out;
}

}  // namespace

Layout before_permute(const Op& op, const Layout& layout) {
  const auto& order = std::get<std::vector<dsl::Expr>>(op.attrs[0]);
  std::vector<int> inverse_order(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    inverse_order[static_cast<size_t>(order[i].as_constant().value())] = static_cast<int>(i);
  }
  return transpose(layout, inverse_order);
}

Result<Registers> compute(Context& ctx, ValueId id, const Layout& layout) {
  const Op& op = *ctx.definition[id];
  switch (op.code) {
    case OpCode::kLoad:
      return compute_lookup(ctx, op, layout);
    case OpCode::kArange:
      return compute_arange(ctx, op, layout);
    case OpCode::kSplat:
      return Registers(static_cast<size_t>(layout.size(Dim::kRegister)), ctx.scalar(op.operands[0]));
    case OpCode::kBroadcast:
      return compute_broadcast(ctx, op, id, layout);
    case OpCode::kExpandDims:
      return ctx.get(op.operands[0], slice(layout, static_cast<int>(int_attr(op, 0))));
    case OpCode::kReshape:
      return compute_reshape(ctx, op, layout);
    case OpCode::kCat:
      return compute_cat(ctx, op, layout);
    case OpCode::kSlice:
      return compute_slice(ctx, op, layout);
    case OpCode::kGather:
      return compute_gather(ctx, op, layout);
    case OpCode::kPermute:
      return ctx.get(op.operands[0], before_permute(op, layout));
    case OpCode::kJoin:
      return compute_join(ctx, op, layout);
    case OpCode::kSplit:
      return compute_split(ctx, op, id, layout);
    case OpCode::kInlineAsm:
      return compute_inline_asm(ctx, op, layout);
    default:
      return compute_elementwise(ctx, op, id, layout);
  }
}

}  // namespace kiln::codegen::gpu

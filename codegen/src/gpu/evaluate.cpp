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

Result<Registers> get_without_copies(Context& c, ValueId id, const Layout& layout) {
  const Deduplicated unique = without_copies_in_registers(layout);
  auto few = c.get(id, unique.layout);
  if (!few || few->size() == static_cast<size_t>(layout.size(Dim::kRegister))) return few;
  Registers out;
  for (Bits reg = 0; reg < static_cast<Bits>(layout.size(Dim::kRegister)); ++reg) {
    out.push_back((*few)[multiply(unique.kept, reg)]);
  }
  return out;
}

namespace {

Result<Registers> compute_arange(Context& c, const Op& op, const Layout& layout) {
  const int64_t start = number_attr(op, 0);
  Registers out;
  for (size_t reg = 0; reg < static_cast<size_t>(layout.size(Dim::kRegister)); ++reg) {
    Value* element = c.coordinate(layout, reg, 0);
    out.push_back(start == 0 ? element : c.b.CreateAdd(element, c.b.getInt32(static_cast<uint32_t>(start))));
  }
  return out;
}

Result<Registers> compute_broadcast(Context& c, const Op& op, ValueId id, const Layout& layout) {
  const auto from = dsl::concrete_shape(c.type(op.operands[0])), to = dsl::concrete_shape(c.type(id));
  Layout wanted = layout;
  for (size_t axis = 0; axis < from.size(); ++axis) {
    if (from[axis] != to[axis]) wanted = without_axis_bits(wanted, static_cast<int>(axis));
  }
  return get_without_copies(c, op.operands[0], wanted);
}

// Of memory that nobody writes meanwhile, so that it does not matter when.
Result<Registers> compute_lookup(Context& c, const Op& op, const Layout& layout) {
  const Deduplicated unique = without_copies_in_registers(layout);
  if (unique.layout.bits(Dim::kRegister) < layout.bits(Dim::kRegister)) {
    return get_without_copies(c, op.results[0], layout);
  }
  if (c.early_loads && c.early_loads->has(op)) return c.early_loads->take(op, layout);
  return load_tile(c, op, layout, c.enabled(op.results[0]));
}

// Each thread asks for both halves where it wants one of them at least, and chooses.
Result<Registers> compute_join(Context& c, const Op& op, const Layout& layout) {
  const int last = layout.rank() - 1;
  const Layout half = slice(layout, last);
  auto a = get_without_copies(c, op.operands[0], half), b = get_without_copies(c, op.operands[1], half);
  if (!a || !b) return a ? b : a;
  Registers out;
  Value* thread = c.thread_coordinate(layout, last);
  for (size_t reg = 0; reg < a->size(); ++reg) {
    const bool odd = c.register_coordinate(layout, reg, last) != 0;
    const auto constant = llvm::dyn_cast<llvm::ConstantInt>(thread);
    Value *first = odd ? (*b)[reg] : (*a)[reg], *second = odd ? (*a)[reg] : (*b)[reg];
    out.push_back(constant && constant->isZero() ? first : c.b.CreateSelect(c.b.CreateIsNull(thread), first, second));
  }
  return out;
}

Result<Registers> compute_split(Context& c, const Op& op, ValueId id, const Layout& layout) {
  auto both = c.get(op.operands[0], join(layout));
  if (!both) return both;
  Registers out;
  for (size_t i = id == op.results[0] ? 0 : 1; i < both->size(); i += 2) out.push_back((*both)[i]);
  return out;
}

// So many neighbours along the last axis are known to be alike: of `arange < splat`, where nothing can wrap.
int64_t equal_neighbours(Context& c, const Op& op) {
  if (op.code != OpCode::kCmp) return 1;
  const auto is = [&](ValueId id, OpCode code) { return c.definition[id] && c.definition[id]->code == code; };
  const ValueId x = op.operands[0], y = op.operands[1];
  const bool bounds =
      (is(x, OpCode::kArange) && is(y, OpCode::kSplat)) || (is(x, OpCode::kSplat) && is(y, OpCode::kArange));
  return bounds ? std::max<int64_t>(1, c.info[op.results[0]].constant) : 1;
}

// The quotient once, where both it and the remainder are wanted.
Value* divide_plainly(Context& c, const Op& op, llvm::ArrayRef<Value*> in) {
  Value* quotient = c.b.CreateUDiv(in[0], in[1]);
  return op.code == OpCode::kDiv ? quotient : c.b.CreateSub(in[0], c.b.CreateMul(quotient, in[1]));
}

Result<Value*> emit_one(Context& c, const Op& op, llvm::ArrayRef<Value*> in) {
  if (c.plain_divisions.contains(&op)) return divide_plainly(c, op, in);
  if (op.code == OpCode::kMulhi) {
    const bool is_signed = dsl::info(c.type(op.operands[0]).element).is_signed;
    if (Value* own = c.target.multiply_high(c.b, is_signed, in[0], in[1])) return own;
  }
  return emit_op(c, c.b, op, in);
}

Result<Registers> compute_elementwise(Context& c, const Op& op, ValueId id, const Layout& layout) {
  const Deduplicated unique = without_copies_in_registers(layout);
  if (unique.layout.bits(Dim::kRegister) < layout.bits(Dim::kRegister)) return get_without_copies(c, id, layout);
  // What products are computing last: other operands are computed and loaded meanwhile.
  for (ValueId operand : op.operands) {
    if (c.is_in_flight(operand)) continue;
    if (auto registers = c.get(operand, layout); !registers) return registers;
  }
  std::vector<Registers> operands;
  for (ValueId operand : op.operands) {
    auto registers = c.get(operand, layout);
    if (!registers) return registers;
    operands.push_back(std::move(*registers));
  }
  int64_t alike = layout.rank() > 0 ? layout.contiguous_per_thread(layout.rank() - 1) : 1;
  while (alike > 1 && equal_neighbours(c, op) % alike != 0) alike /= 2;
  Registers out(static_cast<size_t>(layout.size(Dim::kRegister)),
                llvm::Constant::getNullValue(register_type(c.b.getContext(), c.type(id))));
  const std::vector<bool> padding = c.padding(layout, c.type(id));
  for (const Group& group : groups_of(layout, alike)) {
    if (padding[group[0]]) continue;
    llvm::SmallVector<Value*, 4> in;
    for (const Registers& operand : operands) in.push_back(operand[group[0]]);
    auto value = emit_one(c, op, in);
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

Result<Registers> compute(Context& c, ValueId id, const Layout& layout) {
  const Op& op = *c.definition[id];
  switch (op.code) {
    case OpCode::kLoad:
      return compute_lookup(c, op, layout);
    case OpCode::kArange:
      return compute_arange(c, op, layout);
    case OpCode::kSplat:
      return Registers(static_cast<size_t>(layout.size(Dim::kRegister)), c.scalar(op.operands[0]));
    case OpCode::kBroadcast:
      return compute_broadcast(c, op, id, layout);
    case OpCode::kExpandDims:
      return c.get(op.operands[0], slice(layout, static_cast<int>(int_attr(op, 0))));
    case OpCode::kReshape:
      return compute_reshape(c, op, layout);
    case OpCode::kCat:
      return compute_cat(c, op, layout);
    case OpCode::kSlice:
      return compute_slice(c, op, layout);
    case OpCode::kGather:
      return compute_gather(c, op, layout);
    case OpCode::kPermute:
      return c.get(op.operands[0], before_permute(op, layout));
    case OpCode::kJoin:
      return compute_join(c, op, layout);
    case OpCode::kSplit:
      return compute_split(c, op, id, layout);
    case OpCode::kInlineAsm:
      return compute_inline_asm(c, op, layout);
    default:
      return compute_elementwise(c, op, id, layout);
  }
}

}  // namespace kiln::codegen::gpu

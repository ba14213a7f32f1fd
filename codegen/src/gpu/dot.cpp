// dot: by matrix instructions on fragments in registers, or, where there are none for its types, by multiply-adds on
// operands that all threads read from shared memory.
#include "gpu/context.h"
#include "gpu/dot_fragments.h"
#include "gpu/group_dot.h"
#include "gpu/staged_tile.h"

namespace kiln::codegen::gpu {
namespace {

// Registers with 0 for what lies outside along the inner axis, where it would meet the other operand's. `place` says
// where they lie.
void zero_outside(Context& c, Registers& registers, const Layout& place, int axis, int64_t extent) {
  if (place.shape()[static_cast<size_t>(axis)] == extent) return;
  for (size_t reg = 0; reg < registers.size(); ++reg) {
    Value* inside = c.b.CreateICmpULT(c.coordinate(place, reg, axis), c.b.getInt32(static_cast<uint32_t>(extent)));
    Value*& x = registers[reg];
    x = c.b.CreateSelect(inside, x, llvm::Constant::getNullValue(x->getType()));
  }
}

Result<Registers> operand_registers(Context& c, ValueId id, const Layout& layout, const Layout& place, int axis) {
  auto registers = c.get(id, layout);
  if (!registers) return registers;
  zero_outside(c, *registers, place, axis, dsl::concrete_shape(c.type(id))[static_cast<size_t>(axis)]);
  return registers;
}

Result<void> by_instruction(Context& c, const Op& op, const DotLayouts& layouts) {
  const DotFragments& all = *layouts.fragments;
  const int rank = all.sums.rank();
  auto a = operand_registers(c, op.operands[0], all.a, all.whole_a, rank - 1);
  auto b = operand_registers(c, op.operands[1], all.b, all.whole_b, rank - 2);
  auto sums = fragment_sums(c, op.operands[2], layouts);
  if (!a || !b) return (a ? b : a).error();
  if (!sums) return sums.error();
  for (int64_t batch = 0; batch < all.batch; ++batch) {
    for (int64_t k = 0; k < all.k; ++k) multiply_fragments(c, all, *a, *b, *sums, batch, k);
  }
  c.define(op.results[0], without_copies(*sums, layouts));
  return {};
}

// An operand in shared memory, its elements of the sum's type. The loop over the inner axis meets nothing of its
// padding.
Result<StagedTile> staged_operand(Context& c, ValueId id, ElementType sum) {
  const std::vector<int64_t> shape = padded_shape(c.type(id));
  const Layout layout = c.placement.home[id] ? *c.placement.home[id] : replicated(shape, c.block);
  auto registers = c.get(id, layout);
  if (!registers) return registers.error();
  for (Value*& x : *registers) x = emit_cast(c, c.b, x, c.type(id).element, sum);
  StagedTile tile(c, dsl::scalar_type(sum), shape);
  tile.write(*registers, layout, shape);
  return tile;
}

Value* multiply_add(Context& c, ElementType sum, Value* a, Value* b, Value* acc) {
  if (!dsl::is_float(sum)) return c.b.CreateAdd(acc, c.b.CreateMul(a, b));
  return c.b.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {a, b, acc});
}

Result<void> by_multiply_add(Context& c, const Op& op, const Layout& layout) {
  Builder& b = c.b;
  const ElementType sum = c.type(op.operands[2]).element;
  auto sums = c.get(op.operands[2], layout);
  if (!sums) return sums.error();
  auto lhs = staged_operand(c, op.operands[0], sum), rhs = staged_operand(c, op.operands[1], sum);
  if (!lhs || !rhs) return (lhs ? rhs : lhs).error();

  const int rank = layout.rank();
  const int64_t inner = dsl::concrete_shape(c.type(op.operands[0])).back();
  llvm::BasicBlock* before = b.GetInsertBlock();
  auto* loop = llvm::BasicBlock::Create(b.getContext(), "dot", c.function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "dot.end", c.function);
  b.CreateBr(loop);
  b.SetInsertPoint(loop);
  auto* k = b.CreatePHI(b.getInt32Ty(), 2, "k");
  k->addIncoming(b.getInt32(0), before);
  std::vector<llvm::PHINode*> phis;
  for (Value* x : *sums) {
    phis.push_back(b.CreatePHI(x->getType(), 2));
    phis.back()->addIncoming(x, before);
  }
  // Elements of A that differ in n alone are one, of B those that differ in m alone.
  std::map<Bits, Value*> a_elements, b_elements;
  const Bits n_mask = (Bits{1} << layout.axis_bits(rank - 1)) - 1;
  const Bits m_mask = ((Bits{1} << layout.axis_bits(rank - 2)) - 1) << layout.axis_bits(rank - 1);
  Registers next;
  for (size_t reg = 0; reg < sums->size(); ++reg) {
    llvm::SmallVector<Value*, 3> at;
    for (int axis = 0; axis < rank; ++axis) at.push_back(c.coordinate(layout, reg, axis));
    const Bits element = layout.at({.reg = reg});
    Value*& x = a_elements[element & ~n_mask];
    Value*& y = b_elements[element & ~m_mask];
    if (!x) {
      auto place = at;
      place.back() = k;
      x = lhs->read(place);
    }
    if (!y) {
      auto place = at;
      place[place.size() - 2] = k;
      y = rhs->read(place);
    }
    next.push_back(multiply_add(c, sum, x, y, phis[reg]));
  }
  Value* next_k = b.CreateAdd(k, b.getInt32(1));
  k->addIncoming(next_k, loop);
  for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(next[i], loop);
  b.CreateCondBr(b.CreateICmpULT(next_k, b.getInt32(static_cast<uint32_t>(inner))), loop, after);
  b.SetInsertPoint(after);
  c.define(op.results[0], std::move(next));
  return {};
}

}  // namespace

Result<void> lower_dot(Context& c, const Op& op) {
  const DotLayouts layouts = dot_layouts(c.kernel, op, c.target, c.block);
  if (layouts.group) return lower_group_dot(c, op, layouts);
  return layouts.fragments ? by_instruction(c, op, layouts) : by_multiply_add(c, op, layouts.accumulator);
}

}  // namespace kiln::codegen::gpu

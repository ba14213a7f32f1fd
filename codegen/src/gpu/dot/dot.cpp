// dot: by matrix instructions on fragments in registers, or, where there are none for its types, by multiply-adds on
// operands that all threads read from shared memory.
#include "gpu/dot/dot.h"

#include <algorithm>

#include "elementwise/conversions.h"
#include "gpu/dot/dot_fragments.h"
#include "gpu/dot/group_dot.h"
#include "gpu/layout/algebra.h"
#include "gpu/shared/staged_tile.h"

namespace kiln::codegen::gpu {
namespace {

// Registers with 0 for what lies outside along the inner axis, where it would meet the other operand's. `place` says
// where they lie.
void zero_outside(Context& ctx, Registers& registers, const Layout& place, int axis, int64_t extent) {
  if (place.shape()[static_cast<size_t>(axis)] == extent) return;
  for (size_t reg = 0; reg < registers.size(); ++reg) {
    Value* inside =
        ctx.ir.CreateICmpULT(ctx.coordinate(place, reg, axis), ctx.ir.getInt32(static_cast<uint32_t>(extent)));
    Value*& x = registers[reg];
    x = ctx.ir.CreateSelect(inside, x, llvm::Constant::getNullValue(x->getType()));
  }
}

// More words of an operand than this would leave too few registers for all else: they are read again from shared memory
// by each product.
constexpr int64_t kMostHeldWords = 128;

// What gives an operand's registers.
Result<std::function<Registers()>> begin_operand(Context& ctx, ValueId id, const Layout& layout, const Layout& place,
                                                 int axis) {
  const int64_t extent = dsl::concrete_shape(ctx.type(id))[static_cast<size_t>(axis)];
  const int64_t words = layout.size(Dim::kRegister) * dsl::info(ctx.type(id).element).bytes / 4;
  if (words > kMostHeldWords) {
    auto rest = ctx.get_later(id, layout);
    if (!rest) return rest;
    return std::function<Registers()>([&ctx, rest = std::move(*rest), place, axis, extent] {
      Registers registers = rest();
      zero_outside(ctx, registers, place, axis, extent);
      return registers;
    });
  }
  auto registers = ctx.get(id, layout);
  if (!registers) return registers.error();
  zero_outside(ctx, *registers, place, axis, extent);
  return std::function<Registers()>([out = std::move(*registers)] { return out; });
}

bool is_in_pipeline(const Context& ctx) {
  return std::ranges::any_of(ctx.placement.pipelines,
                             [&](const auto& entry) { return &entry.first->regions[0] == ctx.current_region(); });
}

Result<void> by_instruction(Context& ctx, const Op& op, const DotLayouts& layouts) {
  const DotFragments& all = *layouts.fragments;
  const int rank = all.accumulators.rank();
  const bool is_cluster = is_in_pipeline(ctx);
  if (is_cluster) ctx.target.begin_products(ctx.ir);
  auto begun_a = begin_operand(ctx, op.operands[0], all.a, all.whole_a, rank - 1);
  auto begun_b = begin_operand(ctx, op.operands[1], all.b, all.whole_b, rank - 2);
  auto accumulators = fragment_accumulators(ctx, op.operands[2], layouts);
  if (!begun_a || !begun_b) return (begun_a ? begun_b : begun_a).error();
  if (!accumulators) return accumulators.error();
  const Registers a = (*begun_a)(), b = (*begun_b)();
  if (is_cluster) ctx.target.end_operand_reads(ctx.ir);
  for (int64_t batch = 0; batch < all.batch; ++batch) {
    for (int64_t k = 0; k < all.k; ++k) multiply_fragments(ctx, all, a, b, *accumulators, batch, k);
  }
  if (is_cluster) ctx.target.end_products(ctx.ir);
  ctx.define(op.results[0], without_copies(*accumulators, layouts));
  return {};
}

Value* multiply_add(Context& ctx, ElementType sum, Value* a, Value* b, Value* acc) {
  if (!dsl::is_float(sum)) return ctx.ir.CreateAdd(acc, ctx.ir.CreateMul(a, b));
  return ctx.ir.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {a, b, acc});
}

// A product by multiply-adds, whose operands all threads read from shared memory. Where they do not fit there at once,
// B goes by parts along the inner axis, as far as each is in registers of its own.
class MultiplyAdds {
 public:
  MultiplyAdds(Context& ctx, const Op& op, const Layout& layout)
      : ctx_(ctx),
        ir_(ctx.ir),
        op_(op),
        layout_(layout),
        rank_(layout.rank()),
        sum_(ctx.type(op.operands[2]).element),
        inner_(dsl::concrete_shape(ctx.type(op.operands[0])).back()) {}

  Result<void> run() {
    auto accumulators = ctx_.get(op_.operands[2], layout_);
    if (!accumulators) return accumulators.error();
    auto lhs = operand(op_.operands[0]), rhs = operand(op_.operands[1]);
    if (!lhs || !rhs) return (lhs ? rhs : lhs).error();
    StagedTile a = staged(*lhs);
    const int bits = part_bits(*lhs, *rhs);
    const int64_t step = rhs->layout.shape()[static_cast<size_t>(rank_ - 2)] >> bits;
    for (int64_t start = 0; start < inner_; start += step) {
      StagedTile b = staged(part(*rhs, bits, start / step));
      *accumulators = add_products(*accumulators, a, b, start, std::min(step, inner_ - start));
    }
    ctx_.define(op_.results[0], std::move(*accumulators));
    return {};
  }

 private:
  struct Operand {
    Layout layout;
    Registers registers;
  };

  // Its elements of the sum's type. The loop over the inner axis meets nothing of its padding.
  Result<Operand> operand(ValueId id) {
    Operand out{ctx_.layout_at_hand(id), {}};
    auto registers = ctx_.get(id, out.layout);
    if (!registers) return registers.error();
    for (Value* x : *registers) out.registers.push_back(emit_cast(ctx_, ir_, x, ctx_.type(id).element, sum_));
    return out;
  }

  StagedTile staged(const Operand& operand) {
    StagedTile tile(ctx_, dsl::scalar_type(sum_), operand.layout.shape());
    tile.write(operand.registers, operand.layout, operand.layout.shape());
    tile.end_writes();
    return tile;
  }

  int part_bits(const Operand& a, const Operand& b) const {
    const int axis = rank_ - 2, most = outer_register_bits(b.layout, axis);
    const auto bytes = [&](const Operand& x) {
      return memory_bytes(dsl::scalar_type(sum_)) << x.layout.element_bits();
    };
    const int64_t room = ctx_.target.lane_facts().shared_bytes * 3 / 4 - bytes(a);
    int bits = 0;
    while (bits < most && bytes(b) >> bits > room) ++bits;
    return bits;
  }

  Operand part(const Operand& whole, int bits, int64_t index) const {
    if (bits == 0) return whole;
    RegisterPart taken = register_part(whole.layout, rank_ - 2, bits, static_cast<Bits>(index));
    Operand out{std::move(taken.layout), {}};
    for (Bits reg : taken.registers) out.registers.push_back(whole.registers[reg]);
    return out;
  }

  // for (k = 0; k < count; ++k) sums += a[.., start + k] · b[k, ..]
  Registers add_products(const Registers& accumulators, StagedTile& lhs, StagedTile& rhs, int64_t start,
                         int64_t count) {
    llvm::BasicBlock* before = ir_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(ir_.getContext(), "dot", ctx_.function);
    auto* after = llvm::BasicBlock::Create(ir_.getContext(), "dot.end", ctx_.function);
    ir_.CreateBr(loop);
    ir_.SetInsertPoint(loop);
    auto* k = ir_.CreatePHI(ir_.getInt32Ty(), 2, "k");
    k->addIncoming(ir_.getInt32(0), before);
    std::vector<llvm::PHINode*> phis;
    for (Value* x : accumulators) {
      phis.push_back(ir_.CreatePHI(x->getType(), 2));
      phis.back()->addIncoming(x, before);
    }
    const Registers next = products(phis, lhs, rhs, ir_.CreateAdd(k, ir_.getInt32(static_cast<uint32_t>(start))), k);
    Value* next_k = ir_.CreateAdd(k, ir_.getInt32(1));
    k->addIncoming(next_k, loop);
    for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(next[i], loop);
    ir_.CreateCondBr(ir_.CreateICmpULT(next_k, ir_.getInt32(static_cast<uint32_t>(count))), loop, after);
    ir_.SetInsertPoint(after);
    return next;
  }

  // Elements of A that differ in n alone are one, of B those that differ in m alone.
  Registers products(llvm::ArrayRef<llvm::PHINode*> accumulators, StagedTile& lhs, StagedTile& rhs, Value* k_of_a,
                     Value* k_of_b) {
    std::map<Bits, Value*> a_elements, b_elements;
    const Bits n_mask = (Bits{1} << layout_.axis_bits(rank_ - 1)) - 1;
    const Bits m_mask = ((Bits{1} << layout_.axis_bits(rank_ - 2)) - 1) << layout_.axis_bits(rank_ - 1);
    Registers out;
    for (size_t reg = 0; reg < accumulators.size(); ++reg) {
      llvm::SmallVector<Value*, 3> at;
      for (int axis = 0; axis < rank_; ++axis) at.push_back(ctx_.coordinate(layout_, reg, axis));
      const Bits element = layout_.at({.reg = reg});
      Value*& x = a_elements[element & ~n_mask];
      Value*& y = b_elements[element & ~m_mask];
      if (!x) {
        auto place = at;
        place.back() = k_of_a;
        x = lhs.read(place);
      }
      if (!y) {
        auto place = at;
        place[place.size() - 2] = k_of_b;
        y = rhs.read(place);
      }
      out.push_back(multiply_add(ctx_, sum_, x, y, accumulators[reg]));
    }
    return out;
  }

  Context& ctx_;
  Builder& ir_;
  const Op& op_;
  const Layout& layout_;
  const int rank_;
  const ElementType sum_;
  const int64_t inner_;
};

}  // namespace

Result<void> lower_dot(Context& ctx, const Op& op) {
  const DotLayouts layouts = dot_layouts(ctx.kernel, op, ctx.target, ctx.block);
  if (layouts.group) return lower_group_dot(ctx, op, layouts);
  return layouts.fragments ? by_instruction(ctx, op, layouts) : MultiplyAdds(ctx, op, layouts.accumulator).run();
}

}  // namespace kiln::codegen::gpu

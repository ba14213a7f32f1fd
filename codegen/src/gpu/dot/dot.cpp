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
void zero_outside(Context& c, Registers& registers, const Layout& place, int axis, int64_t extent) {
  if (place.shape()[static_cast<size_t>(axis)] == extent) return;
  for (size_t reg = 0; reg < registers.size(); ++reg) {
    Value* inside = c.b.CreateICmpULT(c.coordinate(place, reg, axis), c.b.getInt32(static_cast<uint32_t>(extent)));
    Value*& x = registers[reg];
    x = c.b.CreateSelect(inside, x, llvm::Constant::getNullValue(x->getType()));
  }
}

// More words of an operand than this would leave too few registers for all else: they are read again from shared memory
// by each product.
constexpr int64_t kMostHeldWords = 128;

// What gives an operand's registers.
Result<std::function<Registers()>> begin_operand(Context& c, ValueId id, const Layout& layout, const Layout& place,
                                                 int axis) {
  const int64_t extent = dsl::concrete_shape(c.type(id))[static_cast<size_t>(axis)];
  const int64_t words = layout.size(Dim::kRegister) * dsl::info(c.type(id).element).bytes / 4;
  if (words > kMostHeldWords) {
    auto rest = c.get_later(id, layout);
    if (!rest) return rest;
    return std::function<Registers()>([&c, rest = std::move(*rest), place, axis, extent] {
      Registers registers = rest();
      zero_outside(c, registers, place, axis, extent);
      return registers;
    });
  }
  auto registers = c.get(id, layout);
  if (!registers) return registers.error();
  zero_outside(c, *registers, place, axis, extent);
  return std::function<Registers()>([out = std::move(*registers)] { return out; });
}

bool is_in_pipeline(const Context& c) {
  return std::ranges::any_of(c.placement.pipelines,
                             [&](const auto& entry) { return &entry.first->regions[0] == c.current_region(); });
}

Result<void> by_instruction(Context& c, const Op& op, const DotLayouts& layouts) {
  const DotFragments& all = *layouts.fragments;
  const int rank = all.sums.rank();
  const bool is_cluster = is_in_pipeline(c);
  if (is_cluster) c.target.begin_products(c.b);
  auto begun_a = begin_operand(c, op.operands[0], all.a, all.whole_a, rank - 1);
  auto begun_b = begin_operand(c, op.operands[1], all.b, all.whole_b, rank - 2);
  auto sums = fragment_sums(c, op.operands[2], layouts);
  if (!begun_a || !begun_b) return (begun_a ? begun_b : begun_a).error();
  if (!sums) return sums.error();
  const Registers a = (*begun_a)(), b = (*begun_b)();
  if (is_cluster) c.target.end_operand_reads(c.b);
  for (int64_t batch = 0; batch < all.batch; ++batch) {
    for (int64_t k = 0; k < all.k; ++k) multiply_fragments(c, all, a, b, *sums, batch, k);
  }
  if (is_cluster) c.target.end_products(c.b);
  c.define(op.results[0], without_copies(*sums, layouts));
  return {};
}

Value* multiply_add(Context& c, ElementType sum, Value* a, Value* b, Value* acc) {
  if (!dsl::is_float(sum)) return c.b.CreateAdd(acc, c.b.CreateMul(a, b));
  return c.b.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {a, b, acc});
}

// A product by multiply-adds, whose operands all threads read from shared memory. Where they do not fit there at once,
// B goes by parts along the inner axis, as far as each is in registers of its own.
class MultiplyAdds {
 public:
  MultiplyAdds(Context& c, const Op& op, const Layout& layout)
      : c_(c),
        b_(c.b),
        op_(op),
        layout_(layout),
        rank_(layout.rank()),
        sum_(c.type(op.operands[2]).element),
        inner_(dsl::concrete_shape(c.type(op.operands[0])).back()) {}

  Result<void> run() {
    auto sums = c_.get(op_.operands[2], layout_);
    if (!sums) return sums.error();
    auto lhs = operand(op_.operands[0]), rhs = operand(op_.operands[1]);
    if (!lhs || !rhs) return (lhs ? rhs : lhs).error();
    StagedTile a = staged(*lhs);
    const int bits = part_bits(*lhs, *rhs);
    const int64_t step = rhs->layout.shape()[static_cast<size_t>(rank_ - 2)] >> bits;
    for (int64_t start = 0; start < inner_; start += step) {
      StagedTile b = staged(part(*rhs, bits, start / step));
      *sums = add_products(*sums, a, b, start, std::min(step, inner_ - start));
    }
    c_.define(op_.results[0], std::move(*sums));
    return {};
  }

 private:
  struct Operand {
    Layout layout;
    Registers registers;
  };

  // Its elements of the sum's type. The loop over the inner axis meets nothing of its padding.
  Result<Operand> operand(ValueId id) {
    Operand out{c_.layout_at_hand(id), {}};
    auto registers = c_.get(id, out.layout);
    if (!registers) return registers.error();
    for (Value* x : *registers) out.registers.push_back(emit_cast(c_, b_, x, c_.type(id).element, sum_));
    return out;
  }

  StagedTile staged(const Operand& operand) {
    StagedTile tile(c_, dsl::scalar_type(sum_), operand.layout.shape());
    tile.write(operand.registers, operand.layout, operand.layout.shape());
    tile.end_writes();
    return tile;
  }

  int part_bits(const Operand& a, const Operand& b) const {
    const int axis = rank_ - 2, most = outer_register_bits(b.layout, axis);
    const auto bytes = [&](const Operand& x) {
      return memory_bytes(dsl::scalar_type(sum_)) << x.layout.element_bits();
    };
    const int64_t room = c_.target.lane_facts().shared_bytes * 3 / 4 - bytes(a);
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
  Registers add_products(const Registers& sums, StagedTile& lhs, StagedTile& rhs, int64_t start, int64_t count) {
    llvm::BasicBlock* before = b_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(b_.getContext(), "dot", c_.function);
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "dot.end", c_.function);
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    auto* k = b_.CreatePHI(b_.getInt32Ty(), 2, "k");
    k->addIncoming(b_.getInt32(0), before);
    std::vector<llvm::PHINode*> phis;
    for (Value* x : sums) {
      phis.push_back(b_.CreatePHI(x->getType(), 2));
      phis.back()->addIncoming(x, before);
    }
    const Registers next = products(phis, lhs, rhs, b_.CreateAdd(k, b_.getInt32(static_cast<uint32_t>(start))), k);
    Value* next_k = b_.CreateAdd(k, b_.getInt32(1));
    k->addIncoming(next_k, loop);
    for (size_t i = 0; i < phis.size(); ++i) phis[i]->addIncoming(next[i], loop);
    b_.CreateCondBr(b_.CreateICmpULT(next_k, b_.getInt32(static_cast<uint32_t>(count))), loop, after);
    b_.SetInsertPoint(after);
    return next;
  }

  // Elements of A that differ in n alone are one, of B those that differ in m alone.
  Registers products(llvm::ArrayRef<llvm::PHINode*> sums, StagedTile& lhs, StagedTile& rhs, Value* k_of_a,
                     Value* k_of_b) {
    std::map<Bits, Value*> a_elements, b_elements;
    const Bits n_mask = (Bits{1} << layout_.axis_bits(rank_ - 1)) - 1;
    const Bits m_mask = ((Bits{1} << layout_.axis_bits(rank_ - 2)) - 1) << layout_.axis_bits(rank_ - 1);
    Registers out;
    for (size_t reg = 0; reg < sums.size(); ++reg) {
      llvm::SmallVector<Value*, 3> at;
      for (int axis = 0; axis < rank_; ++axis) at.push_back(c_.coordinate(layout_, reg, axis));
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
      out.push_back(multiply_add(c_, sum_, x, y, sums[reg]));
    }
    return out;
  }

  Context& c_;
  Builder& b_;
  const Op& op_;
  const Layout& layout_;
  const int rank_;
  const ElementType sum_;
  const int64_t inner_;
};

}  // namespace

Result<void> lower_dot(Context& c, const Op& op) {
  const DotLayouts layouts = dot_layouts(c.kernel, op, c.target, c.block);
  if (layouts.group) return lower_group_dot(c, op, layouts);
  return layouts.fragments ? by_instruction(c, op, layouts) : MultiplyAdds(c, op, layouts.accumulator).run();
}

}  // namespace kiln::codegen::gpu

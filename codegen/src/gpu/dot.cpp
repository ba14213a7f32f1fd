// dot: by matrix instructions on fragments in registers, or, where there are none for its types, by multiply-adds on
// operands that all threads read from shared memory.
#include "gpu/context.h"
#include "gpu/group_dot.h"
#include "gpu/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

// Registers of an operand with 0 for what its layout pads the inner axis with: it would meet the other's padding.
Result<Registers> operand_registers(Context& c, ValueId id, const Layout& layout) {
  auto registers = c.get(id, layout);
  if (!registers) return registers;
  for (size_t reg = 0; reg < registers->size(); ++reg) {
    Value* inside = c.in_tile(layout, reg, c.type(id));
    Value*& x = (*registers)[reg];
    if (inside) x = c.b.CreateSelect(inside, x, llvm::Constant::getNullValue(x->getType()));
  }
  return registers;
}

Result<void> by_instruction(Context& c, const Op& op, const DotLayouts& layouts) {
  const MatrixInstruction& instruction = *layouts.instruction;
  auto a = operand_registers(c, op.operands[0], layouts.a), b = operand_registers(c, op.operands[1], layouts.b);
  auto sums = c.get(op.operands[2], layouts.accumulator);
  if (!a || !b) return (a ? b : a).error();
  if (!sums) return sums.error();
  const auto fragment = [](Registers& all, int64_t number, const Layout& layout) {
    const auto size = static_cast<size_t>(layout.size(Dim::kRegister));
    return llvm::MutableArrayRef<Value*>(all).slice(static_cast<size_t>(number) * size, size);
  };
  for (int64_t k = 0; k < layouts.k_fragments; ++k) {
    for (int64_t m = 0; m < layouts.m_fragments; ++m) {
      for (int64_t n = 0; n < layouts.n_fragments; ++n) {
        const auto sum = fragment(*sums, m * layouts.n_fragments + n, instruction.accumulator);
        const std::vector<Value*> next =
            instruction.emit(c.b, fragment(*a, k * layouts.m_fragments + m, instruction.a),
                             fragment(*b, k * layouts.n_fragments + n, instruction.b), sum);
        std::copy(next.begin(), next.end(), sum.begin());
      }
    }
  }
  c.define(op.results[0], std::move(*sums));
  return {};
}

// An operand in shared memory, row-major, its elements as wide as the sum's. A column more than it has keeps rows in
// different banks.
class StagedOperand {
 public:
  StagedOperand(Context& c, ValueId id, ElementType sum)
      : c_(c), id_(id), sum_(sum), shape_(padded_shape(c.type(id))), bytes_(dsl::info(sum).bytes) {
    int64_t stride = 1;
    strides_.resize(shape_.size());
    for (size_t i = shape_.size(); i-- > 0;) {
      strides_[i] = stride;
      stride *= i + 1 == shape_.size() ? shape_[i] + 1 : shape_[i];
    }
    buffer_.emplace(c.b, stride * bytes_);
  }

  Result<void> write() {
    const Layout layout = c_.placement.home[id_] ? *c_.placement.home[id_] : replicated(shape_, c_.block);
    auto registers = operand_registers(c_, id_, layout);
    if (!registers) return registers.error();
    for (size_t reg = 0; reg < registers->size(); ++reg) {
      Value* at = c_.b.getInt32(0);
      for (size_t axis = 0; axis < shape_.size(); ++axis) {
        at = step(at, c_.coordinate(layout, reg, static_cast<int>(axis)), axis);
      }
      Value* x = emit_cast(c_, c_.b, (*registers)[reg], c_.type(id_).element, sum_);
      buffer_->mark(c_.b.CreateStore(x, address(at)), SharedBuffer::Access::kWrite, 0);
    }
    return {};
  }

  // One element; the coordinates by axis.
  Value* read(llvm::ArrayRef<Value*> coordinates) {
    Value* at = c_.b.getInt32(0);
    for (size_t axis = 0; axis < shape_.size(); ++axis) at = step(at, coordinates[axis], axis);
    auto* out = c_.b.CreateLoad(register_type(c_.b.getContext(), dsl::scalar_type(sum_)), address(at));
    buffer_->mark(out, SharedBuffer::Access::kRead, 1);
    return out;
  }

 private:
  Value* step(Value* at, Value* coordinate, size_t axis) {
    return c_.b.CreateAdd(at, c_.b.CreateMul(coordinate, c_.b.getInt32(static_cast<uint32_t>(strides_[axis]))));
  }
  Value* address(Value* element) {
    return c_.b.CreateGEP(register_type(c_.b.getContext(), dsl::scalar_type(sum_)), buffer_->pointer(), element);
  }

  Context& c_;
  ValueId id_;
  ElementType sum_;
  std::vector<int64_t> shape_, strides_;
  int64_t bytes_;
  std::optional<SharedBuffer> buffer_;
};

Value* multiply_add(Context& c, ElementType sum, Value* a, Value* b, Value* acc) {
  if (!dsl::is_float(sum)) return c.b.CreateAdd(acc, c.b.CreateMul(a, b));
  return c.b.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {a, b, acc});
}

Result<void> by_multiply_add(Context& c, const Op& op, const Layout& layout) {
  Builder& b = c.b;
  const ElementType sum = c.type(op.operands[2]).element;
  auto sums = c.get(op.operands[2], layout);
  if (!sums) return sums.error();
  StagedOperand lhs(c, op.operands[0], sum), rhs(c, op.operands[1], sum);
  if (auto done = lhs.write(); !done) return done;
  if (auto done = rhs.write(); !done) return done;

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
      x = lhs.read(place);
    }
    if (!y) {
      auto place = at;
      place[place.size() - 2] = k;
      y = rhs.read(place);
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
  return layouts.instruction ? by_instruction(c, op, layouts) : by_multiply_add(c, op, layouts.accumulator);
}

}  // namespace kiln::codegen::gpu

// atomic_rmw and atomic_cas, lane by lane (lanes.h). Ints are LLVM's own atomics; floats combine in a loop around a
// compare-exchange of their bits, which is what makes their rules ours: rounding of small types, NaN, signs of zeros.
// Sums of f32 that nobody waits for are exchanged several neighbours at a time: each of them still changes at once.
#include "cpu/ops/atomics.h"

#include <llvm/MC/MCSubtargetInfo.h>

#include "cpu/ops/checks.h"
#include "cpu/ops/lanes.h"
#include "elementwise/atomic_combine.h"

namespace kiln::codegen::cpu {
namespace {

using dsl::AtomicKind;
using llvm::AtomicOrdering;

int64_t attribute(const Op& op, size_t index) { return std::get<int64_t>(op.attrs[index]); }

AtomicOrdering ordering(int64_t order) {
  switch (static_cast<dsl::MemoryOrder>(order)) {
    case dsl::MemoryOrder::kRelaxed:
      return AtomicOrdering::Monotonic;
    case dsl::MemoryOrder::kAcquire:
      return AtomicOrdering::Acquire;
    case dsl::MemoryOrder::kRelease:
      return AtomicOrdering::Release;
    case dsl::MemoryOrder::kAcqRel:
      break;
  }
  return AtomicOrdering::AcquireRelease;
}

llvm::AtomicRMWInst::BinOp int_operation(AtomicKind kind, bool is_signed) {
  switch (kind) {
    case AtomicKind::kAdd:
      return llvm::AtomicRMWInst::Add;
    case AtomicKind::kMin:
      return is_signed ? llvm::AtomicRMWInst::Min : llvm::AtomicRMWInst::UMin;
    case AtomicKind::kMax:
      return is_signed ? llvm::AtomicRMWInst::Max : llvm::AtomicRMWInst::UMax;
    case AtomicKind::kAnd:
      return llvm::AtomicRMWInst::And;
    case AtomicKind::kOr:
      return llvm::AtomicRMWInst::Or;
    case AtomicKind::kXor:
      return llvm::AtomicRMWInst::Xor;
    case AtomicKind::kXchg:
      break;
  }
  return llvm::AtomicRMWInst::Xchg;
}

// How one lane's element lies in memory, as a float and as bits.
struct Cell {
  Context& ctx;
  ElementType element;
  Value* pointer;
  AtomicOrdering order;

  Builder& ir() const { return ctx.ir; }
  llvm::IntegerType* bits() const { return ctx.ir.getIntNTy(static_cast<unsigned>(8 * dsl::info(element).bytes)); }
  llvm::MaybeAlign align() const { return llvm::MaybeAlign(static_cast<uint64_t>(dsl::info(element).bytes)); }
  Value* to_bits(Value* x) const { return ctx.ir.CreateBitCast(x, bits()); }
  Value* from_bits(Value* x) const { return ctx.ir.CreateBitCast(x, memory_type(ctx.ir.getContext(), element, false)); }
  // {old bits, whether they were the expected ones}
  llvm::AtomicCmpXchgInst* compare_exchange(Value* expected, Value* desired) const {
    const auto failure = llvm::AtomicCmpXchgInst::getStrongestFailureOrdering(order);
    return ctx.ir.CreateAtomicCmpXchg(pointer, expected, desired, align(), order, failure);
  }
};

// `do new = combine(old, value) while (!compare_exchange(old, new))`; the old bits.
Value* exchange_loop(const Cell& cell, AtomicKind kind, Value* value) {
  Builder& ir = cell.ir();
  auto* first = ir.CreateAlignedLoad(cell.bits(), cell.pointer, cell.align());
  first->setAtomic(AtomicOrdering::Monotonic);
  auto* before = ir.GetInsertBlock();
  auto* retry = llvm::BasicBlock::Create(ir.getContext(), "exchange", cell.ctx.function);
  auto* done = llvm::BasicBlock::Create(ir.getContext(), "exchanged", cell.ctx.function);
  ir.CreateBr(retry);
  ir.SetInsertPoint(retry);
  auto* old = ir.CreatePHI(cell.bits(), 2);
  old->addIncoming(first, before);
  auto* exchanged = cell.compare_exchange(old, combine_bits(cell.ctx, ir, kind, cell.element, old, value));
  exchanged->setWeak(true);
  Value* seen = ir.CreateExtractValue(exchanged, 0);
  old->addIncoming(seen, ir.GetInsertBlock());
  ir.CreateCondBr(ir.CreateExtractValue(exchanged, 1), done, retry);
  ir.SetInsertPoint(done);
  return old;
}

Value* rmw_lane(const Cell& cell, AtomicKind kind, Value* value) {
  Builder& ir = cell.ir();
  Value* bits = cell.to_bits(value);
  if (dsl::is_float(cell.element) && kind != AtomicKind::kXchg) {
    return cell.from_bits(exchange_loop(cell, kind, bits));
  }
  const auto operation = int_operation(kind, dsl::info(cell.element).is_signed);
  return cell.from_bits(ir.CreateAtomicRMW(operation, cell.pointer, bits, cell.align(), cell.order));
}

// Bytes that are exchanged at once.
unsigned exchange_bytes(const CpuTarget& target) {
  return target.is_x86 && target.machine->getMCSubtargetInfo()->checkFeatures("+cx16") ? 16 : 8;
}

void add_neighbours(Context& ctx, Value* pointer, Value* values) {
  Builder& ir = ctx.ir;
  auto* vector = llvm::cast<llvm::FixedVectorType>(values->getType());
  const unsigned lanes = vector->getNumElements();
  auto* bits = ir.getIntNTy(32 * lanes);
  // What is read piece by piece may never have been there as a whole: then the exchange fails and tells what is.
  Value* seen = nullptr;
  for (unsigned i = 0; i < lanes; i += 2) {
    auto* part =
        ir.CreateAlignedLoad(ir.getInt64Ty(), ir.CreateConstGEP1_64(ir.getInt8Ty(), pointer, 4 * i), llvm::Align(8));
    part->setAtomic(AtomicOrdering::Monotonic);
    Value* wide = ir.CreateShl(ir.CreateZExt(part, bits), 32 * i);
    seen = seen ? ir.CreateOr(seen, wide) : wide;
  }
  auto* before = ir.GetInsertBlock();
  auto* retry = llvm::BasicBlock::Create(ir.getContext(), "exchange", ctx.function);
  auto* done = llvm::BasicBlock::Create(ir.getContext(), "exchanged", ctx.function);
  ir.CreateBr(retry);
  ir.SetInsertPoint(retry);
  auto* old = ir.CreatePHI(bits, 2);
  old->addIncoming(seen, before);
  Value* sum = ir.CreateBitCast(ir.CreateFAdd(ir.CreateBitCast(old, vector), values), bits);
  auto* exchanged = ir.CreateAtomicCmpXchg(pointer, old, sum, llvm::Align(4 * lanes), AtomicOrdering::Monotonic,
                                           AtomicOrdering::Monotonic);
  exchanged->setWeak(true);
  old->addIncoming(ir.CreateExtractValue(exchanged, 0), retry);
  ir.CreateCondBr(ir.CreateExtractValue(exchanged, 1), done, retry);
  ir.SetInsertPoint(done);
}

bool adds_relaxed_floats(const Op& op, ElementType element) {
  return op.code == OpCode::kAtomicRmw && element == ElementType::kF32 &&
         static_cast<AtomicKind>(attribute(op, 0)) == AtomicKind::kAdd &&
         static_cast<dsl::MemoryOrder>(attribute(op, 1)) == dsl::MemoryOrder::kRelaxed;
}

Value* cas_lane(const Cell& cell, Value* expected, Value* value) {
  auto* exchanged = cell.compare_exchange(cell.to_bits(expected), cell.to_bits(value));
  return cell.from_bits(cell.ir().CreateExtractValue(exchanged, 0));
}

}  // namespace

Result<void> lower_atomic(Context& ctx, const Op& op) {
  const bool is_cas = op.code == OpCode::kAtomicCas;
  const size_t value_count = is_cas ? 2 : 1;
  LaneOp lanes;
  lanes.pointer = op.operands[0];
  lanes.values.assign(op.operands.begin() + 1, op.operands.begin() + 1 + static_cast<int64_t>(value_count));
  if (op.operands.size() > 1 + value_count) lanes.mask = op.operands[1 + value_count];
  lanes.result = op.results[0];
  lanes.exact_pointers = ctx.kernel.options.check_bounds;
  const ElementType element = ctx.type(op.operands[0]).element;
  const AtomicOrdering order = ordering(attribute(op, is_cas ? 0 : 1));
  if (adds_relaxed_floats(op, element) && !ctx.kernel.options.check_bounds) {
    lanes.group = LaneGroup{exchange_bytes(ctx.target) / 4,
                            [&](Value* pointer, Value* values) { add_neighbours(ctx, pointer, values); }};
  }
  return for_each_lane(
      ctx, lanes, [&](Value* pointer, llvm::ArrayRef<Value*> values, llvm::function_ref<Value*()> number) -> Value* {
        if (ctx.kernel.options.check_bounds) check_address(ctx, op, pointer, number);
        const Cell cell{ctx, element, pointer, order};
        if (is_cas) return cas_lane(cell, values[0], values[1]);
        return rmw_lane(cell, static_cast<AtomicKind>(attribute(op, 0)), values[0]);
      });
}

}  // namespace kiln::codegen::cpu

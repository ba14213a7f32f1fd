// Turns of a loop with few steps along K each: loading and storing the accumulators would cost as much as the products.
// Their operands wait in a list, and the micro-kernel holds its sums over all iterations of it.
//
//   for r:  acc += A(r)·B(r)        →        for r:  list += {rows of A(r), B(r)}
//                                                    if list is full or r is the last:  acc += Σ A(r)·B(r);  list = {}
//
// Rows of A stay where they are in memory, or in the iteration's own scratch; B stays where it is kept (dot_cache.cpp).
// Where it does not, an iteration does not wait.
//
// A row may be zeros in some iterations, as what a convolution sees beside its image. Rows with zeros in the same
// iterations come one after the other, and a block of such rows leaves these iterations out; unless B has an infinity
// or NaN there, which make NaN of a zero.
#include "cpu/dot/dot_iterations.h"

#include <limits>

#include "cpu/dot/dot.h"
#include "cpu/dot/dot_accumulator.h"
#include "cpu/dot/dot_form.h"
#include "cpu/dot/dot_pack.h"
#include "cpu/dot/dot_rows.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int64_t kNearBytes = 160 * 1024;  // of the panels of B that a block of rows goes through: they come from L2

// Numbers in memory, of one type.
class Array {
 public:
  Array(Context& ctx, llvm::Type* type, Value* pointer) : ir_(ctx.ir), type_(type), pointer_(pointer) {}
  Value* load(Value* index) { return ir_.CreateAlignedLoad(type_, at(index), alignment()); }
  void store(Value* index, Value* value) { ir_.CreateAlignedStore(value, at(index), alignment()); }

 private:
  Value* at(Value* index) { return ir_.CreateInBoundsGEP(type_, pointer_, index); }
  llvm::Align alignment() const { return llvm::Align(type_->getPrimitiveSizeInBits().getFixedValue() / 8); }

  Builder& ir_;
  llvm::Type* type_;
  Value* pointer_;
};

// The first `end` rows by their words, of equal ones as they stand (a counting sort); the others behind them. Without
// words, as they stand.
void order_rows(Context& ctx, const DotBlocking& blocking, int64_t iterations, Value* words, Value* end, Value* order) {
  Builder& ir = ctx.ir;
  Array to(ctx, ir.getInt64Ty(), order);
  auto each = [&](Value* first, Value* last, const char* name, const std::function<void(Value*)>& body) {
    emit_loop(ir, first, last, ctx.i64(1), name, [](llvm::Instruction*) {}, body);
  };
  if (!words) return each(ctx.i64(0), ctx.i64(blocking.m), "order", [&](Value* row) { to.store(row, row); });
  const int64_t kinds = int64_t{1} << iterations;
  Value* places = reserve(ctx, kinds * 8 + ctx.target.vector_bytes);
  fill_bytes(ctx, places, 0, kinds * 8);
  Array place(ctx, ir.getInt64Ty(), places), word(ctx, ir.getInt32Ty(), words);
  auto take_place = [&](Value* index) {
    Value* before = place.load(index);
    place.store(index, ir.CreateAdd(before, ctx.i64(1)));
    return before;
  };
  auto kind_of = [&](Value* row) { return ir.CreateZExt(word.load(row), ir.getInt64Ty()); };
  each(ctx.i64(0), end, "count", [&](Value* row) { take_place(kind_of(row)); });
  Value* sum = entry_alloca(ctx, ir.getInt64Ty());
  ir.CreateStore(ctx.i64(0), sum);
  each(ctx.i64(0), ctx.i64(kinds), "places", [&](Value* kind) {
    Value *before = ir.CreateLoad(ir.getInt64Ty(), sum), *count = place.load(kind);
    place.store(kind, before);
    ir.CreateStore(ir.CreateAdd(before, count), sum);
  });
  each(ctx.i64(0), end, "order", [&](Value* row) { to.store(take_place(kind_of(row)), row); });
  each(end, ctx.i64(blocking.m), "rest", [&](Value* row) { to.store(row, row); });
}

// Whether the columns of B are finite, as far as `steps` units go (i1): no number is as large as an infinity is.
class FiniteTest {
 public:
  FiniteTest(Context& ctx, const DotBlocking& blocking, const OperandB& operand, Value* steps)
      : ctx_(ctx), ir_(ctx.ir), blocking_(blocking), operand_(operand), steps_(steps) {
    const unsigned bits = dsl::info(blocking.form.packed).bits, lanes = static_cast<unsigned>(blocking.lanes);
    numbers_ =
        llvm::FixedVectorType::get(ir_.getIntNTy(bits), lanes * static_cast<unsigned>(blocking.unit_bytes) * 8 / bits);
    largest_ = entry_alloca(ctx, numbers_);
    infinity_ = dsl::bits_from_double(blocking.form.packed, std::numeric_limits<double>::infinity());
  }

  Value* emit() {
    ir_.CreateStore(llvm::Constant::getNullValue(numbers_), largest_);
    each(ctx_.i64(blocking_.panels() - 1), [&](Value* panel) { look_at(panel, blocking_.block.vectors, nullptr); });
    const int64_t tail = blocking_.n % blocking_.lanes;
    std::vector<llvm::Constant*> exists;
    for (int64_t i = 0; i < blocking_.lanes; ++i) exists.push_back(ir_.getInt1(tail == 0 || i < tail));
    look_at(ctx_.i64(blocking_.panels() - 1), blocking_.last_vectors(), llvm::ConstantVector::get(exists));
    Value* largest = ir_.CreateIntMaxReduce(ir_.CreateLoad(numbers_, largest_));
    return ir_.CreateICmpULT(largest, llvm::ConstantInt::get(largest->getType(), infinity_));
  }

 private:
  void each(Value* end, llvm::function_ref<void(Value*)> body) {
    emit_loop(ir_, ctx_.i64(0), end, ctx_.i64(1), "finite", [](llvm::Instruction*) {}, body);
  }

  // `tail`: the lanes of the last vector that exist; null: all.
  void look_at(Value* panel, int vectors, Value* tail) {
    auto at = [&](Value* from, Value* offset) { return ir_.CreateInBoundsGEP(ir_.getInt8Ty(), from, offset); };
    Value* first = at(operand_.pointer, ir_.CreateMul(panel, operand_.panel));
    auto* units = vector_of(blocking_, ir_.getIntNTy(static_cast<unsigned>(blocking_.unit_bytes) * 8));
    const llvm::Align align(static_cast<uint64_t>(blocking_.packed_bytes()));
    each(steps_, [&](Value* k) {
      Value *row = at(first, ir_.CreateMul(k, operand_.row)), *largest = ir_.CreateLoad(numbers_, largest_);
      for (int v = 0; v < vectors; ++v) {
        Value* pointer = at(row, ctx_.i64(int64_t{v} * blocking_.lanes * blocking_.unit_bytes));
        Value* vector = tail && v == vectors - 1
                            ? ir_.CreateMaskedLoad(units, pointer, align, tail, llvm::Constant::getNullValue(units))
                            : static_cast<Value*>(ir_.CreateAlignedLoad(units, pointer, align));
        const uint64_t without_sign = (uint64_t{1} << (numbers_->getScalarSizeInBits() - 1)) - 1;
        vector = ir_.CreateAnd(ir_.CreateBitCast(vector, numbers_), llvm::ConstantInt::get(numbers_, without_sign));
        largest = ir_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, largest, vector);
      }
      ir_.CreateStore(largest, largest_);
    });
  }

  Context& ctx_;
  Builder& ir_;
  const DotBlocking& blocking_;
  const OperandB& operand_;
  Value* steps_;
  llvm::FixedVectorType* numbers_;
  Value* largest_;
  uint64_t infinity_;
};

// Whether products with rows of zeros add nothing (i1), where there are `any` (i1).
Value* may_leave_out(Context& ctx, const DotBlocking& blocking, const OperandB& operand, Value* steps, Value* any) {
  Builder& ir = ctx.ir;
  if (!dsl::is_float(blocking.form.packed)) return ir.getTrue();
  Value* is_unknown = ir.CreateSelect(operand.in_place, any, operand.is_new);
  emit_if(
      ir, is_unknown, "look", [](llvm::Instruction*) {},
      [&] {
        Value* finite = FiniteTest(ctx, blocking, operand, steps).emit();
        ir.CreateAlignedStore(ir.CreateZExt(finite, ir.getInt64Ty()), operand.note, llvm::Align(8));
      });
  return ir.CreateICmpNE(ir.CreateAlignedLoad(ir.getInt64Ty(), operand.note, llvm::Align(8)), ctx.i64(0));
}

}  // namespace

int64_t fused_iterations(const Context& ctx, const DotBlocking& blocking, const Op& dot) {
  const auto* accumulators = accumulators_of_loops(ctx, blocking, dot.operands[2], dot.results[0]);
  if (!blocking.scattered_a || ctx.slots[dot.operands[0]] || !accumulators || !accumulators->ends) return 1;
  return std::clamp<int64_t>(kNearBytes / packed_panel_bytes(blocking), 1, kMostIterations);
}

Result<void> lower_iterations(Context& ctx, DotBlocking blocking, const Op& dot, Value* steps, int64_t most) {
  Builder& ir = ctx.ir;
  // Of few rows B is read once: a second time would cost as much.
  blocking.leaves_out = ctx.schedule.definition[dot.operands[0]]->operands.size() > 1 &&
                        blocking.m > blocking.block.rows && !blocking.widen_b;
  const DotAccumulator& loops = *accumulators_of_loops(ctx, blocking, dot.operands[2], dot.results[0]);
  Value* waiting = entry_alloca(ctx, ir.getInt64Ty());
  Builder(ctx.function->getEntryBlock().getTerminator()).CreateStore(ctx.i64(0), waiting);
  Value* iteration = ir.CreateLoad(ir.getInt64Ty(), waiting);
  const int64_t rows_bytes = (bytes_of_rows(ctx, blocking) + 63) / 64 * 64;
  Value *list = reserve(ctx, order_of_iterations(blocking) + blocking.m * 8 + ctx.target.vector_bytes),
        *memory = reserve(ctx, most * rows_bytes);
  memory = ir.CreateInBoundsGEP(ir.getInt8Ty(), memory, ir.CreateMul(iteration, ctx.i64(rows_bytes)));
  RowsLeftOut left_out{nullptr, iteration, nullptr};
  if (blocking.leaves_out) {
    left_out.words = reserve(ctx, blocking.m * 4 + ctx.target.vector_bytes);
    left_out.any = entry_alloca(ctx, ir.getInt1Ty());
    ir.CreateStore(ir.getFalse(), left_out.any);
  }
  auto rows = point_at_rows(ctx, blocking, dot.operands[0], steps, loops.rows, {memory, ir.getFalse(), ir.getTrue()},
                            blocking.leaves_out ? &left_out : nullptr);
  if (!rows) return rows.error();
  auto packed = pack_b(ctx, blocking, dot.operands[1], steps);
  if (!packed) return packed.error();
  Value* leaves_out = ir.getFalse();
  if (blocking.leaves_out)
    leaves_out = may_leave_out(ctx, blocking, *packed, steps, ir.CreateLoad(ir.getInt1Ty(), left_out.any));

  Value* fields = ir.CreateInBoundsGEP(ir.getInt64Ty(), list, ir.CreateMul(iteration, ctx.i64(kIterationFields)));
  auto note = [&](IterationField field, Value* value) {
    ir.CreateAlignedStore(value, ir.CreateConstInBoundsGEP1_64(ir.getInt64Ty(), fields, field), llvm::Align(8));
  };
  note(kIterationRows, rows->pointer);
  note(kIterationB, packed->pointer);
  note(kIterationBRow, packed->row);
  note(kIterationBPanel, packed->panel);
  note(kIterationSteps, steps);
  note(kIterationLeavesOut, ir.CreateZExt(leaves_out, ir.getInt64Ty()));
  Value* count = ir.CreateAdd(iteration, ctx.i64(1));
  ir.CreateStore(count, waiting);
  Value* more = ir.CreateAnd(ir.CreateICmpSLT(count, ctx.i64(most)), ir.CreateNot(loops.last));
  return unless(ctx, ir.CreateAnd(more, packed->stays), [&]() -> Result<void> {
    auto accumulators = accumulator(ctx, blocking, dot.operands[2], dot.results[0]);
    if (!accumulators) return accumulators.error();
    auto part_of_list = [&](int64_t offset) { return ir.CreateInBoundsGEP(ir.getInt8Ty(), list, ctx.i64(offset)); };
    fill_bytes(ctx, part_of_list(kIterationZeros), 0, blocking.k_units * blocking.unit_bytes);
    Value* end = ctx.i64(blocking.m);
    if (accumulators->rows) end = ir.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, accumulators->rows);
    order_rows(ctx, blocking, most, left_out.words, end, part_of_list(order_of_iterations(blocking)));
    OperandB none;
    none.pointer = list;
    none.row = none.panel = none.batch = ctx.i64(0);
    run_blocks(ctx, blocking, {LayoutA::kIterations, list, rows->block, ctx.i64(0), ctx.i64(0)}, none, *accumulators,
               count);
    ir.CreateStore(ctx.i64(0), waiting);
    return {};
  });
}

}  // namespace kiln::codegen::cpu

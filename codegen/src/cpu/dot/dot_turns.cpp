// Turns of a loop with few steps along K each: loading and storing the sums would cost as much as the products. Their
// operands wait in a list, and the micro-kernel holds its sums over all turns of it.
//
//   for r:  acc += A(r)·B(r)        →        for r:  list += {rows of A(r), B(r)}
//                                                    if list is full or r is the last:  acc += Σ A(r)·B(r);  list = {}
//
// Rows of A stay where they are in memory, or in the turn's own scratch; B stays where it is kept (dot_keep.cpp). Where
// it does not, a turn does not wait.
//
// A row may be zeros in some turns, as what a convolution sees beside its image. Rows with zeros in the same turns come
// one after the other, and a block of such rows leaves these turns out; unless B has an infinity or NaN there, which
// make NaN of a zero.
#include "cpu/dot/dot_turns.h"

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
  Array(Context& c, llvm::Type* type, Value* pointer) : b_(c.b), type_(type), pointer_(pointer) {}
  Value* load(Value* index) { return b_.CreateAlignedLoad(type_, at(index), alignment()); }
  void store(Value* index, Value* value) { b_.CreateAlignedStore(value, at(index), alignment()); }

 private:
  Value* at(Value* index) { return b_.CreateInBoundsGEP(type_, pointer_, index); }
  llvm::Align alignment() const { return llvm::Align(type_->getPrimitiveSizeInBits().getFixedValue() / 8); }

  Builder& b_;
  llvm::Type* type_;
  Value* pointer_;
};

// The first `end` rows by their words, of equal ones as they stand (a counting sort); the others behind them. Without
// words, as they stand.
void order_rows(Context& c, const DotPlan& plan, int64_t turns, Value* words, Value* end, Value* order) {
  Builder& b = c.b;
  Array to(c, b.getInt64Ty(), order);
  auto each = [&](Value* first, Value* last, const char* name, const std::function<void(Value*)>& body) {
    emit_loop(b, first, last, c.i64(1), name, [](llvm::Instruction*) {}, body);
  };
  if (!words) return each(c.i64(0), c.i64(plan.m), "order", [&](Value* row) { to.store(row, row); });
  const int64_t kinds = int64_t{1} << turns;
  Value* places = reserve(c, kinds * 8 + c.target.vector_bytes);
  fill_bytes(c, places, 0, kinds * 8);
  Array place(c, b.getInt64Ty(), places), word(c, b.getInt32Ty(), words);
  auto take_place = [&](Value* index) {
    Value* before = place.load(index);
    place.store(index, b.CreateAdd(before, c.i64(1)));
    return before;
  };
  auto kind_of = [&](Value* row) { return b.CreateZExt(word.load(row), b.getInt64Ty()); };
  each(c.i64(0), end, "count", [&](Value* row) { take_place(kind_of(row)); });
  Value* sum = entry_alloca(c, b.getInt64Ty());
  b.CreateStore(c.i64(0), sum);
  each(c.i64(0), c.i64(kinds), "places", [&](Value* kind) {
    Value *before = b.CreateLoad(b.getInt64Ty(), sum), *count = place.load(kind);
    place.store(kind, before);
    b.CreateStore(b.CreateAdd(before, count), sum);
  });
  each(c.i64(0), end, "order", [&](Value* row) { to.store(take_place(kind_of(row)), row); });
  each(end, c.i64(plan.m), "rest", [&](Value* row) { to.store(row, row); });
}

// Whether the columns of B are finite, as far as `steps` units go (i1): no number is as large as an infinity is.
class FiniteTest {
 public:
  FiniteTest(Context& c, const DotPlan& plan, const OperandB& operand, Value* steps)
      : c_(c), b_(c.b), plan_(plan), operand_(operand), steps_(steps) {
    const unsigned bits = dsl::info(plan.form.packed).bits, lanes = static_cast<unsigned>(plan.lanes);
    numbers_ =
        llvm::FixedVectorType::get(b_.getIntNTy(bits), lanes * static_cast<unsigned>(plan.unit_bytes) * 8 / bits);
    largest_ = entry_alloca(c, numbers_);
    infinity_ = dsl::bits_from_double(plan.form.packed, std::numeric_limits<double>::infinity());
  }

  Value* emit() {
    b_.CreateStore(llvm::Constant::getNullValue(numbers_), largest_);
    each(c_.i64(plan_.panels() - 1), [&](Value* panel) { look_at(panel, plan_.block.vectors, nullptr); });
    const int64_t tail = plan_.n % plan_.lanes;
    std::vector<llvm::Constant*> exists;
    for (int64_t i = 0; i < plan_.lanes; ++i) exists.push_back(b_.getInt1(tail == 0 || i < tail));
    look_at(c_.i64(plan_.panels() - 1), plan_.last_vectors(), llvm::ConstantVector::get(exists));
    Value* largest = b_.CreateIntMaxReduce(b_.CreateLoad(numbers_, largest_));
    return b_.CreateICmpULT(largest, llvm::ConstantInt::get(largest->getType(), infinity_));
  }

 private:
  void each(Value* end, llvm::function_ref<void(Value*)> body) {
    emit_loop(b_, c_.i64(0), end, c_.i64(1), "finite", [](llvm::Instruction*) {}, body);
  }

  // `tail`: the lanes of the last vector that exist; null: all.
  void look_at(Value* panel, int vectors, Value* tail) {
    auto at = [&](Value* from, Value* offset) { return b_.CreateInBoundsGEP(b_.getInt8Ty(), from, offset); };
    Value* first = at(operand_.pointer, b_.CreateMul(panel, operand_.panel));
    auto* units = vector_of(plan_, b_.getIntNTy(static_cast<unsigned>(plan_.unit_bytes) * 8));
    const llvm::Align align(static_cast<uint64_t>(plan_.packed_bytes()));
    each(steps_, [&](Value* k) {
      Value *row = at(first, b_.CreateMul(k, operand_.row)), *largest = b_.CreateLoad(numbers_, largest_);
      for (int v = 0; v < vectors; ++v) {
        Value* pointer = at(row, c_.i64(int64_t{v} * plan_.lanes * plan_.unit_bytes));
        Value* vector = tail && v == vectors - 1
                            ? b_.CreateMaskedLoad(units, pointer, align, tail, llvm::Constant::getNullValue(units))
                            : static_cast<Value*>(b_.CreateAlignedLoad(units, pointer, align));
        const uint64_t without_sign = (uint64_t{1} << (numbers_->getScalarSizeInBits() - 1)) - 1;
        vector = b_.CreateAnd(b_.CreateBitCast(vector, numbers_), llvm::ConstantInt::get(numbers_, without_sign));
        largest = b_.CreateBinaryIntrinsic(llvm::Intrinsic::umax, largest, vector);
      }
      b_.CreateStore(largest, largest_);
    });
  }

  Context& c_;
  Builder& b_;
  const DotPlan& plan_;
  const OperandB& operand_;
  Value* steps_;
  llvm::FixedVectorType* numbers_;
  Value* largest_;
  uint64_t infinity_;
};

// Whether products with rows of zeros add nothing (i1), where there are `any` (i1).
Value* may_leave_out(Context& c, const DotPlan& plan, const OperandB& operand, Value* steps, Value* any) {
  Builder& b = c.b;
  if (!dsl::is_float(plan.form.packed)) return b.getTrue();
  Value* is_unknown = b.CreateSelect(operand.in_place, any, operand.is_new);
  emit_if(
      b, is_unknown, "look", [](llvm::Instruction*) {},
      [&] {
        Value* finite = FiniteTest(c, plan, operand, steps).emit();
        b.CreateAlignedStore(b.CreateZExt(finite, b.getInt64Ty()), operand.note, llvm::Align(8));
      });
  return b.CreateICmpNE(b.CreateAlignedLoad(b.getInt64Ty(), operand.note, llvm::Align(8)), c.i64(0));
}

}  // namespace

int64_t turns_together(const Context& c, const DotPlan& plan, const Op& dot) {
  const auto* sums = sums_of_loops(c, plan, dot.operands[2], dot.results[0]);
  if (!plan.scattered_a || c.slots[dot.operands[0]] || !sums || !sums->ends) return 1;
  return std::clamp<int64_t>(kNearBytes / packed_panel_bytes(plan), 1, kMostTurns);
}

Result<void> lower_turn(Context& c, DotPlan plan, const Op& dot, Value* steps, int64_t most) {
  Builder& b = c.b;
  // Of few rows B is read once: a second time would cost as much.
  plan.leaves_out =
      c.schedule.definition[dot.operands[0]]->operands.size() > 1 && plan.m > plan.block.rows && !plan.widen_b;
  const DotAccumulator& loops = *sums_of_loops(c, plan, dot.operands[2], dot.results[0]);
  Value* waiting = entry_alloca(c, b.getInt64Ty());
  Builder(c.function->getEntryBlock().getTerminator()).CreateStore(c.i64(0), waiting);
  Value* turn = b.CreateLoad(b.getInt64Ty(), waiting);
  const int64_t rows_bytes = (bytes_of_rows(c, plan) + 63) / 64 * 64;
  Value *list = reserve(c, order_of_turns(plan) + plan.m * 8 + c.target.vector_bytes),
        *memory = reserve(c, most * rows_bytes);
  memory = b.CreateInBoundsGEP(b.getInt8Ty(), memory, b.CreateMul(turn, c.i64(rows_bytes)));
  RowsLeftOut left_out{nullptr, turn, nullptr};
  if (plan.leaves_out) {
    left_out.words = reserve(c, plan.m * 4 + c.target.vector_bytes);
    left_out.any = entry_alloca(c, b.getInt1Ty());
    b.CreateStore(b.getFalse(), left_out.any);
  }
  auto rows = point_at_rows(c, plan, dot.operands[0], steps, loops.rows, {memory, b.getFalse(), b.getTrue()},
                            plan.leaves_out ? &left_out : nullptr);
  if (!rows) return rows.error();
  auto packed = pack_b(c, plan, dot.operands[1], steps);
  if (!packed) return packed.error();
  Value* leaves_out = b.getFalse();
  if (plan.leaves_out) leaves_out = may_leave_out(c, plan, *packed, steps, b.CreateLoad(b.getInt1Ty(), left_out.any));

  Value* fields = b.CreateInBoundsGEP(b.getInt64Ty(), list, b.CreateMul(turn, c.i64(kTurnFields)));
  auto note = [&](TurnField field, Value* value) {
    b.CreateAlignedStore(value, b.CreateConstInBoundsGEP1_64(b.getInt64Ty(), fields, field), llvm::Align(8));
  };
  note(kTurnRows, rows->pointer);
  note(kTurnB, packed->pointer);
  note(kTurnBRow, packed->row);
  note(kTurnBPanel, packed->panel);
  note(kTurnSteps, steps);
  note(kTurnLeavesOut, b.CreateZExt(leaves_out, b.getInt64Ty()));
  Value* count = b.CreateAdd(turn, c.i64(1));
  b.CreateStore(count, waiting);
  Value* more = b.CreateAnd(b.CreateICmpSLT(count, c.i64(most)), b.CreateNot(loops.last));
  return unless(c, b.CreateAnd(more, packed->stays), [&]() -> Result<void> {
    auto sums = accumulator(c, plan, dot.operands[2], dot.results[0]);
    if (!sums) return sums.error();
    auto part_of_list = [&](int64_t offset) { return b.CreateInBoundsGEP(b.getInt8Ty(), list, c.i64(offset)); };
    fill_bytes(c, part_of_list(kTurnZeros), 0, plan.k_units * plan.unit_bytes);
    Value* end = c.i64(plan.m);
    if (sums->rows) end = b.CreateBinaryIntrinsic(llvm::Intrinsic::smin, end, sums->rows);
    order_rows(c, plan, most, left_out.words, end, part_of_list(order_of_turns(plan)));
    OperandB none;
    none.pointer = list;
    none.row = none.panel = none.batch = c.i64(0);
    run_blocks(c, plan, {LayoutA::kTurns, list, rows->block, c.i64(0), c.i64(0)}, none, *sums, count);
    b.CreateStore(c.i64(0), waiting);
    return {};
  });
}

}  // namespace kiln::codegen::cpu

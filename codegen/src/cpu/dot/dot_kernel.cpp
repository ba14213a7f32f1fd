// The micro-kernel of dot: a block of MR × NV vectors of C stays in registers over the whole of K.
#include "cpu/dot/dot_kernel.h"

#include <llvm/IR/IntrinsicsAArch64.h>
#include <llvm/IR/IntrinsicsX86.h>

#include "cpu/dot/dot_blocks.h"
#include "cpu/dot/dot_form.h"
#include "cpu/dot/dot_iterations.h"
#include "cpu/dot/dot_pack.h"
#include "elementwise/conversions.h"

namespace kiln::codegen::cpu {
namespace {

// The variant of an x86 intrinsic for the vector's width.
Value* call_x86(Builder& ir, Value* vector, llvm::Intrinsic::ID of_128, llvm::Intrinsic::ID of_256,
                llvm::Intrinsic::ID of_512, llvm::ArrayRef<Value*> operands) {
  const auto bits = vector->getType()->getPrimitiveSizeInBits().getFixedValue();
  return ir.CreateIntrinsic(bits == 512 ? of_512 : bits == 256 ? of_256 : of_128, operands);
}

Value* multiply_add(Context& ctx, Builder& ir, ElementType sum, Value* x, Value* y, Value* acc) {
  if (!dsl::is_float(sum)) return ir.CreateAdd(ir.CreateMul(x, y), acc);
  if (!ctx.target.has_fma) return ir.CreateFAdd(ir.CreateFMul(x, y), acc);
  return ir.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {x, y, acc});
}

// A vector of units of 32 bits as one of the parts that they have.
Value* parts(Builder& ir, Value* units, llvm::Type* part) {
  auto* vector = llvm::cast<llvm::FixedVectorType>(units->getType());
  const unsigned count = 32 / part->getScalarSizeInBits() * vector->getNumElements();
  return ir.CreateBitCast(units, llvm::FixedVectorType::get(part, count));
}

// Rows lie a distance apart that is known at run time only. One pointer serves three of them: the others are reached by
// the addressing modes base + row and base + 2·row.
constexpr int kRowsOfPointer = 3;
// Steps in an iteration of the loop: its counter and pointers take slots of the multiplications.
constexpr int64_t kSteps = 2;

class MicroKernel {
 public:
  MicroKernel(Context& ctx, const DotBlocking& blocking, LayoutA layout, int rows, bool last, llvm::Function* fn)
      : ctx_(ctx),
        blocking_(blocking),
        layout_(layout),
        rows_(rows),
        vectors_(last ? blocking.last_vectors() : blocking.block.vectors),
        fn_(fn),
        ir_(ctx.module.getContext()) {
    sum_type_ = vector_of(blocking, register_type(ir_.getContext(), dsl::scalar_type(blocking.form.sum)));
    acc_type_ = vector_of(blocking, register_type(ir_.getContext(), dsl::scalar_type(blocking.form.acc)));
    if (!last || !blocking.masks_columns || blocking.n % blocking.lanes == 0) return;
    std::vector<llvm::Constant*> exists;
    for (int64_t i = 0; i < blocking.lanes; ++i) exists.push_back(ir_.getInt1(i < blocking.n % blocking.lanes));
    tail_ = llvm::ConstantVector::get(exists);
  }

  void emit() {
    ir_.SetInsertPoint(llvm::BasicBlock::Create(ir_.getContext(), "entry", fn_));
    if (layout_ == LayoutA::kIterations) load_order();
    ask_for_results();
    std::vector<Value*> accumulators = first_accumulators();
    // A row of what A's flipped bits add, behind the others.
    if (blocking_.corrects_itself) accumulators.resize(accumulators.size() + static_cast<size_t>(vectors_), null_sum());
    if (blocking_.blocks()) accumulators = as_blocks(accumulators);
    if (layout_ == LayoutA::kIterations) {
      emit_list(accumulators);
    } else {
      b_row_ = fn_->getArg(kBRow);
      std::vector<Value*> at = first_units();
      at.push_back(fn_->getArg(kB));
      emit_steps(fn_->getArg(kStepCount), accumulators, at);
    }
    if (blocking_.blocks()) accumulators = as_rows(accumulators);
    if (blocking_.corrects_itself) take_off_corrections(accumulators);
    store_accumulators(accumulators);
    ir_.CreateRetVoid();
  }

 private:
  // The products of one iteration after the other.
  void emit_list(std::vector<Value*>& accumulators) {
    auto* before = ir_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(ir_.getContext(), "turn", fn_);
    auto* after = llvm::BasicBlock::Create(ir_.getContext(), "turns.end", fn_);
    ir_.CreateBr(loop);
    ir_.SetInsertPoint(loop);
    auto* iteration = phi(ctx_.i64(0), before);
    std::vector<llvm::PHINode*> phis;
    for (Value*& sum : accumulators) sum = phis.emplace_back(phi(sum, before));
    Value* fields = byte_gep(fn_->getArg(kA), ir_.CreateMul(iteration, ctx_.i64(8 * kIterationFields)));
    auto field = [&](IterationField at, llvm::Type* type) {
      Value* place = ir_.CreateConstInBoundsGEP1_64(ir_.getInt64Ty(), fields, at);
      return ir_.CreateAlignedLoad(type, place, llvm::Align(8));
    };
    std::vector<Value*> none;
    Value* empty = load_rows_of_iteration(field(kIterationRows, ir_.getPtrTy()));
    Value* needed = ir_.CreateICmpEQ(field(kIterationLeavesOut, ir_.getInt64Ty()), ctx_.i64(0));
    when(ir_.CreateOr(needed, ir_.CreateNot(empty)), accumulators, none, [&] {
      b_row_ = field(kIterationBRow, ir_.getInt64Ty());
      Value* panel = ir_.CreateMul(fn_->getArg(kBRow), field(kIterationBPanel, ir_.getInt64Ty()));
      std::vector<Value*> at = {ctx_.i64(0), byte_gep(field(kIterationB, ir_.getPtrTy()), panel)};
      emit_steps(field(kIterationSteps, ir_.getInt64Ty()), accumulators, at);
    });
    for (size_t i = 0; i < accumulators.size(); ++i) phis[i]->addIncoming(accumulators[i], ir_.GetInsertBlock());
    Value* next = ir_.CreateAdd(iteration, ctx_.i64(1));
    iteration->addIncoming(next, ir_.GetInsertBlock());
    ir_.CreateCondBr(ir_.CreateICmpULT(next, fn_->getArg(kStepCount)), loop, after);
    ir_.SetInsertPoint(after);
  }

  // `steps` of them, or all.
  void emit_steps(Value* steps, std::vector<Value*>& accumulators, std::vector<Value*>& at) {
    const int64_t iterations = blocking_.k_units / kSteps;
    if (blocking_.some_steps) {
      static_assert(kSteps == 2);
      Value* some_iterations = ir_.CreateLShr(steps, ctx_.i64(1));
      if (iterations > 0)
        when(ir_.CreateIsNotNull(some_iterations), accumulators, at,
             [&] { emit_iterations(some_iterations, accumulators, at); });
      when(ir_.CreateTrunc(steps, ir_.getInt1Ty()), accumulators, at, [&] { step(accumulators, at); });
    } else {
      if (iterations > 1) emit_iterations(ctx_.i64(iterations), accumulators, at);
      int64_t k = iterations > 1 ? iterations * kSteps : 0;
      for (; k + kSteps <= blocking_.k_units; k += kSteps) steps_of_iteration(accumulators, at);
      for (; k < blocking_.k_units; ++k) step(accumulators, at);
    }
  }

  // What moves along A: an address, those of some rows, or the distance from the beginnings of all rows.
  std::vector<Value*> first_units() {
    Value *a = fn_->getArg(kA), *distance = fn_->getArg(kADistance);
    if (layout_ == LayoutA::kColumns) return {a};
    if (layout_ == LayoutA::kRows) return row_pointers(a, distance);
    load_rows(a);
    return {ctx_.i64(0)};
  }

  void load_rows(Value* table) {
    for (int row = 0; row < rows_; ++row) {
      Value* at = ir_.CreateConstInBoundsGEP1_64(ir_.getPtrTy(), table, static_cast<uint64_t>(row));
      rows_of_a_.push_back(ir_.CreateAlignedLoad(ir_.getPtrTy(), at, llvm::Align(8)));
    }
  }

  // kIterations: which rows the block consists of.
  void load_order() {
    Value* order =
        byte_gep(fn_->getArg(kA), ir_.CreateAdd(fn_->getArg(kADistance), ctx_.i64(order_of_iterations(blocking_))));
    for (int row = 0; row < rows_; ++row) {
      Value* at = ir_.CreateConstInBoundsGEP1_64(ir_.getInt64Ty(), order, static_cast<uint64_t>(row));
      order_.push_back(ir_.CreateAlignedLoad(ir_.getInt64Ty(), at, llvm::Align(8)));
    }
  }

  // Their addresses in an iteration; gives whether all are zeros (i1). Zeros stand in for some.
  Value* load_rows_of_iteration(Value* table) {
    Value *zeros = byte_gep(fn_->getArg(kA), ctx_.i64(kIterationZeros)), *empty = ir_.getTrue();
    rows_of_a_.clear();
    for (Value* row : order_) {
      Value* at = ir_.CreateInBoundsGEP(ir_.getPtrTy(), table, row);
      Value* pointer = ir_.CreateAlignedLoad(ir_.getPtrTy(), at, llvm::Align(8));
      Value* none = ir_.CreateIsNull(pointer);
      empty = ir_.CreateAnd(empty, none);
      rows_of_a_.push_back(ir_.CreateSelect(none, zeros, pointer));
    }
    return empty;
  }

  // `if (condition) body()`, which changes `accumulators` and `at`.
  void when(Value* condition, std::vector<Value*>& accumulators, std::vector<Value*>& at,
            llvm::function_ref<void()> body) {
    auto* before = ir_.GetInsertBlock();
    auto* then = llvm::BasicBlock::Create(ir_.getContext(), "then", fn_);
    auto* after = llvm::BasicBlock::Create(ir_.getContext(), "after", fn_);
    ir_.CreateCondBr(condition, then, after);
    ir_.SetInsertPoint(then);
    const std::vector<Value*> old_accumulators = accumulators, old_at = at;
    body();
    auto* end = ir_.GetInsertBlock();
    ir_.CreateBr(after);
    ir_.SetInsertPoint(after);
    auto merge = [&](const std::vector<Value*>& from, std::vector<Value*>& values) {
      for (size_t i = 0; i < values.size(); ++i) {
        auto* merged = phi(from[i], before);
        merged->addIncoming(values[i], end);
        values[i] = merged;
      }
    };
    merge(old_accumulators, accumulators);
    merge(old_at, at);
  }

  // A loop over the steps, with the values of `accumulators` and the pointers of `at` going through it.
  void emit_iterations(Value* iterations, std::vector<Value*>& accumulators, std::vector<Value*>& at) {
    auto* before = ir_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(ir_.getContext(), "k", fn_);
    auto* after = llvm::BasicBlock::Create(ir_.getContext(), "store", fn_);
    ir_.CreateBr(loop);
    ir_.SetInsertPoint(loop);
    auto* iteration = phi(ctx_.i64(0), before);
    std::vector<llvm::PHINode*> phis;
    for (auto* values : {&accumulators, &at}) {
      for (Value*& value : *values) value = phis.emplace_back(phi(value, before));
    }
    const bool has_ahead = blocking_.panels_come_ahead() && layout_ != LayoutA::kIterations;
    llvm::PHINode* ahead = has_ahead ? phi(fn_->getArg(kAhead), before) : nullptr;
    if (ahead) {
      cpu::prefetch(ir_, ahead, Into::kL2);
      const int64_t iterations_of_panel = blocking_.k_units / kSteps * blocking_.m / rows_;
      const int64_t distance = (packed_panel_bytes(blocking_) + iterations_of_panel - 1) / iterations_of_panel;
      ahead->addIncoming(ir_.CreateGEP(ir_.getInt8Ty(), ahead, ctx_.i64(distance)), loop);
    }
    steps_of_iteration(accumulators, at);
    for (size_t i = 0; i < phis.size(); ++i) {
      phis[i]->addIncoming(i < accumulators.size() ? accumulators[i] : at[i - accumulators.size()], loop);
    }
    Value* next = ir_.CreateAdd(iteration, ctx_.i64(1));
    iteration->addIncoming(next, loop);
    ir_.CreateCondBr(ir_.CreateICmpULT(next, iterations), loop, after);
    ir_.SetInsertPoint(after);
  }

  Value* byte_gep(Value* pointer, Value* offset) { return ir_.CreateInBoundsGEP(ir_.getInt8Ty(), pointer, offset); }

  llvm::PHINode* phi(Value* value, llvm::BasicBlock* before) {
    auto* out = ir_.CreatePHI(value->getType(), 2);
    out->addIncoming(value, before);
    return out;
  }

  // Every third row's address, and the address of a row by these.
  std::vector<Value*> row_pointers(Value* first, Value* distance) {
    std::vector<Value*> out;
    for (int row = 0; row < rows_; row += kRowsOfPointer) {
      out.push_back(byte_gep(first, ir_.CreateMul(distance, ctx_.i64(row))));
    }
    return out;
  }
  template <class Pointers>
  Value* row_of(const Pointers& pointers, Value* distance, int row) {
    Value* pointer = pointers[static_cast<size_t>(row / kRowsOfPointer)];
    if (row % kRowsOfPointer == 1) pointer = byte_gep(pointer, distance);
    if (row % kRowsOfPointer == 2) pointer = ir_.CreateInBoundsGEP(ir_.getInt16Ty(), pointer, distance);
    return pointer;
  }

  Value* mask_of(int v) const { return v == vectors_ - 1 ? tail_ : nullptr; }
  Value* load_vector(llvm::Type* type, Value* pointer, llvm::Align align, Value* mask) {
    if (!mask) return ir_.CreateAlignedLoad(type, pointer, align);
    return ir_.CreateMaskedLoad(type, pointer, align, mask, llvm::Constant::getNullValue(type));
  }

  // Calls `visit` with the address of each vector of a block of C, and its mask or null.
  template <class Visit>
  void each_vector(Value* block, Value* distance, Visit visit) {
    const auto pointers = order_.empty() ? row_pointers(block, distance) : std::vector<Value*>();
    for (int row = 0; row < rows_; ++row) {
      Value* pointer = order_.empty() ? row_of(pointers, distance, row)
                                      : byte_gep(block, ir_.CreateMul(order_[static_cast<size_t>(row)], distance));
      for (int v = 0; v < vectors_; ++v) {
        visit(byte_gep(pointer,
                       ctx_.i64(static_cast<int64_t>(v) * blocking_.lanes * dsl::info(blocking_.form.acc).bytes)),
              mask_of(v));
      }
    }
  }

  llvm::Align acc_align() const { return llvm::Align(static_cast<uint64_t>(dsl::info(blocking_.form.acc).bytes)); }

  // Zeros or what lies in memory, less the corrections.
  std::vector<Value*> first_accumulators() {
    auto* before = ir_.GetInsertBlock();
    auto* load = llvm::BasicBlock::Create(ir_.getContext(), "load", fn_);
    auto* begin = llvm::BasicBlock::Create(ir_.getContext(), "begin", fn_);
    ir_.CreateCondBr(fn_->getArg(kFresh), begin, load);
    ir_.SetInsertPoint(load);
    std::vector<Value*> loaded, out;
    each_vector(fn_->getArg(kFrom), fn_->getArg(kFromRow), [&](Value* pointer, Value* mask) {
      Value* sum = load_vector(acc_type_, pointer, acc_align(), mask);
      loaded.push_back(acc_type_ == sum_type_ ? sum : ir_.CreateFPExt(sum, sum_type_));
    });
    ir_.CreateBr(begin);
    ir_.SetInsertPoint(begin);
    for (Value* sum : loaded) {
      auto* first = phi(llvm::Constant::getNullValue(sum_type_), before);
      first->addIncoming(sum, load);
      out.push_back(first);
    }
    if (blocking_.form.flip_a && !blocking_.corrects_itself) subtract_corrections(out);
    return out;
  }

  Value* null_sum() const { return llvm::Constant::getNullValue(sum_type_); }

  void take_off_corrections(std::vector<Value*>& accumulators) {
    const size_t count = accumulators.size() - static_cast<size_t>(vectors_);
    for (size_t i = 0; i < count; ++i) {
      accumulators[i] = ir_.CreateSub(accumulators[i], accumulators[count + i % static_cast<size_t>(vectors_)]);
    }
  }

  void subtract_corrections(std::vector<Value*>& accumulators) {
    const auto vectors = static_cast<size_t>(vectors_);
    for (size_t v = 0; v < vectors; ++v) {
      Value* pointer = byte_gep(fn_->getArg(kCorrection), ctx_.i64(static_cast<int64_t>(v) * blocking_.lanes * 4));
      Value* correction = ir_.CreateAlignedLoad(sum_type_, pointer, llvm::Align(4));
      for (size_t i = v; i < accumulators.size(); i += vectors)
        accumulators[i] = ir_.CreateSub(accumulators[i], correction);
    }
  }

  // Stores end the block: their lines are asked for while it is computed.
  void ask_for_results() {
    each_vector(fn_->getArg(kTo), fn_->getArg(kToRow), [&](Value* pointer, Value*) {
      ir_.CreateIntrinsic(llvm::Intrinsic::prefetch, {ir_.getPtrTy()},
                          {pointer, ir_.getInt32(1), ir_.getInt32(3), ir_.getInt32(1)});
    });
  }

  void store_accumulators(const std::vector<Value*>& accumulators) {
    size_t i = 0;
    each_vector(fn_->getArg(kTo), fn_->getArg(kToRow), [&](Value* pointer, Value* mask) {
      Value* sum = accumulators[i++];
      if (acc_type_ != sum_type_) sum = ir_.CreateFPTrunc(sum, acc_type_);
      if (mask) {
        ir_.CreateMaskedStore(sum, pointer, acc_align(), mask);
      } else {
        ir_.CreateAlignedStore(sum, pointer, acc_align());
      }
    });
  }

  Value* column(Value* b_row, int v) {
    Value* pointer = byte_gep(b_row, ctx_.i64(static_cast<int64_t>(v) * blocking_.lanes * blocking_.b_bytes()));
    const llvm::Align align(static_cast<uint64_t>(blocking_.b_bytes()));
    if (!blocking_.widen_b) return load_vector(vector_of(blocking_, blocking_.unit), pointer, align, mask_of(v));
    auto* narrow = vector_of(blocking_, register_type(ir_.getContext(), dsl::scalar_type(blocking_.form.b)));
    return to_f32(ctx_, ir_, blocking_.form.b, load_vector(narrow, pointer, align, mask_of(v)));
  }

  // B is read once, from memory that may be far away, or time and again from L2.
  bool is_read_once() const { return blocking_.m <= blocking_.block.rows; }
  bool prefetches() const {
    constexpr int64_t kNear = 32 * 1024;  // stays in L1
    const bool far = blocking_.k_units * blocking_.panel() * blocking_.b_bytes() > kNear;
    return blocking_.form.group == 1 && (is_read_once() || far);
  }
  // Of B that is read once the panels to come, along its rows: these are streams that the processor follows by itself
  // as well, while rows further down are in its way. Else the rows of this panel.
  void prefetch(Value* b_row) {
    constexpr int64_t kRowsAhead = 8, kBytesAhead = 256, kLine = 64;
    Value* distance = is_read_once() ? ctx_.i64(kBytesAhead) : ir_.CreateMul(b_row_, ctx_.i64(kRowsAhead));
    Value* ahead = byte_gep(b_row, distance);
    for (int64_t at = 0; at < blocking_.panel() * blocking_.b_bytes(); at += kLine) {
      cpu::prefetch(ir_, byte_gep(ahead, ctx_.i64(at)));
    }
  }

  Value* unit_of_a(const std::vector<Value*>& at, int row) {
    if (layout_ == LayoutA::kColumns) return byte_gep(at[0], ctx_.i64(int64_t{row} * blocking_.unit_bytes));
    if (!rows_of_a_.empty()) return byte_gep(rows_of_a_[static_cast<size_t>(row)], at[0]);
    return row_of(at, fn_->getArg(kADistance), row);
  }

  void steps_of_iteration(std::vector<Value*>& accumulators, std::vector<Value*>& at) {
    if (blocking_.blocks()) return step_of_blocks(accumulators, at);
    for (int64_t i = 0; i < kSteps; ++i) step(accumulators, at);
  }

  // The vectors of two rows as blocks, and the other way round; an odd last row is the first of two.
  std::vector<Value*> as_blocks(const std::vector<Value*>& rows) {
    const auto wide = static_cast<size_t>(vectors_);
    std::vector<Value*> out;
    for (size_t row = 0; row < rows.size(); row += 2 * wide) {
      for (size_t v = row; v < row + wide; ++v) {
        Value* lower = v + wide < rows.size() ? rows[v + wide] : null_sum();
        for (Value* block : blocks_of_rows(ir_, blocking_.form, {rows[v], lower})) out.push_back(block);
      }
    }
    return out;
  }
  std::vector<Value*> as_rows(const std::vector<Value*>& blocks) {
    const auto wide = static_cast<size_t>(vectors_);
    std::vector<Value*> out(blocks.size());
    for (size_t i = 0; i < blocks.size(); i += 2) {
      const size_t upper = i / (2 * wide) * 2 * wide + i / 2 % wide;
      const auto rows = rows_of_blocks(ir_, blocking_.form, {blocks[i], blocks[i + 1]});
      out[upper] = rows[0];
      out[upper + wide] = rows[1];
    }
    return out;
  }

  // Two units along K, of A those of two rows at a time; moves the pointers on.
  void step_of_blocks(std::vector<Value*>& accumulators, std::vector<Value*>& at) {
    static_assert(kSteps == 2);
    const llvm::Align align(static_cast<uint64_t>(blocking_.packed_bytes()));
    auto* units = llvm::FixedVectorType::get(ir_.getInt64Ty(), 2);
    std::vector<Value*> rows;
    for (int row = 0; row < rows_; row += 2) {
      Value* both = llvm::PoisonValue::get(units);
      for (int i : {0, 1}) {
        Value* from = unit_of_a(at, std::min(row + i, rows_ - 1));
        both = ir_.CreateInsertElement(both, ir_.CreateAlignedLoad(ir_.getInt64Ty(), from, align),
                                       static_cast<uint64_t>(i));
      }
      rows.push_back(both);
    }
    Value* second = byte_gep(at.back(), b_row_);
    for (int v = 0; v < vectors_; ++v) {
      const auto columns = columns_of_units(ir_, {column(at.back(), v), column(second, v)});
      for (size_t pair = 0; pair < rows.size(); ++pair) {
        for (size_t half : {0, 1}) {
          Value*& sum = accumulators[2 * (pair * static_cast<size_t>(vectors_) + static_cast<size_t>(v)) + half];
          sum = multiply_blocks(ir_, blocking_.form, rows[pair], columns[half], sum);
        }
      }
    }
    for (size_t i = 0; i + 1 < at.size(); ++i) at[i] = byte_gep(at[i], ctx_.i64(kSteps * blocking_.unit_bytes));
    at.back() = byte_gep(second, b_row_);
  }

  // One unit along K; moves the pointers on: those of A, and behind them that of B.
  void step(std::vector<Value*>& accumulators, std::vector<Value*>& at) {
    std::vector<Value*> columns;
    for (int v = 0; v < vectors_; ++v) columns.push_back(column(at.back(), v));
    if (prefetches()) prefetch(at.back());
    size_t i = 0;
    for (int row = 0; row < rows_; ++row) {
      const llvm::Align align(static_cast<uint64_t>(blocking_.packed_bytes()));
      Value* unit = ir_.CreateAlignedLoad(blocking_.unit, unit_of_a(at, row), align);
      Value* lanes = ir_.CreateVectorSplat(static_cast<unsigned>(blocking_.lanes), unit);
      for (Value* y : columns) {
        accumulators[i] = step_forward(ctx_, ir_, blocking_.form, lanes, y, accumulators[i]);
        ++i;
      }
    }
    for (size_t v = 0; i < accumulators.size(); ++v, ++i) {
      Value* flipped = llvm::ConstantInt::get(vector_of(blocking_, ir_.getInt32Ty()), 0x80808080);
      accumulators[i] = step_forward(ctx_, ir_, blocking_.form, flipped, columns[v], accumulators[i]);
    }
    for (Value*& pointer : at) {
      const bool of_b = &pointer == &at.back();
      if (!of_b && !rows_of_a_.empty()) {
        pointer = ir_.CreateAdd(pointer, ctx_.i64(blocking_.unit_bytes));
        continue;
      }
      Value* along =
          layout_ == LayoutA::kColumns ? fn_->getArg(kADistance) : static_cast<Value*>(ctx_.i64(blocking_.unit_bytes));
      pointer = byte_gep(pointer, of_b ? b_row_ : along);
    }
  }

  Context& ctx_;
  const DotBlocking& blocking_;
  LayoutA layout_;
  int rows_, vectors_;
  Value* tail_ = nullptr;          // the lanes of the last vector that exist; null: all
  std::vector<Value*> rows_of_a_;  // kPointers, kIterations: where they begin
  std::vector<Value*> order_;      // kIterations: i64, which they are
  Value* b_row_ = nullptr;
  llvm::Function* fn_;
  Builder ir_;
  llvm::Type *sum_type_, *acc_type_;
};

}  // namespace

void prefetch(Builder& ir, Value* pointer, Into into) {
  ir.CreateIntrinsic(llvm::Intrinsic::prefetch, {ir.getPtrTy()},
                     {pointer, ir.getInt32(0), ir.getInt32(static_cast<uint32_t>(into)), ir.getInt32(1)});
}

namespace {

// usdot's unsigned operand is its first.
Value* multiply_quads_of_arm(Builder& ir, const DotForm& form, Value* x, Value* y, Value* acc) {
  using namespace llvm::Intrinsic;
  const bool same = form.a == form.b, swapped = !same && form.b == ElementType::kU8;
  const ID id = !same ? aarch64_neon_usdot : form.a == ElementType::kI8 ? aarch64_neon_sdot : aarch64_neon_udot;
  Value *left = parts(ir, swapped ? y : x, ir.getInt8Ty()), *right = parts(ir, swapped ? x : y, ir.getInt8Ty());
  return ir.CreateIntrinsic(id, {acc->getType(), left->getType()}, {acc, left, right});
}

// AVX10.2, AVX-VNNI-INT8
Value* multiply_quads_of_one_sign(Builder& ir, const DotForm& form, Value* x, Value* y, Value* acc) {
  using namespace llvm::Intrinsic;
  Value *left = parts(ir, x, ir.getInt8Ty()), *right = parts(ir, y, ir.getInt8Ty());
  if (form.a == ElementType::kI8)
    return call_x86(ir, acc, x86_avx2_vpdpbssd_128, x86_avx2_vpdpbssd_256, x86_avx10_vpdpbssd_512, {acc, left, right});
  return call_x86(ir, acc, x86_avx2_vpdpbuud_128, x86_avx2_vpdpbuud_256, x86_avx10_vpdpbuud_512, {acc, left, right});
}

}  // namespace

Value* step_forward(Context& ctx, Builder& ir, const DotForm& form, Value* x, Value* y, Value* acc) {
  using namespace llvm::Intrinsic;
  switch (form.step) {
    case Step::kPairs: {
      Value *left = parts(ir, x, ir.getInt16Ty()), *right = parts(ir, y, ir.getInt16Ty());
      return ir.CreateAdd(
          acc, call_x86(ir, acc, x86_sse2_pmadd_wd, x86_avx2_pmadd_wd, x86_avx512_pmaddw_d_512, {left, right}));
    }
    case Step::kBf16Pairs: {
      Value *left = parts(ir, x, ir.getBFloatTy()), *right = parts(ir, y, ir.getBFloatTy());
      if (!ctx.target.is_x86)
        return ir.CreateIntrinsic(aarch64_neon_bfdot, {acc->getType(), left->getType()}, {acc, left, right});
      return call_x86(ir, acc, x86_avx512bf16_dpbf16ps_128, x86_avx512bf16_dpbf16ps_256, x86_avx512bf16_dpbf16ps_512,
                      {acc, left, right});
    }
    case Step::kQuads: {
      if (!ctx.target.is_x86) return multiply_quads_of_arm(ir, form, x, y, acc);
      if (form.a == form.b && !form.flip_a) return multiply_quads_of_one_sign(ir, form, x, y, acc);
      Value *left = form.b_unsigned ? y : x, *right = form.b_unsigned ? x : y;
      return call_x86(ir, acc, x86_avx512_vpdpbusd_128, x86_avx512_vpdpbusd_256, x86_avx512_vpdpbusd_512,
                      {acc, parts(ir, left, ir.getInt8Ty()), parts(ir, right, ir.getInt8Ty())});
    }
    case Step::kFma:
    case Step::kBlocks:
    case Step::kTiles:
      break;
  }
  return multiply_add(ctx, ir, form.sum, x, y, acc);
}

llvm::Function* declare_kernel(Context& ctx, const std::string& name) {
  llvm::Type *pointer = ctx.ir.getPtrTy(), *number = ctx.ir.getInt64Ty();
  auto* type = llvm::FunctionType::get(ctx.ir.getVoidTy(),
                                       {pointer, number, pointer, number, pointer, number, pointer, number, pointer,
                                        ctx.ir.getInt1Ty(), pointer, number},
                                       false);
  auto* fn = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, ctx.module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  for (unsigned i : {kA, kB, kCorrection}) fn->addParamAttr(i, llvm::Attribute::NoAlias);
  return fn;
}

llvm::Function* micro_kernel(Context& ctx, const DotBlocking& blocking, LayoutA layout, int rows, bool last) {
  std::string name = layout == LayoutA::kColumns      ? "kiln.dot.columns."
                     : layout == LayoutA::kPointers   ? "kiln.dot.pointers."
                     : layout == LayoutA::kIterations ? "kiln.dot.turns."
                                                      : "kiln.dot.rows.";
  name += std::to_string(rows) + "x" + std::to_string(blocking.block.vectors);
  if (last) name += ".last." + std::to_string(blocking.n);
  for (ElementType type :
       {blocking.form.packed, blocking.widen_b ? blocking.form.b : blocking.form.packed, blocking.form.acc})
    name += "." + std::string(dsl::info(type).name);
  if (blocking.form.group > 1 && (!ctx.target.is_x86 || ctx.target.has_vnni_signs))
    name += "." + std::string(dsl::info(blocking.form.a).name) + "." + std::string(dsl::info(blocking.form.b).name);
  if (blocking.some_steps) name += ".most";
  if (blocking.corrects_itself) name += ".corrected";
  for (int64_t number :
       {static_cast<int64_t>(blocking.form.step), blocking.k_units, blocking.panels_come_ahead() ? blocking.m : 0,
        int64_t{blocking.form.flip_a} + 2 * blocking.form.b_unsigned + 4 * (blocking.m <= blocking.block.rows)})
    name += "." + std::to_string(number);
  if (auto* existing = ctx.module.getFunction(name)) return existing;
  auto* fn = declare_kernel(ctx, name);
  MicroKernel(ctx, blocking, layout, rows, last, fn).emit();
  return fn;
}

}  // namespace kiln::codegen::cpu

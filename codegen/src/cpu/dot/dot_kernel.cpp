// The micro-kernel of dot: a block of MR × NV vectors of C stays in registers over the whole of K.
#include "cpu/dot/dot_kernel.h"

#include <llvm/IR/IntrinsicsX86.h>

#include "cpu/dot/dot_form.h"
#include "cpu/dot/dot_pack.h"
#include "cpu/dot/dot_turns.h"
#include "elementwise/conversions.h"

namespace kiln::codegen::cpu {
namespace {

// The variant of an x86 intrinsic for the vector's width.
Value* call_x86(Builder& b, Value* vector, llvm::Intrinsic::ID of_128, llvm::Intrinsic::ID of_256,
                llvm::Intrinsic::ID of_512, llvm::ArrayRef<Value*> operands) {
  const auto bits = vector->getType()->getPrimitiveSizeInBits().getFixedValue();
  return b.CreateIntrinsic(bits == 512 ? of_512 : bits == 256 ? of_256 : of_128, {}, operands);
}

Value* multiply_add(Context& c, Builder& b, ElementType sum, Value* x, Value* y, Value* acc) {
  if (!dsl::is_float(sum)) return b.CreateAdd(b.CreateMul(x, y), acc);
  if (!c.target.has_fma) return b.CreateFAdd(b.CreateFMul(x, y), acc);
  return b.CreateIntrinsic(llvm::Intrinsic::fma, {acc->getType()}, {x, y, acc});
}

// A vector of units as one of their halves.
Value* halves(Builder& b, Value* units, llvm::Type* half) {
  auto* vector = llvm::cast<llvm::FixedVectorType>(units->getType());
  return b.CreateBitCast(units, llvm::FixedVectorType::get(half, 2 * vector->getNumElements()));
}

// Rows lie a distance apart that is known at run time only. One pointer serves three of them: the others are reached by
// the addressing modes base + row and base + 2·row.
constexpr int kRowsOfPointer = 3;
// Steps in a turn of the loop: its counter and pointers take slots of the multiplications.
constexpr int64_t kSteps = 2;

class MicroKernel {
 public:
  MicroKernel(Context& c, const DotPlan& plan, LayoutA layout, int rows, bool last, llvm::Function* fn)
      : c_(c),
        plan_(plan),
        layout_(layout),
        rows_(rows),
        vectors_(last ? plan.last_vectors() : plan.block.vectors),
        fn_(fn),
        b_(c.module.getContext()) {
    sum_type_ = vector_of(plan, register_type(b_.getContext(), dsl::scalar_type(plan.form.sum)));
    acc_type_ = vector_of(plan, register_type(b_.getContext(), dsl::scalar_type(plan.form.acc)));
    if (!last || !plan.masks_columns || plan.n % plan.lanes == 0) return;
    std::vector<llvm::Constant*> exists;
    for (int64_t i = 0; i < plan.lanes; ++i) exists.push_back(b_.getInt1(i < plan.n % plan.lanes));
    tail_ = llvm::ConstantVector::get(exists);
  }

  void emit() {
    b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", fn_));
    if (layout_ == LayoutA::kTurns) load_order();
    ask_for_results();
    std::vector<Value*> sums = first_sums();
    // A row of what A's flipped bits add, behind the others.
    if (plan_.corrects_itself) sums.resize(sums.size() + static_cast<size_t>(vectors_), null_sum());
    if (layout_ == LayoutA::kTurns) {
      emit_list(sums);
    } else {
      b_row_ = fn_->getArg(kBRow);
      std::vector<Value*> at = first_units();
      at.push_back(fn_->getArg(kB));
      emit_steps(fn_->getArg(kStepCount), sums, at);
    }
    if (plan_.corrects_itself) take_off_corrections(sums);
    store_sums(sums);
    b_.CreateRetVoid();
  }

 private:
  // The products of one turn after the other.
  void emit_list(std::vector<Value*>& sums) {
    auto* before = b_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(b_.getContext(), "turn", fn_);
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "turns.end", fn_);
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    auto* turn = phi(c_.i64(0), before);
    std::vector<llvm::PHINode*> phis;
    for (Value*& sum : sums) sum = phis.emplace_back(phi(sum, before));
    Value* fields = byte_gep(fn_->getArg(kA), b_.CreateMul(turn, c_.i64(8 * kTurnFields)));
    auto field = [&](TurnField at, llvm::Type* type) {
      Value* place = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), fields, at);
      return b_.CreateAlignedLoad(type, place, llvm::Align(8));
    };
    std::vector<Value*> none;
    Value* empty = load_rows_of_turn(field(kTurnRows, b_.getPtrTy()));
    Value* needed = b_.CreateICmpEQ(field(kTurnLeavesOut, b_.getInt64Ty()), c_.i64(0));
    when(b_.CreateOr(needed, b_.CreateNot(empty)), sums, none, [&] {
      b_row_ = field(kTurnBRow, b_.getInt64Ty());
      Value* panel = b_.CreateMul(fn_->getArg(kBRow), field(kTurnBPanel, b_.getInt64Ty()));
      std::vector<Value*> at = {c_.i64(0), byte_gep(field(kTurnB, b_.getPtrTy()), panel)};
      emit_steps(field(kTurnSteps, b_.getInt64Ty()), sums, at);
    });
    for (size_t i = 0; i < sums.size(); ++i) phis[i]->addIncoming(sums[i], b_.GetInsertBlock());
    Value* next = b_.CreateAdd(turn, c_.i64(1));
    turn->addIncoming(next, b_.GetInsertBlock());
    b_.CreateCondBr(b_.CreateICmpULT(next, fn_->getArg(kStepCount)), loop, after);
    b_.SetInsertPoint(after);
  }

  // `steps` of them, or all.
  void emit_steps(Value* steps, std::vector<Value*>& sums, std::vector<Value*>& at) {
    const int64_t turns = plan_.k_units / kSteps;
    if (plan_.some_steps) {
      static_assert(kSteps == 2);
      Value* some_turns = b_.CreateLShr(steps, c_.i64(1));
      if (turns > 0) when(b_.CreateIsNotNull(some_turns), sums, at, [&] { emit_turns(some_turns, sums, at); });
      when(b_.CreateTrunc(steps, b_.getInt1Ty()), sums, at, [&] { step(sums, at); });
    } else {
      if (turns > 1) emit_turns(c_.i64(turns), sums, at);
      for (int64_t k = turns > 1 ? turns * kSteps : 0; k < plan_.k_units; ++k) step(sums, at);
    }
  }

  // What moves along A: an address, those of some rows, or the distance from the beginnings of all rows.
  std::vector<Value*> first_units() {
    Value *a = fn_->getArg(kA), *distance = fn_->getArg(kADistance);
    if (layout_ == LayoutA::kColumns) return {a};
    if (layout_ == LayoutA::kRows) return row_pointers(a, distance);
    load_rows(a);
    return {c_.i64(0)};
  }

  void load_rows(Value* table) {
    for (int row = 0; row < rows_; ++row) {
      Value* at = b_.CreateConstInBoundsGEP1_64(b_.getPtrTy(), table, static_cast<uint64_t>(row));
      rows_of_a_.push_back(b_.CreateAlignedLoad(b_.getPtrTy(), at, llvm::Align(8)));
    }
  }

  // kTurns: which rows the block consists of.
  void load_order() {
    Value* order = byte_gep(fn_->getArg(kA), b_.CreateAdd(fn_->getArg(kADistance), c_.i64(order_of_turns(plan_))));
    for (int row = 0; row < rows_; ++row) {
      Value* at = b_.CreateConstInBoundsGEP1_64(b_.getInt64Ty(), order, static_cast<uint64_t>(row));
      order_.push_back(b_.CreateAlignedLoad(b_.getInt64Ty(), at, llvm::Align(8)));
    }
  }

  // Their addresses in a turn; gives whether all are zeros (i1). Zeros stand in for some.
  Value* load_rows_of_turn(Value* table) {
    Value *zeros = byte_gep(fn_->getArg(kA), c_.i64(kTurnZeros)), *empty = b_.getTrue();
    rows_of_a_.clear();
    for (Value* row : order_) {
      Value* at = b_.CreateInBoundsGEP(b_.getPtrTy(), table, row);
      Value* pointer = b_.CreateAlignedLoad(b_.getPtrTy(), at, llvm::Align(8));
      Value* none = b_.CreateIsNull(pointer);
      empty = b_.CreateAnd(empty, none);
      rows_of_a_.push_back(b_.CreateSelect(none, zeros, pointer));
    }
    return empty;
  }

  // `if (condition) body()`, which changes `sums` and `at`.
  void when(Value* condition, std::vector<Value*>& sums, std::vector<Value*>& at, llvm::function_ref<void()> body) {
    auto* before = b_.GetInsertBlock();
    auto* then = llvm::BasicBlock::Create(b_.getContext(), "then", fn_);
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "after", fn_);
    b_.CreateCondBr(condition, then, after);
    b_.SetInsertPoint(then);
    const std::vector<Value*> old_sums = sums, old_at = at;
    body();
    auto* end = b_.GetInsertBlock();
    b_.CreateBr(after);
    b_.SetInsertPoint(after);
    auto merge = [&](const std::vector<Value*>& from, std::vector<Value*>& values) {
      for (size_t i = 0; i < values.size(); ++i) {
        auto* merged = phi(from[i], before);
        merged->addIncoming(values[i], end);
        values[i] = merged;
      }
    };
    merge(old_sums, sums);
    merge(old_at, at);
  }

  // A loop over the steps, with the values of `sums` and the pointers of `at` going through it.
  void emit_turns(Value* turns, std::vector<Value*>& sums, std::vector<Value*>& at) {
    auto* before = b_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(b_.getContext(), "k", fn_);
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "store", fn_);
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    auto* turn = phi(c_.i64(0), before);
    std::vector<llvm::PHINode*> phis;
    for (auto* values : {&sums, &at}) {
      for (Value*& value : *values) value = phis.emplace_back(phi(value, before));
    }
    const bool has_ahead = plan_.panels_come_ahead() && layout_ != LayoutA::kTurns;
    llvm::PHINode* ahead = has_ahead ? phi(fn_->getArg(kAhead), before) : nullptr;
    if (ahead) {
      cpu::prefetch(b_, ahead, Into::kL2);
      const int64_t turns_of_panel = plan_.k_units / kSteps * plan_.m / rows_;
      const int64_t distance = (packed_panel_bytes(plan_) + turns_of_panel - 1) / turns_of_panel;
      ahead->addIncoming(b_.CreateGEP(b_.getInt8Ty(), ahead, c_.i64(distance)), loop);
    }
    for (int64_t i = 0; i < kSteps; ++i) step(sums, at);
    for (size_t i = 0; i < phis.size(); ++i) {
      phis[i]->addIncoming(i < sums.size() ? sums[i] : at[i - sums.size()], loop);
    }
    Value* next = b_.CreateAdd(turn, c_.i64(1));
    turn->addIncoming(next, loop);
    b_.CreateCondBr(b_.CreateICmpULT(next, turns), loop, after);
    b_.SetInsertPoint(after);
  }

  Value* byte_gep(Value* pointer, Value* offset) { return b_.CreateInBoundsGEP(b_.getInt8Ty(), pointer, offset); }

  llvm::PHINode* phi(Value* value, llvm::BasicBlock* before) {
    auto* out = b_.CreatePHI(value->getType(), 2);
    out->addIncoming(value, before);
    return out;
  }

  // Every third row's address, and the address of a row by these.
  std::vector<Value*> row_pointers(Value* first, Value* distance) {
    std::vector<Value*> out;
    for (int row = 0; row < rows_; row += kRowsOfPointer) {
      out.push_back(byte_gep(first, b_.CreateMul(distance, c_.i64(row))));
    }
    return out;
  }
  template <class Pointers>
  Value* row_of(const Pointers& pointers, Value* distance, int row) {
    Value* pointer = pointers[static_cast<size_t>(row / kRowsOfPointer)];
    if (row % kRowsOfPointer == 1) pointer = byte_gep(pointer, distance);
    if (row % kRowsOfPointer == 2) pointer = b_.CreateInBoundsGEP(b_.getInt16Ty(), pointer, distance);
    return pointer;
  }

  Value* mask_of(int v) const { return v == vectors_ - 1 ? tail_ : nullptr; }
  Value* load_vector(llvm::Type* type, Value* pointer, llvm::Align align, Value* mask) {
    if (!mask) return b_.CreateAlignedLoad(type, pointer, align);
    return b_.CreateMaskedLoad(type, pointer, align, mask, llvm::Constant::getNullValue(type));
  }

  // Calls `visit` with the address of each vector of a block of C, and its mask or null.
  template <class Visit>
  void each_vector(Value* block, Value* distance, Visit visit) {
    const auto pointers = order_.empty() ? row_pointers(block, distance) : std::vector<Value*>();
    for (int row = 0; row < rows_; ++row) {
      Value* pointer = order_.empty() ? row_of(pointers, distance, row)
                                      : byte_gep(block, b_.CreateMul(order_[static_cast<size_t>(row)], distance));
      for (int v = 0; v < vectors_; ++v) {
        visit(byte_gep(pointer, c_.i64(static_cast<int64_t>(v) * plan_.lanes * dsl::info(plan_.form.acc).bytes)),
              mask_of(v));
      }
    }
  }

  llvm::Align acc_align() const { return llvm::Align(static_cast<uint64_t>(dsl::info(plan_.form.acc).bytes)); }

  // Zeros or what lies in memory, less the corrections.
  std::vector<Value*> first_sums() {
    auto* before = b_.GetInsertBlock();
    auto* load = llvm::BasicBlock::Create(b_.getContext(), "load", fn_);
    auto* begin = llvm::BasicBlock::Create(b_.getContext(), "begin", fn_);
    b_.CreateCondBr(fn_->getArg(kFresh), begin, load);
    b_.SetInsertPoint(load);
    std::vector<Value*> loaded, out;
    each_vector(fn_->getArg(kFrom), fn_->getArg(kFromRow), [&](Value* pointer, Value* mask) {
      Value* sum = load_vector(acc_type_, pointer, acc_align(), mask);
      loaded.push_back(acc_type_ == sum_type_ ? sum : b_.CreateFPExt(sum, sum_type_));
    });
    b_.CreateBr(begin);
    b_.SetInsertPoint(begin);
    for (Value* sum : loaded) {
      auto* first = phi(llvm::Constant::getNullValue(sum_type_), before);
      first->addIncoming(sum, load);
      out.push_back(first);
    }
    if (plan_.form.flip_a && !plan_.corrects_itself) subtract_corrections(out);
    return out;
  }

  Value* null_sum() const { return llvm::Constant::getNullValue(sum_type_); }

  void take_off_corrections(std::vector<Value*>& sums) {
    const size_t count = sums.size() - static_cast<size_t>(vectors_);
    for (size_t i = 0; i < count; ++i) {
      sums[i] = b_.CreateSub(sums[i], sums[count + i % static_cast<size_t>(vectors_)]);
    }
  }

  void subtract_corrections(std::vector<Value*>& sums) {
    const auto vectors = static_cast<size_t>(vectors_);
    for (size_t v = 0; v < vectors; ++v) {
      Value* pointer = byte_gep(fn_->getArg(kCorrection), c_.i64(static_cast<int64_t>(v) * plan_.lanes * 4));
      Value* correction = b_.CreateAlignedLoad(sum_type_, pointer, llvm::Align(4));
      for (size_t i = v; i < sums.size(); i += vectors) sums[i] = b_.CreateSub(sums[i], correction);
    }
  }

  // Stores end the block: their lines are asked for while it is computed.
  void ask_for_results() {
    each_vector(fn_->getArg(kTo), fn_->getArg(kToRow), [&](Value* pointer, Value*) {
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                         {pointer, b_.getInt32(1), b_.getInt32(3), b_.getInt32(1)});
    });
  }

  void store_sums(const std::vector<Value*>& sums) {
    size_t i = 0;
    each_vector(fn_->getArg(kTo), fn_->getArg(kToRow), [&](Value* pointer, Value* mask) {
      Value* sum = sums[i++];
      if (acc_type_ != sum_type_) sum = b_.CreateFPTrunc(sum, acc_type_);
      if (mask) {
        b_.CreateMaskedStore(sum, pointer, acc_align(), mask);
      } else {
        b_.CreateAlignedStore(sum, pointer, acc_align());
      }
    });
  }

  Value* column(Value* b_row, int v) {
    Value* pointer = byte_gep(b_row, c_.i64(static_cast<int64_t>(v) * plan_.lanes * plan_.b_bytes()));
    const llvm::Align align(static_cast<uint64_t>(plan_.b_bytes()));
    if (!plan_.widen_b) return load_vector(vector_of(plan_, plan_.unit), pointer, align, mask_of(v));
    auto* narrow = vector_of(plan_, register_type(b_.getContext(), dsl::scalar_type(plan_.form.b)));
    return to_f32(c_, b_, plan_.form.b, load_vector(narrow, pointer, align, mask_of(v)));
  }

  // B is read once, from memory that may be far away, or time and again from L2.
  bool is_read_once() const { return plan_.m <= plan_.block.rows; }
  bool prefetches() const {
    constexpr int64_t kNear = 32 * 1024;  // stays in L1
    const bool far = plan_.k_units * plan_.panel() * plan_.b_bytes() > kNear;
    return plan_.form.group == 1 && (is_read_once() || far);
  }
  // Of B that is read once the panels to come, along its rows: these are streams that the processor follows by itself
  // as well, while rows further down are in its way. Else the rows of this panel.
  void prefetch(Value* b_row) {
    constexpr int64_t kRowsAhead = 8, kBytesAhead = 256, kLine = 64;
    Value* distance = is_read_once() ? c_.i64(kBytesAhead) : b_.CreateMul(b_row_, c_.i64(kRowsAhead));
    Value* ahead = byte_gep(b_row, distance);
    for (int64_t at = 0; at < plan_.panel() * plan_.b_bytes(); at += kLine) {
      cpu::prefetch(b_, byte_gep(ahead, c_.i64(at)));
    }
  }

  Value* unit_of_a(const std::vector<Value*>& at, int row) {
    if (layout_ == LayoutA::kColumns) return byte_gep(at[0], c_.i64(int64_t{row} * plan_.unit_bytes));
    if (!rows_of_a_.empty()) return byte_gep(rows_of_a_[static_cast<size_t>(row)], at[0]);
    return row_of(at, fn_->getArg(kADistance), row);
  }

  // One unit along K; moves the pointers on: those of A, and behind them that of B.
  void step(std::vector<Value*>& sums, std::vector<Value*>& at) {
    std::vector<Value*> columns;
    for (int v = 0; v < vectors_; ++v) columns.push_back(column(at.back(), v));
    if (prefetches()) prefetch(at.back());
    size_t i = 0;
    for (int row = 0; row < rows_; ++row) {
      const llvm::Align align(static_cast<uint64_t>(plan_.packed_bytes()));
      Value* unit = b_.CreateAlignedLoad(plan_.unit, unit_of_a(at, row), align);
      Value* lanes = b_.CreateVectorSplat(static_cast<unsigned>(plan_.lanes), unit);
      for (Value* y : columns) {
        sums[i] = step_forward(c_, b_, plan_.form, lanes, y, sums[i]);
        ++i;
      }
    }
    for (size_t v = 0; i < sums.size(); ++v, ++i) {
      Value* flipped = llvm::ConstantInt::get(vector_of(plan_, b_.getInt32Ty()), 0x80808080);
      sums[i] = step_forward(c_, b_, plan_.form, flipped, columns[v], sums[i]);
    }
    for (Value*& pointer : at) {
      const bool of_b = &pointer == &at.back();
      if (!of_b && !rows_of_a_.empty()) {
        pointer = b_.CreateAdd(pointer, c_.i64(plan_.unit_bytes));
        continue;
      }
      Value* along =
          layout_ == LayoutA::kColumns ? fn_->getArg(kADistance) : static_cast<Value*>(c_.i64(plan_.unit_bytes));
      pointer = byte_gep(pointer, of_b ? b_row_ : along);
    }
  }

  Context& c_;
  const DotPlan& plan_;
  LayoutA layout_;
  int rows_, vectors_;
  Value* tail_ = nullptr;          // the lanes of the last vector that exist; null: all
  std::vector<Value*> rows_of_a_;  // kPointers, kTurns: where they begin
  std::vector<Value*> order_;      // kTurns: i64, which they are
  Value* b_row_ = nullptr;
  llvm::Function* fn_;
  Builder b_;
  llvm::Type *sum_type_, *acc_type_;
};

}  // namespace

void prefetch(Builder& b, Value* pointer, Into into) {
  b.CreateIntrinsic(llvm::Intrinsic::prefetch, {b.getPtrTy()},
                    {pointer, b.getInt32(0), b.getInt32(static_cast<uint32_t>(into)), b.getInt32(1)});
}

Value* step_forward(Context& c, Builder& b, const DotForm& form, Value* x, Value* y, Value* acc) {
  using namespace llvm::Intrinsic;
  switch (form.step) {
    case Step::kPairs: {
      Value *left = halves(b, x, b.getInt16Ty()), *right = halves(b, y, b.getInt16Ty());
      return b.CreateAdd(
          acc, call_x86(b, acc, x86_sse2_pmadd_wd, x86_avx2_pmadd_wd, x86_avx512_pmaddw_d_512, {left, right}));
    }
    case Step::kBf16Pairs: {
      Value *left = halves(b, x, b.getBFloatTy()), *right = halves(b, y, b.getBFloatTy());
      return call_x86(b, acc, x86_avx512bf16_dpbf16ps_128, x86_avx512bf16_dpbf16ps_256, x86_avx512bf16_dpbf16ps_512,
                      {acc, left, right});
    }
    case Step::kQuads: {
      Value *left = form.b_unsigned ? y : x, *right = form.b_unsigned ? x : y;
      return call_x86(b, acc, x86_avx512_vpdpbusd_128, x86_avx512_vpdpbusd_256, x86_avx512_vpdpbusd_512,
                      {acc, left, right});
    }
    case Step::kFma:
    case Step::kTiles:
      break;
  }
  return multiply_add(c, b, form.sum, x, y, acc);
}

llvm::Function* declare_kernel(Context& c, const std::string& name) {
  llvm::Type *pointer = c.b.getPtrTy(), *number = c.b.getInt64Ty();
  auto* type = llvm::FunctionType::get(
      c.b.getVoidTy(),
      {pointer, number, pointer, number, pointer, number, pointer, number, pointer, c.b.getInt1Ty(), pointer, number},
      false);
  auto* fn = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, c.module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  for (unsigned i : {kA, kB, kCorrection}) fn->addParamAttr(i, llvm::Attribute::NoAlias);
  return fn;
}

llvm::Function* micro_kernel(Context& c, const DotPlan& plan, LayoutA layout, int rows, bool last) {
  std::string name = layout == LayoutA::kColumns    ? "kiln.dot.columns."
                     : layout == LayoutA::kPointers ? "kiln.dot.pointers."
                     : layout == LayoutA::kTurns    ? "kiln.dot.turns."
                                                    : "kiln.dot.rows.";
  name += std::to_string(rows) + "x" + std::to_string(plan.block.vectors);
  if (last) name += ".last." + std::to_string(plan.n);
  for (ElementType type : {plan.form.packed, plan.widen_b ? plan.form.b : plan.form.packed, plan.form.acc})
    name += "." + std::string(dsl::info(type).name);
  if (plan.some_steps) name += ".most";
  if (plan.corrects_itself) name += ".corrected";
  for (int64_t number : {static_cast<int64_t>(plan.form.step), plan.k_units, plan.panels_come_ahead() ? plan.m : 0,
                         int64_t{plan.form.flip_a} + 2 * plan.form.b_unsigned + 4 * (plan.m <= plan.block.rows)})
    name += "." + std::to_string(number);
  if (auto* existing = c.module.getFunction(name)) return existing;
  auto* fn = declare_kernel(c, name);
  MicroKernel(c, plan, layout, rows, last, fn).emit();
  return fn;
}

}  // namespace kiln::codegen::cpu

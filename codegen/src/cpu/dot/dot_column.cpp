// A product with a single column: the lanes lie along K, where both operands lie one number behind the other, and are
// added up at the end. A vector of columns would use one of its lanes.
//
//   c[m] = Σ_k a[m][k]·b[k]        4 rows of A at a time, 2 vectors of each
//
// A single row times a B that lies by columns (x·Wᵀ) is the same, with these columns for rows.
#include "cpu/dot/dot_column.h"

#include "cpu/dot/dot_kernel.h"
#include "elementwise/conversions.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kSums = 8;  // vectors: as many as hide the latency of an addition

class ColumnKernel {
 public:
  ColumnKernel(Context& c, const DotPlan& plan, int rows, llvm::Function* fn)
      : c_(c),
        plan_(plan),
        rows_(rows),
        vectors_(std::max(kSums / rows, 1)),
        lanes_(c.target.vector_bytes / plan.unit_bytes),
        fn_(fn),
        b_(c.module.getContext()) {
    vector_ = llvm::FixedVectorType::get(plan.unit, static_cast<unsigned>(lanes_));
  }

  void emit() {
    b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", fn_));
    for (int i = 0; i < rows_ * vectors_; ++i) {
      sums_.push_back(b_.CreateAlloca(vector_));
      b_.CreateStore(llvm::Constant::getNullValue(vector_), sums_.back());
    }
    auto none = [](llvm::Instruction*) {};
    Value* steps = fn_->getArg(kStepCount);
    auto whole = [&](int64_t of) { return b_.CreateAnd(steps, c_.i64(-of)); };
    Value *turns_end = whole(int64_t{lanes_} * vectors_), *vectors_end = whole(lanes_);
    emit_loop(b_, c_.i64(0), turns_end, c_.i64(int64_t{lanes_} * vectors_), "turn", none,
              [&](Value* k) { add(k, vectors_, nullptr); });
    if (vectors_ > 1) {
      emit_loop(b_, turns_end, vectors_end, c_.i64(lanes_), "vector", none, [&](Value* k) { add(k, 1, nullptr); });
    }
    Value* rest = b_.CreateSub(steps, vectors_end);
    emit_if(b_, b_.CreateIsNotNull(rest), "rest", none, [&] { add(vectors_end, 1, first_lanes(rest)); });
    finish();
    b_.CreateRetVoid();
  }

 private:
  Value* at(Value* pointer, Value* index, int64_t distance) {
    return b_.CreateInBoundsGEP(b_.getInt8Ty(), pointer, b_.CreateMul(index, c_.i64(distance)));
  }

  Value* first_lanes(Value* count) {
    std::vector<llvm::Constant*> numbers;
    for (int i = 0; i < lanes_; ++i) numbers.push_back(b_.getInt64(static_cast<uint64_t>(i)));
    return b_.CreateICmpULT(llvm::ConstantVector::get(numbers),
                            b_.CreateVectorSplat(static_cast<unsigned>(lanes_), count));
  }

  Value* load(llvm::Type* vector, int bytes, Value* pointer, Value* mask) {
    const llvm::Align align(static_cast<uint64_t>(bytes));
    if (!mask) return b_.CreateAlignedLoad(vector, pointer, align);
    return b_.CreateMaskedLoad(vector, pointer, align, mask, llvm::Constant::getNullValue(vector));
  }

  Value* load_row(int row, Value* step, Value* mask) {
    Value* begin = at(fn_->getArg(kA), fn_->getArg(kADistance), row);
    if (!plan_.widen_rows) return load(vector_, plan_.unit_bytes, at(begin, step, plan_.unit_bytes), mask);
    const int bytes = dsl::info(plan_.form.b).bytes;
    llvm::Type* narrow = register_type(b_.getContext(), dsl::scalar_type(plan_.form.b));
    auto* vector = llvm::FixedVectorType::get(narrow, static_cast<unsigned>(lanes_));
    return to_f32(c_, b_, plan_.form.b, load(vector, bytes, at(begin, step, bytes), mask));
  }

  // Products from step k on.
  void add(Value* k, int vectors, Value* mask) {
    for (int v = 0; v < vectors; ++v) {
      Value* step = b_.CreateAdd(k, c_.i64(int64_t{v} * lanes_));
      Value* y = load(vector_, plan_.unit_bytes, at(fn_->getArg(kB), step, plan_.unit_bytes), mask);
      for (int row = 0; row < rows_; ++row) {
        Value* x = load_row(row, step, mask);
        llvm::AllocaInst* sum =
            sums_[static_cast<size_t>(row) * static_cast<size_t>(vectors_) + static_cast<size_t>(v)];
        b_.CreateStore(step_forward(c_, b_, plan_.form, x, y, b_.CreateLoad(vector_, sum)), sum);
      }
    }
  }

  Value* total(int row) {
    const size_t first = static_cast<size_t>(row) * static_cast<size_t>(vectors_);
    Value* sum = b_.CreateLoad(vector_, sums_[first]);
    for (size_t v = 1; v < static_cast<size_t>(vectors_); ++v) {
      sum = b_.CreateFAdd(sum, b_.CreateLoad(vector_, sums_[first + v]));
    }
    for (int half = lanes_ / 2; half > 0; half /= 2) {
      llvm::SmallVector<int, 16> low, high;
      for (int i = 0; i < half; ++i) {
        low.push_back(i);
        high.push_back(half + i);
      }
      sum = b_.CreateFAdd(b_.CreateShuffleVector(sum, low), b_.CreateShuffleVector(sum, high));
    }
    return b_.CreateExtractElement(sum, uint64_t{0});
  }

  void finish() {
    auto none = [](llvm::Instruction*) {};
    std::vector<llvm::AllocaInst*> before;
    for (int row = 0; row < rows_; ++row) {
      before.push_back(b_.CreateAlloca(plan_.unit));
      b_.CreateStore(llvm::Constant::getNullValue(plan_.unit), before.back());
    }
    emit_if(b_, b_.CreateNot(fn_->getArg(kFresh)), "load", none, [&] {
      for (int row = 0; row < rows_; ++row) {
        Value* from = at(fn_->getArg(kFrom), fn_->getArg(kFromRow), row);
        b_.CreateStore(b_.CreateLoad(plan_.unit, from), before[static_cast<size_t>(row)]);
      }
    });
    for (int row = 0; row < rows_; ++row) {
      Value* sum = b_.CreateFAdd(b_.CreateLoad(plan_.unit, before[static_cast<size_t>(row)]), total(row));
      b_.CreateStore(sum, at(fn_->getArg(kTo), fn_->getArg(kToRow), row));
    }
  }

  Context& c_;
  const DotPlan& plan_;
  int rows_, vectors_, lanes_;
  llvm::Function* fn_;
  Builder b_;
  llvm::FixedVectorType* vector_;
  std::vector<llvm::AllocaInst*> sums_;  // of a row after the other; promoted to registers
};

}  // namespace

llvm::Function* column_kernel(Context& c, const DotPlan& plan, int rows) {
  const ElementType rows_of = plan.widen_rows ? plan.form.b : plan.form.sum;
  const std::string name = "kiln.dot.column." + std::to_string(rows) + "." + std::string(dsl::info(rows_of).name);
  if (auto* existing = c.module.getFunction(name)) return existing;
  auto* fn = declare_kernel(c, name);
  ColumnKernel(c, plan, rows, fn).emit();
  return fn;
}

}  // namespace kiln::codegen::cpu

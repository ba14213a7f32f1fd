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

constexpr int kAccumulators = 8;  // vectors: as many as hide the latency of an addition

class ColumnKernel {
 public:
  ColumnKernel(Context& ctx, const DotBlocking& blocking, int rows, llvm::Function* fn)
      : ctx_(ctx),
        blocking_(blocking),
        rows_(rows),
        vectors_(std::max(kAccumulators / rows, 1)),
        lanes_(ctx.target.vector_bytes / blocking.unit_bytes),
        fn_(fn),
        ir_(ctx.module.getContext()) {
    vector_ = llvm::FixedVectorType::get(blocking.unit, static_cast<unsigned>(lanes_));
  }

  void emit() {
    ir_.SetInsertPoint(llvm::BasicBlock::Create(ir_.getContext(), "entry", fn_));
    for (int i = 0; i < rows_ * vectors_; ++i) {
      accumulators_.push_back(ir_.CreateAlloca(vector_));
      ir_.CreateStore(llvm::Constant::getNullValue(vector_), accumulators_.back());
    }
    auto none = [](llvm::Instruction*) {};
    Value* steps = fn_->getArg(kStepCount);
    auto whole = [&](int64_t of) { return ir_.CreateAnd(steps, ctx_.i64(-of)); };
    Value *iterations_end = whole(int64_t{lanes_} * vectors_), *vectors_end = whole(lanes_);
    emit_loop(ir_, ctx_.i64(0), iterations_end, ctx_.i64(int64_t{lanes_} * vectors_), "turn", none,
              [&](Value* k) { add(k, vectors_, nullptr); });
    if (vectors_ > 1) {
      emit_loop(ir_, iterations_end, vectors_end, ctx_.i64(lanes_), "vector", none,
                [&](Value* k) { add(k, 1, nullptr); });
    }
    Value* rest = ir_.CreateSub(steps, vectors_end);
    emit_if(ir_, ir_.CreateIsNotNull(rest), "rest", none, [&] { add(vectors_end, 1, first_lanes(rest)); });
    finish();
    ir_.CreateRetVoid();
  }

 private:
  Value* at(Value* pointer, Value* index, int64_t distance) {
    return ir_.CreateInBoundsGEP(ir_.getInt8Ty(), pointer, ir_.CreateMul(index, ctx_.i64(distance)));
  }

  Value* first_lanes(Value* count) {
    std::vector<llvm::Constant*> numbers;
    for (int i = 0; i < lanes_; ++i) numbers.push_back(ir_.getInt64(static_cast<uint64_t>(i)));
    return ir_.CreateICmpULT(llvm::ConstantVector::get(numbers),
                             ir_.CreateVectorSplat(static_cast<unsigned>(lanes_), count));
  }

  Value* load(llvm::Type* vector, int bytes, Value* pointer, Value* mask) {
    const llvm::Align align(static_cast<uint64_t>(bytes));
    if (!mask) return ir_.CreateAlignedLoad(vector, pointer, align);
    return ir_.CreateMaskedLoad(vector, pointer, align, mask, llvm::Constant::getNullValue(vector));
  }

  Value* load_row(int row, Value* step, Value* mask) {
    Value* begin = at(fn_->getArg(kA), fn_->getArg(kADistance), row);
    if (!blocking_.widen_rows) return load(vector_, blocking_.unit_bytes, at(begin, step, blocking_.unit_bytes), mask);
    const int bytes = dsl::info(blocking_.form.b).bytes;
    llvm::Type* narrow = register_type(ir_.getContext(), dsl::scalar_type(blocking_.form.b));
    auto* vector = llvm::FixedVectorType::get(narrow, static_cast<unsigned>(lanes_));
    return to_f32(ctx_, ir_, blocking_.form.b, load(vector, bytes, at(begin, step, bytes), mask));
  }

  // Products from step k on.
  void add(Value* k, int vectors, Value* mask) {
    for (int v = 0; v < vectors; ++v) {
      Value* step = ir_.CreateAdd(k, ctx_.i64(int64_t{v} * lanes_));
      Value* y = load(vector_, blocking_.unit_bytes, at(fn_->getArg(kB), step, blocking_.unit_bytes), mask);
      for (int row = 0; row < rows_; ++row) {
        Value* x = load_row(row, step, mask);
        llvm::AllocaInst* sum =
            accumulators_[static_cast<size_t>(row) * static_cast<size_t>(vectors_) + static_cast<size_t>(v)];
        ir_.CreateStore(step_forward(ctx_, ir_, blocking_.form, x, y, ir_.CreateLoad(vector_, sum)), sum);
      }
    }
  }

  Value* total(int row) {
    const size_t first = static_cast<size_t>(row) * static_cast<size_t>(vectors_);
    Value* sum = ir_.CreateLoad(vector_, accumulators_[first]);
    for (size_t v = 1; v < static_cast<size_t>(vectors_); ++v) {
      sum = ir_.CreateFAdd(sum, ir_.CreateLoad(vector_, accumulators_[first + v]));
    }
    for (int half = lanes_ / 2; half > 0; half /= 2) {
      llvm::SmallVector<int, 16> low, high;
      for (int i = 0; i < half; ++i) {
        low.push_back(i);
        high.push_back(half + i);
      }
      sum = ir_.CreateFAdd(ir_.CreateShuffleVector(sum, low), ir_.CreateShuffleVector(sum, high));
    }
    return ir_.CreateExtractElement(sum, uint64_t{0});
  }

  void finish() {
    auto none = [](llvm::Instruction*) {};
    std::vector<llvm::AllocaInst*> before;
    for (int row = 0; row < rows_; ++row) {
      before.push_back(ir_.CreateAlloca(blocking_.unit));
      ir_.CreateStore(llvm::Constant::getNullValue(blocking_.unit), before.back());
    }
    emit_if(ir_, ir_.CreateNot(fn_->getArg(kFresh)), "load", none, [&] {
      for (int row = 0; row < rows_; ++row) {
        Value* from = at(fn_->getArg(kFrom), fn_->getArg(kFromRow), row);
        ir_.CreateStore(ir_.CreateLoad(blocking_.unit, from), before[static_cast<size_t>(row)]);
      }
    });
    for (int row = 0; row < rows_; ++row) {
      Value* sum = ir_.CreateFAdd(ir_.CreateLoad(blocking_.unit, before[static_cast<size_t>(row)]), total(row));
      ir_.CreateStore(sum, at(fn_->getArg(kTo), fn_->getArg(kToRow), row));
    }
  }

  Context& ctx_;
  const DotBlocking& blocking_;
  int rows_, vectors_, lanes_;
  llvm::Function* fn_;
  Builder ir_;
  llvm::FixedVectorType* vector_;
  std::vector<llvm::AllocaInst*> accumulators_;  // of a row after the other; promoted to registers
};

}  // namespace

llvm::Function* column_kernel(Context& ctx, const DotBlocking& blocking, int rows) {
  const ElementType rows_of = blocking.widen_rows ? blocking.form.b : blocking.form.sum;
  const std::string name = "kiln.dot.column." + std::to_string(rows) + "." + std::string(dsl::info(rows_of).name);
  if (auto* existing = ctx.module.getFunction(name)) return existing;
  auto* fn = declare_kernel(ctx, name);
  ColumnKernel(ctx, blocking, rows, fn).emit();
  return fn;
}

}  // namespace kiln::codegen::cpu

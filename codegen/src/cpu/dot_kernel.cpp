// The micro-kernel of dot: a block of MR × NV vectors of C stays in registers over the whole of K.
#include <llvm/IR/IntrinsicsX86.h>

#include "cpu/dot.h"

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

// Rows of A lie `row` bytes apart, which is known at run time only. One pointer serves three of them: the others are
// reached by the addressing modes base + row and base + 2·row.
constexpr int kRowsOfPointer = 3;

class MicroKernel {
 public:
  MicroKernel(Context& c, const DotPlan& plan, int rows, llvm::Function* fn)
      : c_(c), plan_(plan), rows_(rows), fn_(fn), b_(c.module.getContext()) {
    sum_type_ = vector_of(plan, register_type(b_.getContext(), dsl::scalar_type(plan.form.sum)));
    acc_type_ = vector_of(plan, register_type(b_.getContext(), dsl::scalar_type(plan.form.acc)));
  }

  void emit() {
    b_.SetInsertPoint(llvm::BasicBlock::Create(b_.getContext(), "entry", fn_));
    std::vector<Value*> start = load_sums(), pointers;
    for (int row = 0; row < rows_; row += kRowsOfPointer) {
      pointers.push_back(byte_gep(fn_->getArg(0), b_.CreateMul(fn_->getArg(1), c_.i64(row))));
    }
    pointers.push_back(fn_->getArg(2));
    auto* before = b_.GetInsertBlock();
    auto* loop = llvm::BasicBlock::Create(b_.getContext(), "k", fn_);
    auto* after = llvm::BasicBlock::Create(b_.getContext(), "store", fn_);
    b_.CreateBr(loop);
    b_.SetInsertPoint(loop);
    auto* k = b_.CreatePHI(b_.getInt64Ty(), 2, "k");
    k->addIncoming(c_.i64(0), before);
    std::vector<llvm::PHINode*> sums, at;
    for (Value* value : start) sums.push_back(phi(value, before));
    for (Value* value : pointers) at.push_back(phi(value, before));

    const std::vector<Value*> next_sums = step(sums, at);
    for (size_t i = 0; i < sums.size(); ++i) sums[i]->addIncoming(next_sums[i], loop);
    for (auto* pointer : at) {
      Value* distance = pointer == at.back() ? static_cast<Value*>(fn_->getArg(3)) : c_.i64(plan_.unit_bytes);
      pointer->addIncoming(byte_gep(pointer, distance), loop);
    }
    Value* next = b_.CreateAdd(k, c_.i64(1));
    k->addIncoming(next, loop);
    b_.CreateCondBr(b_.CreateICmpULT(next, c_.i64(plan_.k_units)), loop, after);
    b_.SetInsertPoint(after);
    store_sums(next_sums);
    b_.CreateRetVoid();
  }

 private:
  Value* byte_gep(Value* pointer, Value* offset) { return b_.CreateInBoundsGEP(b_.getInt8Ty(), pointer, offset); }

  llvm::PHINode* phi(Value* value, llvm::BasicBlock* before) {
    auto* out = b_.CreatePHI(value->getType(), 2);
    out->addIncoming(value, before);
    return out;
  }

  Value* c_pointer(int row, int v) {
    const int64_t index = row * plan_.ldc + static_cast<int64_t>(v) * plan_.lanes;
    return byte_gep(fn_->getArg(4), c_.i64(index * dsl::info(plan_.form.acc).bytes));
  }

  llvm::Align acc_align() const { return llvm::Align(static_cast<uint64_t>(dsl::info(plan_.form.acc).bytes)); }

  std::vector<Value*> load_sums() {
    std::vector<Value*> corrections, out;
    for (int v = 0; v < plan_.block.vectors && plan_.form.flip_a; ++v) {
      Value* pointer = byte_gep(fn_->getArg(5), c_.i64(static_cast<int64_t>(v) * plan_.lanes * 4));
      corrections.push_back(b_.CreateAlignedLoad(sum_type_, pointer, llvm::Align(4)));
    }
    for (int row = 0; row < rows_; ++row) {
      for (int v = 0; v < plan_.block.vectors; ++v) {
        Value* sum = b_.CreateAlignedLoad(acc_type_, c_pointer(row, v), acc_align());
        if (acc_type_ != sum_type_) sum = b_.CreateFPExt(sum, sum_type_);
        if (plan_.form.flip_a) sum = b_.CreateSub(sum, corrections[static_cast<size_t>(v)]);
        out.push_back(sum);
      }
    }
    return out;
  }

  void store_sums(const std::vector<Value*>& sums) {
    for (size_t i = 0; i < sums.size(); ++i) {
      Value* sum = acc_type_ == sum_type_ ? sums[i] : b_.CreateFPTrunc(sums[i], acc_type_);
      const int row = static_cast<int>(i) / plan_.block.vectors, v = static_cast<int>(i) % plan_.block.vectors;
      b_.CreateAlignedStore(sum, c_pointer(row, v), acc_align());
    }
  }

  Value* column(Value* b_row, int v) {
    Value* pointer = byte_gep(b_row, c_.i64(static_cast<int64_t>(v) * plan_.lanes * plan_.b_bytes()));
    const llvm::Align align(static_cast<uint64_t>(plan_.b_bytes()));
    if (!plan_.widen_b) return b_.CreateAlignedLoad(vector_of(plan_, plan_.unit), pointer, align);
    auto* narrow = vector_of(plan_, register_type(b_.getContext(), dsl::scalar_type(plan_.form.b)));
    return to_f32(c_, b_, plan_.form.b, b_.CreateAlignedLoad(narrow, pointer, align));
  }

  // B is read once, from memory that may be far away: the processor does not see rows this far apart coming.
  void prefetch(Value* b_row) {
    constexpr int64_t kRowsAhead = 8, kLine = 64;
    Value* ahead = byte_gep(b_row, b_.CreateMul(fn_->getArg(3), c_.i64(kRowsAhead)));
    for (int64_t at = 0; at < plan_.panel() * plan_.b_bytes(); at += kLine) {
      b_.CreateIntrinsic(llvm::Intrinsic::prefetch, {b_.getPtrTy()},
                         {byte_gep(ahead, c_.i64(at)), b_.getInt32(0), b_.getInt32(3), b_.getInt32(1)});
    }
  }

  std::vector<Value*> step(const std::vector<llvm::PHINode*>& sums, const std::vector<llvm::PHINode*>& at) {
    std::vector<Value*> columns, out;
    for (int v = 0; v < plan_.block.vectors; ++v) columns.push_back(column(at.back(), v));
    if (plan_.m <= plan_.block.rows && plan_.form.group == 1) prefetch(at.back());
    Value* stride = fn_->getArg(1);
    for (int row = 0; row < rows_; ++row) {
      Value* pointer = at[static_cast<size_t>(row / kRowsOfPointer)];
      if (row % kRowsOfPointer == 1) pointer = byte_gep(pointer, stride);
      if (row % kRowsOfPointer == 2) pointer = b_.CreateInBoundsGEP(b_.getInt16Ty(), pointer, stride);
      const llvm::Align align(static_cast<uint64_t>(plan_.packed_bytes()));
      Value* lanes =
          b_.CreateVectorSplat(static_cast<unsigned>(plan_.lanes), b_.CreateAlignedLoad(plan_.unit, pointer, align));
      for (Value* y : columns) out.push_back(step_forward(c_, b_, plan_.form, lanes, y, sums[out.size()]));
    }
    return out;
  }

  Context& c_;
  const DotPlan& plan_;
  int rows_;
  llvm::Function* fn_;
  Builder b_;
  llvm::Type *sum_type_, *acc_type_;
};

}  // namespace

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

llvm::Function* micro_kernel(Context& c, const DotPlan& plan, int rows) {
  std::string name = "kiln.dot." + std::to_string(rows) + "x" + std::to_string(plan.block.vectors);
  for (ElementType type : {plan.form.packed, plan.widen_b ? plan.form.b : plan.form.packed, plan.form.acc})
    name += "." + std::string(dsl::info(type).name);
  for (int64_t number : {static_cast<int64_t>(plan.form.step), plan.k_units, plan.ldc,
                         int64_t{plan.form.flip_a} + 2 * plan.form.b_unsigned + 4 * (plan.m <= plan.block.rows)})
    name += "." + std::to_string(number);
  if (auto* existing = c.module.getFunction(name)) return existing;
  Builder b(c.module.getContext());
  auto* type = llvm::FunctionType::get(
      b.getVoidTy(), {b.getPtrTy(), b.getInt64Ty(), b.getPtrTy(), b.getInt64Ty(), b.getPtrTy(), b.getPtrTy()}, false);
  auto* fn = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, c.module);
  fn->addFnAttr(llvm::Attribute::NoInline);
  fn->addFnAttr(llvm::Attribute::NoUnwind);
  for (unsigned i : {0u, 2u, 4u, 5u}) fn->addParamAttr(i, llvm::Attribute::NoAlias);
  MicroKernel(c, plan, rows, fn).emit();
  return fn;
}

}  // namespace kiln::codegen::cpu

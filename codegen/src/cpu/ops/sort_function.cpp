// Sorting a row of records. Short rows: the place of a record is the number of records before it, counted by vector
// compares. Longer ones: radix sort from the lowest byte on, over those bytes in which the keys differ.
#include "cpu/ops/sort_function.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int64_t kDigits = 256;

void nothing(llvm::Instruction*) {}

class SortFunction {
 public:
  SortFunction(Context& context, int key_bytes, llvm::Function* function)
      : ctx(context),
        ir(context.module.getContext()),
        key_bytes_(key_bytes),
        shared_(key_bytes <= 4),
        keys_(function->getArg(0)),
        spare_keys_(function->getArg(1)),
        indices_(function->getArg(2)),
        spare_indices_(function->getArg(3)),
        counts_(function->getArg(4)),
        count_(function->getArg(5)),
        function_(function) {}

  void emit() {
    llvm::LLVMContext& context = ir.getContext();
    auto* entry = llvm::BasicBlock::Create(context, "entry", function_);
    auto* few = llvm::BasicBlock::Create(context, "few", function_);
    auto* many = llvm::BasicBlock::Create(context, "many", function_);
    ir.SetInsertPoint(entry);
    ir.CreateCondBr(ir.CreateICmpULE(count_, ir.getInt64(static_cast<uint64_t>(ctx.target.vector_bytes))), few, many);
    ir.SetInsertPoint(few);
    by_rank();
    ir.CreateRetVoid();
    ir.SetInsertPoint(many);
    by_digits();
    ir.CreateRetVoid();
  }

 private:
  llvm::ConstantInt* i64(int64_t value) { return ir.getInt64(static_cast<uint64_t>(value)); }
  Value* variable(llvm::Type* type) {
    Builder entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
    return entry.CreateAlloca(type);
  }
  Value* at(Value* base, llvm::Type* type, Value* index) { return ir.CreateInBoundsGEP(type, base, index); }
  void loop(int64_t step, Value* end, const char* name, llvm::function_ref<void(Value*)> body) {
    emit_loop(ir, i64(0), end, i64(step), name, nothing, body);
  }

  void copy_record(Value* from_keys, Value* from_indices, Value* from, Value* to_keys, Value* to_indices, Value* to) {
    llvm::Type *key = ir.getInt64Ty(), *index = ir.getInt32Ty();
    ir.CreateStore(ir.CreateLoad(key, at(from_keys, key, from)), at(to_keys, key, to));
    if (!shared_) ir.CreateStore(ir.CreateLoad(index, at(from_indices, index, from)), at(to_indices, index, to));
  }

  // The spare row becomes the row.
  void copy_back() {
    const int lanes = ctx.target.vector_bytes / 8;
    auto copy = [&](Value* from, Value* to, llvm::Type* scalar, Value* i) {
      auto* vector = llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
      const llvm::Align align(scalar->getPrimitiveSizeInBits().getFixedValue() / 8);
      ir.CreateAlignedStore(ir.CreateAlignedLoad(vector, at(from, scalar, i), align), at(to, scalar, i), align);
    };
    loop(lanes, count_, "copy", [&](Value* i) {
      copy(spare_keys_, keys_, ir.getInt64Ty(), i);
      if (!shared_) copy(spare_indices_, indices_, ir.getInt32Ty(), i);
    });
  }

  // ---- short rows ----

  void by_rank() {
    const int lanes = ctx.target.vector_bytes / 8;
    auto* vector = llvm::FixedVectorType::get(ir.getInt64Ty(), static_cast<unsigned>(lanes));
    std::vector<llvm::Constant*> steps;
    for (int i = 0; i < lanes; ++i) steps.push_back(i64(i));
    auto splat = [&](Value* x) { return ir.CreateVectorSplat(static_cast<unsigned>(lanes), x); };
    Value* ranks = variable(vector);
    loop(lanes, count_, "rank", [&](Value* first) {
      Value* mine = ir.CreateAlignedLoad(vector, at(keys_, ir.getInt64Ty(), first), llvm::Align(8));
      Value* places = ir.CreateAdd(splat(first), llvm::ConstantVector::get(steps));
      ir.CreateStore(llvm::Constant::getNullValue(vector), ranks);
      loop(1, count_, "others", [&](Value* other) {
        Value* theirs = splat(ir.CreateLoad(ir.getInt64Ty(), at(keys_, ir.getInt64Ty(), other)));
        Value* before = ir.CreateICmpULT(theirs, mine);
        if (!shared_) {
          Value* tie = ir.CreateAnd(ir.CreateICmpEQ(theirs, mine), ir.CreateICmpULT(splat(other), places));
          before = ir.CreateOr(before, tie);
        }
        ir.CreateStore(ir.CreateSub(ir.CreateLoad(vector, ranks), ir.CreateSExt(before, vector)), ranks);
      });
      ir.CreateAlignedStore(ir.CreateLoad(vector, ranks), at(counts_, ir.getInt64Ty(), first), llvm::Align(8));
    });
    loop(1, count_, "place", [&](Value* i) {
      Value* rank = ir.CreateLoad(ir.getInt64Ty(), at(counts_, ir.getInt64Ty(), i));
      copy_record(keys_, indices_, i, spare_keys_, spare_indices_, rank);
    });
    copy_back();
  }

  // ---- longer rows ----

  Value* digit(Value* key, Value* shift) { return ir.CreateAnd(ir.CreateLShr(key, shift), i64(kDigits - 1)); }
  Value* count_of(Value* histogram, Value* digit) { return at(histogram, ir.getInt32Ty(), digit); }
  Value* histogram(Value* pass) { return at(counts_, ir.getInt32Ty(), ir.CreateMul(pass, i64(kDigits))); }
  Value* shift_of(Value* pass) { return ir.CreateShl(ir.CreateAdd(pass, i64(shared_ ? 4 : 0)), i64(3)); }

  void count_digits() {
    auto* vector = llvm::FixedVectorType::get(ir.getInt32Ty(), 16);
    loop(16, i64(kDigits * key_bytes_), "clear", [&](Value* i) {
      ir.CreateAlignedStore(llvm::Constant::getNullValue(vector), at(counts_, ir.getInt32Ty(), i), llvm::Align(4));
    });
    loop(1, count_, "count", [&](Value* i) {
      Value* key = ir.CreateLoad(ir.getInt64Ty(), at(keys_, ir.getInt64Ty(), i));
      for (int pass = 0; pass < key_bytes_; ++pass) {
        Value* place = count_of(histogram(i64(pass)), digit(key, shift_of(i64(pass))));
        ir.CreateStore(ir.CreateAdd(ir.CreateLoad(ir.getInt32Ty(), place), ir.getInt32(1)), place);
      }
    });
  }

  // Counts become where each digit's records begin.
  void sum_up(Value* counts) {
    Value* sum = variable(ir.getInt32Ty());
    ir.CreateStore(ir.getInt32(0), sum);
    loop(1, i64(kDigits), "begin", [&](Value* i) {
      Value *place = count_of(counts, i), *here = ir.CreateLoad(ir.getInt32Ty(), sum);
      ir.CreateStore(ir.CreateAdd(here, ir.CreateLoad(ir.getInt32Ty(), place)), sum);
      ir.CreateStore(here, place);
    });
  }

  void by_digits() {
    count_digits();
    llvm::Type* pointer = ir.getPtrTy();
    Value *from_keys = variable(pointer), *to_keys = variable(pointer);
    Value *from_indices = variable(pointer), *to_indices = variable(pointer);
    auto get = [&](Value* place) { return ir.CreateLoad(pointer, place); };
    ir.CreateStore(keys_, from_keys);
    ir.CreateStore(spare_keys_, to_keys);
    ir.CreateStore(indices_, from_indices);
    ir.CreateStore(spare_indices_, to_indices);
    loop(1, i64(key_bytes_), "pass", [&](Value* pass) {
      Value *counts = histogram(pass), *shift = shift_of(pass);
      Value* any = digit(ir.CreateLoad(ir.getInt64Ty(), get(from_keys)), shift);
      Value* equal = ir.CreateZExt(ir.CreateLoad(ir.getInt32Ty(), count_of(counts, any)), ir.getInt64Ty());
      emit_if(ir, ir.CreateICmpNE(equal, count_), "differ", nothing, [&] {
        sum_up(counts);
        Value *keys = get(from_keys), *other_keys = get(to_keys);
        Value *indices = get(from_indices), *other_indices = get(to_indices);
        loop(1, count_, "move", [&](Value* i) {
          Value* key = ir.CreateLoad(ir.getInt64Ty(), at(keys, ir.getInt64Ty(), i));
          Value* place = count_of(counts, digit(key, shift));
          Value* to = ir.CreateLoad(ir.getInt32Ty(), place);
          ir.CreateStore(ir.CreateAdd(to, ir.getInt32(1)), place);
          copy_record(keys, indices, i, other_keys, other_indices, ir.CreateZExt(to, ir.getInt64Ty()));
        });
        ir.CreateStore(other_keys, from_keys);
        ir.CreateStore(keys, to_keys);
        ir.CreateStore(other_indices, from_indices);
        ir.CreateStore(indices, to_indices);
      });
    });
    emit_if(ir, ir.CreateICmpNE(get(from_keys), keys_), "odd", nothing, [&] { copy_back(); });
  }

  Context& ctx;
  Builder ir;
  const int key_bytes_;
  const bool shared_;
  Value *keys_, *spare_keys_, *indices_, *spare_indices_, *counts_, *count_;
  llvm::Function* function_;
};

}  // namespace

// Counts of digits, and the ranks of a short row.
int64_t sort_counts_bytes(int key_bytes) { return 4 * kDigits * key_bytes; }

llvm::Function* sort_function(Context& ctx, int key_bytes) {
  const std::string name = "kiln.sort." + std::to_string(8 * key_bytes);
  if (llvm::Function* known = ctx.module.getFunction(name)) return known;
  llvm::Type* pointer = ctx.ir.getPtrTy();
  auto* type = llvm::FunctionType::get(ctx.ir.getVoidTy(),
                                       {pointer, pointer, pointer, pointer, pointer, ctx.ir.getInt64Ty()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, ctx.module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  SortFunction(ctx, key_bytes, function).emit();
  return function;
}

}  // namespace kiln::codegen::cpu

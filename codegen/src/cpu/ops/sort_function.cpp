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
      : c(context),
        b(context.module.getContext()),
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
    llvm::LLVMContext& context = b.getContext();
    auto* entry = llvm::BasicBlock::Create(context, "entry", function_);
    auto* few = llvm::BasicBlock::Create(context, "few", function_);
    auto* many = llvm::BasicBlock::Create(context, "many", function_);
    b.SetInsertPoint(entry);
    b.CreateCondBr(b.CreateICmpULE(count_, b.getInt64(static_cast<uint64_t>(c.target.vector_bytes))), few, many);
    b.SetInsertPoint(few);
    by_rank();
    b.CreateRetVoid();
    b.SetInsertPoint(many);
    by_digits();
    b.CreateRetVoid();
  }

 private:
  llvm::ConstantInt* i64(int64_t value) { return b.getInt64(static_cast<uint64_t>(value)); }
  Value* variable(llvm::Type* type) {
    Builder entry(&function_->getEntryBlock(), function_->getEntryBlock().begin());
    return entry.CreateAlloca(type);
  }
  Value* at(Value* base, llvm::Type* type, Value* index) { return b.CreateInBoundsGEP(type, base, index); }
  void loop(int64_t step, Value* end, const char* name, llvm::function_ref<void(Value*)> body) {
    emit_loop(b, i64(0), end, i64(step), name, nothing, body);
  }

  void copy_record(Value* from_keys, Value* from_indices, Value* from, Value* to_keys, Value* to_indices, Value* to) {
    llvm::Type *key = b.getInt64Ty(), *index = b.getInt32Ty();
    b.CreateStore(b.CreateLoad(key, at(from_keys, key, from)), at(to_keys, key, to));
    if (!shared_) b.CreateStore(b.CreateLoad(index, at(from_indices, index, from)), at(to_indices, index, to));
  }

  // The spare row becomes the row.
  void copy_back() {
    const int lanes = c.target.vector_bytes / 8;
    auto copy = [&](Value* from, Value* to, llvm::Type* scalar, Value* i) {
      auto* vector = llvm::FixedVectorType::get(scalar, static_cast<unsigned>(lanes));
      const llvm::Align align(scalar->getPrimitiveSizeInBits().getFixedValue() / 8);
      b.CreateAlignedStore(b.CreateAlignedLoad(vector, at(from, scalar, i), align), at(to, scalar, i), align);
    };
    loop(lanes, count_, "copy", [&](Value* i) {
      copy(spare_keys_, keys_, b.getInt64Ty(), i);
      if (!shared_) copy(spare_indices_, indices_, b.getInt32Ty(), i);
    });
  }

  // ---- short rows ----

  void by_rank() {
    const int lanes = c.target.vector_bytes / 8;
    auto* vector = llvm::FixedVectorType::get(b.getInt64Ty(), static_cast<unsigned>(lanes));
    std::vector<llvm::Constant*> steps;
    for (int i = 0; i < lanes; ++i) steps.push_back(i64(i));
    auto splat = [&](Value* x) { return b.CreateVectorSplat(static_cast<unsigned>(lanes), x); };
    Value* ranks = variable(vector);
    loop(lanes, count_, "rank", [&](Value* first) {
      Value* mine = b.CreateAlignedLoad(vector, at(keys_, b.getInt64Ty(), first), llvm::Align(8));
      Value* places = b.CreateAdd(splat(first), llvm::ConstantVector::get(steps));
      b.CreateStore(llvm::Constant::getNullValue(vector), ranks);
      loop(1, count_, "others", [&](Value* other) {
        Value* theirs = splat(b.CreateLoad(b.getInt64Ty(), at(keys_, b.getInt64Ty(), other)));
        Value* before = b.CreateICmpULT(theirs, mine);
        if (!shared_) {
          Value* tie = b.CreateAnd(b.CreateICmpEQ(theirs, mine), b.CreateICmpULT(splat(other), places));
          before = b.CreateOr(before, tie);
        }
        b.CreateStore(b.CreateSub(b.CreateLoad(vector, ranks), b.CreateSExt(before, vector)), ranks);
      });
      b.CreateAlignedStore(b.CreateLoad(vector, ranks), at(counts_, b.getInt64Ty(), first), llvm::Align(8));
    });
    loop(1, count_, "place", [&](Value* i) {
      Value* rank = b.CreateLoad(b.getInt64Ty(), at(counts_, b.getInt64Ty(), i));
      copy_record(keys_, indices_, i, spare_keys_, spare_indices_, rank);
    });
    copy_back();
  }

  // ---- longer rows ----

  Value* digit(Value* key, Value* shift) { return b.CreateAnd(b.CreateLShr(key, shift), i64(kDigits - 1)); }
  Value* count_of(Value* histogram, Value* digit) { return at(histogram, b.getInt32Ty(), digit); }
  Value* histogram(Value* pass) { return at(counts_, b.getInt32Ty(), b.CreateMul(pass, i64(kDigits))); }
  Value* shift_of(Value* pass) { return b.CreateShl(b.CreateAdd(pass, i64(shared_ ? 4 : 0)), i64(3)); }

  void count_digits() {
    auto* vector = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
    loop(16, i64(kDigits * key_bytes_), "clear", [&](Value* i) {
      b.CreateAlignedStore(llvm::Constant::getNullValue(vector), at(counts_, b.getInt32Ty(), i), llvm::Align(4));
    });
    loop(1, count_, "count", [&](Value* i) {
      Value* key = b.CreateLoad(b.getInt64Ty(), at(keys_, b.getInt64Ty(), i));
      for (int pass = 0; pass < key_bytes_; ++pass) {
        Value* place = count_of(histogram(i64(pass)), digit(key, shift_of(i64(pass))));
        b.CreateStore(b.CreateAdd(b.CreateLoad(b.getInt32Ty(), place), b.getInt32(1)), place);
      }
    });
  }

  // Counts become where each digit's records begin.
  void sum_up(Value* counts) {
    Value* sum = variable(b.getInt32Ty());
    b.CreateStore(b.getInt32(0), sum);
    loop(1, i64(kDigits), "begin", [&](Value* i) {
      Value *place = count_of(counts, i), *here = b.CreateLoad(b.getInt32Ty(), sum);
      b.CreateStore(b.CreateAdd(here, b.CreateLoad(b.getInt32Ty(), place)), sum);
      b.CreateStore(here, place);
    });
  }

  void by_digits() {
    count_digits();
    llvm::Type* pointer = b.getPtrTy();
    Value *from_keys = variable(pointer), *to_keys = variable(pointer);
    Value *from_indices = variable(pointer), *to_indices = variable(pointer);
    auto get = [&](Value* place) { return b.CreateLoad(pointer, place); };
    b.CreateStore(keys_, from_keys);
    b.CreateStore(spare_keys_, to_keys);
    b.CreateStore(indices_, from_indices);
    b.CreateStore(spare_indices_, to_indices);
    loop(1, i64(key_bytes_), "pass", [&](Value* pass) {
      Value *counts = histogram(pass), *shift = shift_of(pass);
      Value* any = digit(b.CreateLoad(b.getInt64Ty(), get(from_keys)), shift);
      Value* equal = b.CreateZExt(b.CreateLoad(b.getInt32Ty(), count_of(counts, any)), b.getInt64Ty());
      emit_if(b, b.CreateICmpNE(equal, count_), "differ", nothing, [&] {
        sum_up(counts);
        Value *keys = get(from_keys), *other_keys = get(to_keys);
        Value *indices = get(from_indices), *other_indices = get(to_indices);
        loop(1, count_, "move", [&](Value* i) {
          Value* key = b.CreateLoad(b.getInt64Ty(), at(keys, b.getInt64Ty(), i));
          Value* place = count_of(counts, digit(key, shift));
          Value* to = b.CreateLoad(b.getInt32Ty(), place);
          b.CreateStore(b.CreateAdd(to, b.getInt32(1)), place);
          copy_record(keys, indices, i, other_keys, other_indices, b.CreateZExt(to, b.getInt64Ty()));
        });
        b.CreateStore(other_keys, from_keys);
        b.CreateStore(keys, to_keys);
        b.CreateStore(other_indices, from_indices);
        b.CreateStore(indices, to_indices);
      });
    });
    emit_if(b, b.CreateICmpNE(get(from_keys), keys_), "odd", nothing, [&] { copy_back(); });
  }

  Context& c;
  Builder b;
  const int key_bytes_;
  const bool shared_;
  Value *keys_, *spare_keys_, *indices_, *spare_indices_, *counts_, *count_;
  llvm::Function* function_;
};

}  // namespace

// Counts of digits, and the ranks of a short row.
int64_t sort_counts_bytes(int key_bytes) { return 4 * kDigits * key_bytes; }

llvm::Function* sort_function(Context& c, int key_bytes) {
  const std::string name = "kiln.sort." + std::to_string(8 * key_bytes);
  if (llvm::Function* known = c.module.getFunction(name)) return known;
  llvm::Type* pointer = c.b.getPtrTy();
  auto* type =
      llvm::FunctionType::get(c.b.getVoidTy(), {pointer, pointer, pointer, pointer, pointer, c.b.getInt64Ty()}, false);
  auto* function = llvm::Function::Create(type, llvm::Function::InternalLinkage, name, c.module);
  function->addFnAttr(llvm::Attribute::NoUnwind);
  SortFunction(c, key_bytes, function).emit();
  return function;
}

}  // namespace kiln::codegen::cpu

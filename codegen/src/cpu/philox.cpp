// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): counter (offset, 0, 0), key
// seed.
#include "cpu/context.h"

namespace kiln::codegen::cpu {

std::array<Value*, 4> emit_philox(Builder& b, Value* seed, Value* offset) {
  llvm::Type *wide = seed->getType(), *word = like(seed, b.getInt32Ty());
  auto low = [&](Value* x) { return b.CreateTrunc(x, word); };
  auto high = [&](Value* x) { return b.CreateTrunc(b.CreateLShr(x, llvm::ConstantInt::get(wide, 32)), word); };
  auto times = [&](Value* x, uint64_t factor) {
    return b.CreateMul(b.CreateZExt(x, wide), llvm::ConstantInt::get(wide, factor));
  };
  Value* zero = llvm::Constant::getNullValue(word);
  std::array<Value*, 4> counter = {low(offset), high(offset), zero, zero};
  std::array<Value*, 2> key = {low(seed), high(seed)};
  for (int round = 0; round < 10; ++round) {
    Value *p = times(counter[0], 0xD2511F53), *q = times(counter[2], 0xCD9E8D57);
    counter = {b.CreateXor(b.CreateXor(high(q), counter[1]), key[0]), low(q),
               b.CreateXor(b.CreateXor(high(p), counter[3]), key[1]), low(p)};
    key = {b.CreateAdd(key[0], int_constant(key[0], 0x9E3779B9)),
           b.CreateAdd(key[1], int_constant(key[1], 0xBB67AE85))};
  }
  return counter;
}

}  // namespace kiln::codegen::cpu

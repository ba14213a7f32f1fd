// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): counter (offset, 0, 0), key
// seed.
//
// A word stands in the low half of a 64-bit lane, and what is above it is never looked at: then a product of two words
// is one multiplication (vpmuludq), whose halves are the lane itself and the lane shifted.
#include "elementwise/philox.h"

namespace kiln::codegen {

PhiloxKeys philox_keys(Builder& ir, Value* seed) {
  PhiloxKeys keys;
  std::array<Value*, 2> key = {seed, ir.CreateLShr(seed, int_constant(seed, 32))};
  for (auto& of_round : keys) {
    of_round = key;
    key = {ir.CreateAdd(key[0], int_constant(seed, 0x9E3779B9)), ir.CreateAdd(key[1], int_constant(seed, 0xBB67AE85))};
  }
  return keys;
}

std::array<Value*, 4> emit_philox(Builder& ir, const PhiloxKeys& keys, Value* offset) {
  auto high = [&](Value* x) { return ir.CreateLShr(x, int_constant(x, 32)); };
  auto times = [&](Value* x, uint64_t factor) {
    return ir.CreateMul(ir.CreateAnd(x, int_constant(x, 0xFFFFFFFF)), int_constant(x, factor));
  };
  Value* zero = int_constant(offset, 0);
  std::array<Value*, 4> counter = {offset, high(offset), zero, zero};
  for (const auto& key : keys) {
    Value *p = times(counter[0], 0xD2511F53), *q = times(counter[2], 0xCD9E8D57);
    counter = {ir.CreateXor(ir.CreateXor(high(q), counter[1]), key[0]), q,
               ir.CreateXor(ir.CreateXor(high(p), counter[3]), key[1]), p};
  }
  for (Value*& word : counter) word = ir.CreateTrunc(word, like(word, ir.getInt32Ty()));
  return counter;
}

}  // namespace kiln::codegen

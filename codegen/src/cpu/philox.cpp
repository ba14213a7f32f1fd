// Philox4x32-10 (Salmon et al., "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011): counter (offset, 0, 0), key
// seed. The words of a tile are computed together, once, by a nest of their own into a slot each.
//
// A word stands in the low half of a 64-bit lane, and what is above it is never looked at: then a product of two words
// is one multiplication (vpmuludq), whose halves are the lane itself and the lane shifted.
#include "cpu/nest.h"

namespace kiln::codegen::cpu {

PhiloxKeys philox_keys(Builder& b, Value* seed) {
  PhiloxKeys keys;
  std::array<Value*, 2> key = {seed, b.CreateLShr(seed, int_constant(seed, 32))};
  for (auto& of_round : keys) {
    of_round = key;
    key = {b.CreateAdd(key[0], int_constant(seed, 0x9E3779B9)), b.CreateAdd(key[1], int_constant(seed, 0xBB67AE85))};
  }
  return keys;
}

std::array<Value*, 4> emit_philox(Builder& b, const PhiloxKeys& keys, Value* offset) {
  auto high = [&](Value* x) { return b.CreateLShr(x, int_constant(x, 32)); };
  auto times = [&](Value* x, uint64_t factor) {
    return b.CreateMul(b.CreateAnd(x, int_constant(x, 0xFFFFFFFF)), int_constant(x, factor));
  };
  Value* zero = int_constant(offset, 0);
  std::array<Value*, 4> counter = {offset, high(offset), zero, zero};
  for (const auto& key : keys) {
    Value *p = times(counter[0], 0xD2511F53), *q = times(counter[2], 0xCD9E8D57);
    counter = {b.CreateXor(b.CreateXor(high(q), counter[1]), key[0]), q,
               b.CreateXor(b.CreateXor(high(p), counter[3]), key[1]), p};
  }
  for (Value*& word : counter) word = b.CreateTrunc(word, like(word, b.getInt32Ty()));
  return counter;
}

// The keys do not depend on the lane where the seed does not: they are emitted with it, outside of the loop.
Result<std::array<Value*, 4>> Nest::evaluate_philox(const Op& op, const Point& point) {
  auto seed = evaluate(op.operands[0], point), offset = evaluate(op.operands[1], point);
  if (!seed) return seed.error();
  if (!offset) return offset.error();
  const bool seed_varies = (*seed)->getType()->isVectorTy(), vector = vector_dim_ >= 0;
  const int depth = seed_varies ? depth_now() : depth_of(normalise(op.operands[0], point));
  const PhiloxKeys keys = at_depth(depth, [&] {
    PhiloxKeys out = philox_keys(b, *seed);
    for (auto& of_round : out) {
      for (Value*& key : of_round) key = vector ? splat(key) : key;
    }
    return out;
  });
  return emit_philox(b, keys, vector ? splat(*offset) : *offset);
}

Result<void> lower_philox(Context& c, const Op& op) {
  if (c.type(op.results[0]).is_scalar()) {
    const auto words = emit_philox(c.b, philox_keys(c.b, c.scalars[op.operands[0]]), c.scalars[op.operands[1]]);
    for (size_t i = 0; i < words.size(); ++i) c.scalars[op.results[i]] = words[i];
    return {};
  }
  Nest nest(c, dsl::concrete_shape(c.type(op.results[0])));
  nest.choose_width(op.results[0], c.target.vector_bytes / 8);  // one register of 64-bit lanes
  std::array<std::optional<Slot>, 4> slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (c.use_count[op.results[i]] > 0) slots[i] = allocate_slot(c, c.type(op.results[i]));
  }
  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    auto words = nest.evaluate_philox(op, nest.identity());
    if (!words) return words.error();
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i]) nest.store_slot(*slots[i], nest.identity(), c.type(op.results[i]), (*words)[i]);
    }
    return {};
  };
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  for (size_t i = 0; i < slots.size(); ++i) c.slots[op.results[i]] = slots[i];
  return {};
}

}  // namespace kiln::codegen::cpu

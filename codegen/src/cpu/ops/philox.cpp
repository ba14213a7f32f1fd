// The random words of a tile are computed together, once, by a nest of their own into a slot each
// (elementwise/philox.cpp).
#include "cpu/ops/philox.h"

#include "cpu/nest/nest.h"
#include "elementwise/philox.h"

namespace kiln::codegen::cpu {

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
    if (c.schedule.use_count[op.results[i]] > 0) slots[i] = allocate_slot(c, c.type(op.results[i]));
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

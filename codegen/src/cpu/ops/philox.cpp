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
    PhiloxKeys out = philox_keys(ir, *seed);
    for (auto& of_round : out) {
      for (Value*& key : of_round) key = vector ? splat(key) : key;
    }
    return out;
  });
  return emit_philox(ir, keys, vector ? splat(*offset) : *offset);
}

Result<void> lower_philox(Context& ctx, const Op& op) {
  if (ctx.type(op.results[0]).is_scalar()) {
    const auto words =
        emit_philox(ctx.ir, philox_keys(ctx.ir, ctx.scalars[op.operands[0]]), ctx.scalars[op.operands[1]]);
    for (size_t i = 0; i < words.size(); ++i) ctx.scalars[op.results[i]] = words[i];
    return {};
  }
  Nest nest(ctx, dsl::concrete_shape(ctx.type(op.results[0])));
  nest.choose_width(op.results[0], ctx.target.vector_bytes / 8);  // one register of 64-bit lanes
  std::array<std::optional<ScratchSlot>, 4> slots;
  for (size_t i = 0; i < slots.size(); ++i) {
    if (ctx.schedule.use_count[op.results[i]] > 0) slots[i] = allocate_scratch_slot(ctx, ctx.type(op.results[i]));
  }
  Nest::Body body;
  body.chunk = [&]() -> Result<void> {
    auto words = nest.evaluate_philox(op, nest.identity());
    if (!words) return words.error();
    for (size_t i = 0; i < slots.size(); ++i) {
      if (slots[i]) nest.store_slot(*slots[i], nest.identity(), ctx.type(op.results[i]), (*words)[i]);
    }
    return {};
  };
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  for (size_t i = 0; i < slots.size(); ++i) ctx.slots[op.results[i]] = slots[i];
  return {};
}

}  // namespace kiln::codegen::cpu

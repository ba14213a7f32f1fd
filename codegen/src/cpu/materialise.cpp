// Copies of tiles into scratch memory, chunk by chunk.
#include "cpu/nest.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;

Result<void> fill(ValueId id, Nest& nest, bool any_width, const StoreChunk& store) {
  Nest::Body body;
  body.any_width = any_width;
  body.chunk = [&]() -> Result<void> {
    auto value = nest.evaluate_lanes(id, nest.identity());
    if (!value) return value.error();
    store(nest, *value);
    return {};
  };
  if (nest.vector_dim() >= 0 && nest.uniform_outside(id, nest.identity())) {
    body.outside = [&](Value* first, Value*) -> Result<void> {
      auto value = nest.evaluate(id, nest.identity());
      if (!value) return value.error();
      nest.walk_outside(first, [&] { store(nest, nest.splat(*value)); });
      return {};
    };
  }
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  return {};
}

// Index arithmetic is better computed again: once in scratch, it no longer tells what is contiguous.
bool worth_publishing(const Context& c, ValueId id) {
  const Op* op = c.definition[id];
  return c.home[id] == c.region && op && !c.type(id).is_scalar() &&
         (op->code == OpCode::kLoad || dsl::is_float(c.type(id).element));
}

}  // namespace

Result<void> materialise_from(Context& c, ValueId id, const StoreChunk& store) {
  Nest nest(c, dsl::concrete_shape(c.type(id)));
  nest.register_masks(id, nest.identity());
  nest.choose_width(id, kMaxWidth);
  return fill(id, nest, true, store);
}

Result<void> materialise(Context& c, ValueId id, const Slot& slot) {
  return materialise_from(c, id,
                          [&](Nest& nest, Value* value) { nest.store_slot(slot, nest.identity(), c.type(id), value); });
}

Result<Slot> slot_of(Context& c, ValueId id, Rows rows) {
  const auto& known = c.slots[id];
  const bool whole = known && known->valid_under.empty();
  if (whole && (rows == Rows::kPadded || is_dense(*known, dsl::concrete_shape(c.type(id))))) return *known;
  const Slot slot = allocate_slot(c, c.type(id), rows);
  if (auto done = materialise(c, id, slot); !done) return done.error();
  if (!whole && worth_publishing(c, id)) c.slots[id] = slot;
  return slot;
}

Result<void> pack(Context& c, ValueId id, int vector_dim, int width, const StoreChunk& store,
                  const std::optional<Nest::Listed>& listed) {
  Nest nest(c, dsl::concrete_shape(c.type(id)));
  nest.set_vector_dim(vector_dim);
  if (listed) nest.set_listed(0, *listed);
  nest.set_width(width);
  nest.register_masks(id, nest.identity());
  return fill(id, nest, false, store);
}

}  // namespace kiln::codegen::cpu

// Copies of tiles into scratch memory, chunk by chunk.
#include "cpu/nest/materialise.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;

// The vectors of a chunk, tile by tile, of each one at each of the chunk's points.
using StoreVectors = std::function<void(Nest&, llvm::ArrayRef<Value*> vectors)>;

StoreVectors by_one(const StoreChunk& store) {
  return [&store](Nest& nest, llvm::ArrayRef<Value*> vectors) { store(nest, vectors[0]); };
}

using Vectors = llvm::SmallVector<Value*, 8>;

template <class Evaluate>
Result<Vectors> at_points(const Nest& nest, llvm::ArrayRef<ValueId> tiles, Evaluate evaluate) {
  Vectors out;
  for (ValueId id : tiles) {
    for (const Point& point : nest.points()) {
      auto value = evaluate(id, point);
      if (!value) return value.error();
      out.push_back(*value);
    }
  }
  return out;
}

Result<void> fill(llvm::ArrayRef<ValueId> tiles, Nest& nest, bool any_width, const StoreVectors& store) {
  Nest::Body body;
  body.any_width = any_width;
  body.chunk = [&]() -> Result<void> {
    auto values =
        at_points(nest, tiles, [&](ValueId id, const Point& point) { return nest.evaluate_lanes(id, point); });
    if (!values) return values.error();
    store(nest, *values);
    return {};
  };
  const bool uniform = llvm::all_of(tiles, [&](ValueId id) {
    return llvm::all_of(nest.points(), [&](const Point& point) { return nest.uniform_outside(id, point); });
  });
  if (nest.vector_dim() >= 0 && uniform) {
    body.outside = [&](Value* first, Value*) -> Result<void> {
      auto values = at_points(nest, tiles, [&](ValueId id, const Point& point) { return nest.evaluate(id, point); });
      if (!values) return values.error();
      nest.walk_outside(first, [&] {
        Vectors lanes;
        for (Value* value : *values) lanes.push_back(nest.splat(value));
        store(nest, lanes);
      });
      return {};
    };
  }
  if (auto done = nest.walk(body, false); !done) return done;
  nest.finish();
  return {};
}

// The axes behind this one lie without gaps in its rows.
bool is_dense_behind(const ScratchSlot& slot, const std::vector<int64_t>& shape, size_t axis) {
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > axis; stride *= shape[i]) {
    if (shape[i] > 1 && slot.strides[i] != stride) return false;
  }
  return true;
}

}  // namespace

Result<void> materialise_from(Context& ctx, ValueId id, const StoreChunk& store) {
  Nest nest(ctx, dsl::concrete_shape(ctx.type(id)));
  nest.register_masks(id, nest.identity());
  nest.choose_width(id, kMaxWidth);
  return fill({id}, nest, true, by_one(store));
}

Result<void> materialise(Context& ctx, ValueId id, const ScratchSlot& slot) { return materialise(ctx, {{id, slot}}); }

Result<void> materialise(Context& ctx, llvm::ArrayRef<TilePlace> tiles) {
  const auto shape = dsl::concrete_shape(ctx.type(tiles[0].id));
  Nest nest(ctx, shape);
  // Where rows of small axes are padded, they are walked as they lie.
  const auto row = axis_before_narrow(shape);
  const auto lies_close = [&](const TilePlace& tile) { return is_dense_behind(tile.slot, shape, *row); };
  if (row && llvm::all_of(tiles, lies_close)) nest.unroll_narrow();
  std::vector<ValueId> values;
  for (const TilePlace& tile : tiles) {
    values.push_back(tile.id);
    for (const Point& point : nest.points()) nest.register_masks(tile.id, point);
  }
  nest.choose_width(values, nest.most_lanes(kMaxWidth));
  return fill(values, nest, true, [&](Nest&, llvm::ArrayRef<Value*> vectors) {
    const size_t each = nest.points().size();
    for (const TilePlace& tile : tiles) {
      nest.store_slot(tile.slot, ctx.type(tile.id), vectors.take_front(each));
      vectors = vectors.drop_front(each);
    }
  });
}

bool worth_publishing(const Context& ctx, ValueId id) {
  const Op* op = ctx.schedule.definition[id];
  return ctx.schedule.defining_region[id] == ctx.region && op && !ctx.type(id).is_scalar() &&
         (op->code == OpCode::kLoad || dsl::is_float(ctx.type(id).element));
}

bool is_whole(const Context& ctx, ValueId id) { return ctx.slots[id] && ctx.slots[id]->valid_under.empty(); }

Result<ScratchSlot> slot_of(Context& ctx, ValueId id, Rows rows) {
  const auto& known = ctx.slots[id];
  const bool whole = is_whole(ctx, id);
  if (whole && (rows != Rows::kDense || is_dense(*known, dsl::concrete_shape(ctx.type(id))))) return *known;
  const ScratchSlot slot = allocate_scratch_slot(ctx, ctx.type(id), rows);
  if (auto done = materialise(ctx, id, slot); !done) return done.error();
  if (!whole && worth_publishing(ctx, id)) ctx.slots[id] = slot;
  return slot;
}

Result<void> pack(Context& ctx, ValueId id, int vector_dim, int width, const StoreChunk& store,
                  const std::optional<Nest::Listed>& listed) {
  Nest nest(ctx, dsl::concrete_shape(ctx.type(id)));
  nest.set_vector_dim(vector_dim);
  if (listed) nest.set_listed(0, *listed);
  nest.set_width(width);
  nest.register_masks(id, nest.identity());
  return fill({id}, nest, false, by_one(store));
}

}  // namespace kiln::codegen::cpu

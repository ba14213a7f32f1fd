// store: a nest over the tile of pointers, in the interior alone where the mask says no more; for several stores at
// once where the schedule allows it.
#include "cpu/ops/stores.h"

#include "cpu/nest/nest.h"
#include "cpu/nest/transpose.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;
// Rows go together (rows.cpp) in launches that write less than so many bytes, which caches hold, and if they are no
// longer than so many elements: where memory is what a kernel waits for, the hardware's prefetches follow one row.
constexpr int64_t kMostTogether = 8 << 20;
constexpr int64_t kShortRow = 64;
// With AVX-512 longer ones never do: its vectors gain less, and a Xeon took up to 1.4 times as long.
constexpr int64_t kLongestRowWide = 256;

Result<void> store_scalar(Context& ctx, const Op& op) {
  Value *pointer = ctx.scalars[op.operands[0]], *value = to_memory(ctx.ir, ctx.scalars[op.operands[1]]);
  auto store = [&] { ctx.ir.CreateStore(value, pointer); };
  if (op.operands.size() < 3) {
    store();
  } else {
    emit_if(ctx.ir, ctx.scalars[op.operands[2]], "store", [](llvm::Instruction*) {}, store);
  }
  return {};
}

// A store of the walk at hand.
struct Sink {
  const Op* op;
  Value* past_caches;  // i1, or null: never
  Value* value = nullptr;
  Nest::Address where = {};
  Value* mask = nullptr;  // null: all lanes
  int64_t row_bytes = 0;
};

void store_sink(Nest& nest, const Sink& sink, llvm::ArrayRef<Ahead> ahead) {
  Builder& ir = nest.ir;
  const AtLine line = nest.ctx.at_line(*sink.op);
  Value* mask = sink.mask;
  const int64_t bytes = memory_bytes(nest.ctx.type(sink.op->operands[1]));
  const llvm::Align align(static_cast<uint64_t>(bytes));
  Value* pointer = sink.where.pointer;
  if (nest.vector_dim() < 0) {
    if (mask) pointer = ir.CreateSelect(mask, pointer, entry_alloca(nest.ctx, sink.value->getType()));
    ir.CreateAlignedStore(sink.value, pointer, align);
  } else if (!sink.where.contiguous) {
    ir.CreateMaskedScatter(sink.value, nest.splat(pointer), align,
                           mask ? nest.ctx.memory_mask(nest.splat(mask)) : nullptr);
  } else if (mask) {
    ir.CreateMaskedStore(sink.value, pointer, align, nest.ctx.memory_mask(nest.splat(mask)));
  } else {
    store_vector(nest.ctx, sink.value, pointer, align, sink.past_caches, sink.row_bytes, ahead);
  }
}

// The vectors of a sink at all points of a chunk; as one where they lie side by side.
Result<void> place_chunk(Nest& nest, const Sink& sink, llvm::ArrayRef<Value*> values, llvm::ArrayRef<Value*> masks,
                         std::vector<Sink>& out) {
  const ValueId pointers = sink.op->operands[0];
  if (nest.is_narrow()) {
    auto together = nest.address_side_by_side(pointers);
    if (!together) return together.error();
    if (*together) {
      Sink all = sink;
      all.value = nest.side_by_side(values);
      all.where = {*together, true};
      all.mask = nest.mask_side_by_side(masks);
      all.row_bytes *= static_cast<int64_t>(values.size());
      out.push_back(all);
      return {};
    }
  }
  for (size_t i = 0; i < values.size(); ++i) {
    auto where = nest.address(pointers, nest.points()[i]);
    if (!where) return where.error();
    Sink one = sink;
    one.value = values[i];
    one.where = *where;
    one.mask = nest.in_active_lanes(masks[i]);
    out.push_back(one);
  }
  return {};
}

// What the stores of a chunk store, and where.
Result<std::vector<Sink>> compute_chunk(Nest& nest, const std::vector<Sink>& sinks) {
  std::vector<llvm::SmallVector<Value*, 8>> values(sinks.size());
  llvm::SmallVector<Value*, 8> masks;
  for (size_t i = 0; i < sinks.size(); ++i) {
    for (const Point& point : nest.points()) {
      auto value = nest.evaluate_lanes(sinks[i].op->operands[1], point);
      if (!value) return value.error();
      values[i].push_back(*value);
    }
  }
  const Op& first = *sinks[0].op;
  for (const Point& point : nest.points()) {
    masks.push_back(nullptr);
    if (first.operands.size() < 3) continue;
    auto active = nest.active_mask(first.operands[2], point);
    if (!active) return active.error();
    masks.back() = *active;
  }
  std::vector<Sink> out;
  for (size_t i = 0; i < sinks.size(); ++i) {
    for (Value*& value : values[i]) value = to_memory(nest.ir, value);
    if (auto done = place_chunk(nest, sinks[i], values[i], masks, out); !done) return done.error();
  }
  return out;
}

// All values, then all stores: each may be in place of what another one reads.
Result<void> store_chunk(Nest& nest, const std::vector<Sink>& sinks) {
  auto placed = compute_chunk(nest, sinks);
  if (!placed) return placed.error();
  if (llvm::none_of(sinks, [](const Sink& sink) { return sink.past_caches; })) nest.prefetch_near();
  llvm::ArrayRef<Ahead> ahead = nest.ahead();
  for (const Sink& sink : *placed) {
    store_sink(nest, sink, ahead);
    if (sink.past_caches) ahead = {};
  }
  return {};
}

// The same of several rows, through the caches: a row's vector is half a line of theirs with AVX2.
Result<void> store_rows(Nest& nest, const std::vector<Sink>& sinks, int count, llvm::function_ref<void(int)> go_to) {
  std::vector<Sink> rows;
  for (int row = 0; row < count; ++row) {
    go_to(row);
    auto placed = compute_chunk(nest, sinks);
    if (!placed) return placed.error();
    rows.insert(rows.end(), placed->begin(), placed->end());
  }
  for (const Ahead& each : nest.ahead()) prefetch(nest.ctx, each);
  for (Sink& sink : rows) {
    sink.past_caches = nullptr;
    store_sink(nest, sink, {});
  }
  return {};
}

Value* may_fuse(Nest& nest, const std::vector<Sink>& sinks) {
  Builder& ir = nest.ir;
  Value* may = ir.getTrue();
  Value* length = nest.trip_count_of_row();
  Value* is_short = ir.CreateICmpULE(length, nest.ctx.i64(kShortRow));
  if (nest.ctx.target.vector_bytes > 32) may = ir.CreateICmpULE(length, nest.ctx.i64(kLongestRowWide));
  for (const Sink& sink : sinks) {
    Value* is_small =
        ir.CreateICmpULT(bytes_stored(nest.ctx, *sink.op, nest.trip_count()), nest.ctx.i64(kMostTogether));
    may = ir.CreateAnd(may, ir.CreateOr(is_small, is_short));
    if (sink.past_caches) may = ir.CreateAnd(may, ir.CreateNot(sink.past_caches));
  }
  return may;
}

// As wide as the one that must be narrowest.
void choose_width(Nest& nest, const std::vector<const Op*>& stores) {
  int width = kMaxWidth;
  for (const Op* op : stores) {
    nest.choose_width(op->operands[1], nest.most_lanes(kMaxWidth));
    width = std::min(width, nest.width());
  }
  nest.set_width(width);
}

Result<void> store_tiles(Context& ctx, const std::vector<const Op*>& stores) {
  const Op& first = *stores[0];
  for (const Op* op : stores) {
    if (auto done = transpose_operands(ctx, op->operands[1]); !done) return done;
  }
  Nest nest(ctx, dsl::concrete_shape(ctx.type(first.operands[0])));
  nest.unroll_narrow();
  std::vector<ValueId> values;
  for (const Op* op : stores) {
    values.insert(values.end(), {op->operands[0], op->operands[1]});
    for (const Point& point : nest.points()) {
      nest.register_masks(op->operands[1], point);
      nest.register_masks(op->operands[0], point);
    }
  }
  std::vector<MaskAt> masks;
  if (first.operands.size() > 2) {
    for (const Point& point : nest.points()) {
      masks.push_back({first.operands[2], point});
      nest.register_mask(first.operands[2], point);
    }
    nest.limit_to(masks);
  }
  choose_width(nest, stores);
  std::vector<Sink> sinks;
  for (const Op* op : stores) {
    sinks.push_back({op, streams(ctx, *op, nest.trip_count())});
    if (nest.vector_dim() >= 0) {
      sinks.back().row_bytes = nest.extent(nest.vector_dim()) * memory_bytes(ctx.type(op->operands[1]));
    }
    if (sinks.back().past_caches) nest.set_store();
  }
  const bool interior = masks.empty()
                            ? nest.interior_suffices(std::nullopt)
                            : llvm::all_of(masks, [&](const MaskAt& mask) { return nest.interior_suffices(mask); });
  if (auto done = nest.tabulate_rows(values); !done) return done;
  Nest::Body body;
  body.any_width = true;
  body.chunk = [&] { return store_chunk(nest, sinks); };
  body.chunk_of_rows = [&](int count, llvm::function_ref<void(int)> go_to) {
    return store_rows(nest, sinks, count, go_to);
  };
  body.fuse_if = [&] { return may_fuse(nest, sinks); };
  if (auto done = nest.walk(body, interior); !done) return done;
  nest.finish();
  return {};
}

// The accumulators of a dot may be in their place already.
Result<void> store_tile(Context& ctx, const Op& op) {
  const auto& slot = ctx.slots[op.operands[1]];
  const auto accumulators = slot ? ctx.dot_accumulators.find(slot->offset) : ctx.dot_accumulators.end();
  if (accumulators == ctx.dot_accumulators.end() || !accumulators->second.in_place) return store_tiles(ctx, {&op});
  Value* stored = ctx.ir.CreateLoad(ctx.ir.getInt1Ty(), accumulators->second.stored);
  return unless(ctx, stored, [&] { return store_tiles(ctx, {&op}); });
}

}  // namespace

Result<void> lower_store(Context& ctx, const Op& op) {
  if (ctx.type(op.operands[0]).is_scalar()) return store_scalar(ctx, op);
  const auto group = ctx.groups.find(&op);
  if (group == ctx.groups.end()) return store_tile(ctx, op);
  const std::vector<const Op*>& stores = ctx.schedule.fused[group->second];
  if (&op != stores.back()) return {};
  const bool has_accumulator = llvm::any_of(stores, [&](const Op* store) {
    const auto& slot = ctx.slots[store->operands[1]];
    return slot && ctx.dot_accumulators.contains(slot->offset);
  });
  if (!has_accumulator) return store_tiles(ctx, stores);
  for (const Op* store : stores) {
    if (auto done = store_tile(ctx, *store); !done) return done;
  }
  return {};
}

}  // namespace kiln::codegen::cpu

// Ops that move elements to other indices. Their source lies in scratch; where strides can say it (slice, reshape), the
// result is a view of the same memory, else (cat, gather) it has a place of its own. `split` is such an op where it
// gives scalars; tiles are split, and joined, where they are evaluated (narrow.cpp).
#include "cpu/ops/shape_ops.h"

#include "cpu/dot/dot_units.h"
#include "cpu/nest/materialise.h"
#include "cpu/nest/nest.h"
#include "cpu/siblings.h"

namespace kiln::codegen::cpu {
namespace {

constexpr Reach kSources = {4, 256};  // of one walk: their values take registers

int64_t number(const dsl::Attr& attr) {
  if (auto* expr = std::get_if<dsl::Expr>(&attr)) return *expr->as_constant();
  return std::get<int64_t>(attr);
}

// The part of a slot that begins `elements` further on.
ScratchSlot part_of(const Context& ctx, ValueId id, const ScratchSlot& slot, int64_t elements) {
  ScratchSlot out = slot;
  out.offset += static_cast<uint64_t>(elements * memory_bytes(ctx.type(id)));
  out.exact = true;
  out.close = false;
  return out;
}

// The result of an op, which is a view of a slot; a scalar is read from it.
void publish(Context& ctx, ValueId result, ScratchSlot slot) {
  slot.view = true;
  if (ctx.type(result).is_scalar()) {
    ctx.scalars[result] = load_from_slot(ctx, result, slot);
  } else {
    ctx.slots[result] = std::move(slot);
  }
}

// Puts what a reshape reads into scratch together with what others further down read at the same points: they often
// share what they are computed from, as the real and the imaginary part of a number do.
Result<void> put_sources(Context& ctx, const Op& op) {
  const auto waits = [&](ValueId id) { return !is_whole(ctx, id) && worth_publishing(ctx, id); };
  if (!waits(op.operands[0])) return {};
  const auto shape = dsl::concrete_shape(ctx.type(op.operands[0]));
  const auto reads_same_points = [&](const Op& other) {
    return other.code == OpCode::kReshape && !is_read_in_units(ctx, other) && waits(other.operands[0]) &&
           dsl::concrete_shape(ctx.type(other.operands[0])) == shape;
  };
  std::vector<TilePlace> tiles;
  for (const Op* each : with_siblings(ctx, op, kSources, reads_same_points)) {
    const ValueId id = each->operands[0];
    if (llvm::any_of(tiles, [&](const TilePlace& tile) { return tile.id == id; })) continue;
    tiles.push_back({id, allocate_scratch_slot(ctx, ctx.type(id), Rows::kDense)});
  }
  if (auto done = materialise(ctx, tiles); !done) return done;
  for (const TilePlace& tile : tiles) ctx.slots[tile.id] = tile.slot;
  return {};
}

Result<void> lower_reshape(Context& ctx, const Op& op) {
  if (auto done = put_sources(ctx, op); !done) return done;
  auto source = slot_of(ctx, op.operands[0], Rows::kDense);
  if (!source) return source.error();
  ScratchSlot out = part_of(ctx, op.operands[0], *source, 0);
  const auto shape = dsl::concrete_shape(ctx.type(op.results[0]));
  out.strides.assign(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) out.strides[i - 1] = out.strides[i] * shape[i];
  publish(ctx, op.results[0], std::move(out));
  return {};
}

Result<void> lower_slice(Context& ctx, const Op& op) {
  auto source = slot_of(ctx, op.operands[0]);
  if (!source) return source.error();
  const auto axis = static_cast<size_t>(number(op.attrs[0]));
  publish(ctx, op.results[0], part_of(ctx, op.operands[0], *source, number(op.attrs[1]) * source->strides[axis]));
  return {};
}

Result<void> lower_split(Context& ctx, const Op& op) {
  auto source = slot_of(ctx, op.operands[0]);
  if (!source) return source.error();
  for (size_t half = 0; half < 2; ++half) {
    ScratchSlot out = part_of(ctx, op.operands[0], *source, static_cast<int64_t>(half) * source->strides.back());
    out.strides.pop_back();
    publish(ctx, op.results[half], std::move(out));
  }
  return {};
}

Result<void> lower_cat(Context& ctx, const Op& op) {
  const auto axis = static_cast<size_t>(number(op.attrs[0]));
  const int64_t first = dsl::concrete_shape(ctx.type(op.operands[0]))[axis];
  const ScratchSlot out = allocate_scratch_slot(ctx, ctx.type(op.results[0]));
  if (auto done = materialise(ctx, op.operands[0], part_of(ctx, op.operands[0], out, 0)); !done) return done;
  const ScratchSlot rest = part_of(ctx, op.operands[1], out, first * out.strides[axis]);
  if (auto done = materialise(ctx, op.operands[1], rest); !done) return done;
  ctx.slots[op.results[0]] = out;
  return {};
}

Result<void> lower_gather(Context& ctx, const Op& op) {
  auto source = slot_of(ctx, op.operands[0]);
  if (!source) return source.error();
  const auto axis = static_cast<size_t>(number(op.attrs[0]));
  const ScratchSlot out = allocate_scratch_slot(ctx, ctx.type(op.results[0]));
  auto done = materialise_from(ctx, op.operands[1], [&](Nest& nest, Value* index) {
    nest.store_slot(out, nest.identity(), ctx.type(op.results[0]),
                    nest.gather_slot(ctx.type(op.operands[0]), *source, nest.identity(), axis, index,
                                     dsl::info(ctx.type(op.operands[1]).element).is_signed));
  });
  if (!done) return done;
  ctx.slots[op.results[0]] = out;
  return {};
}

}  // namespace

Result<void> lower_shape_op(Context& ctx, const Op& op) {
  switch (op.code) {
    case OpCode::kReshape:
      return lower_reshape(ctx, op);
    case OpCode::kSlice:
      return lower_slice(ctx, op);
    case OpCode::kSplit:
      return lower_split(ctx, op);
    case OpCode::kCat:
      return lower_cat(ctx, op);
    default:
      return lower_gather(ctx, op);
  }
}

}  // namespace kiln::codegen::cpu

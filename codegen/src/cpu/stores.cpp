// store: a nest over the tile of pointers, in the interior alone where the mask says no more.
#include "cpu/nest.h"
#include "cpu/transpose.h"

namespace kiln::codegen::cpu {
namespace {

constexpr int kMaxWidth = 64;

Result<void> store_scalar(Context& c, const Op& op) {
  Value *pointer = c.scalars[op.operands[0]], *value = to_memory(c.b, c.scalars[op.operands[1]]);
  auto store = [&] { c.b.CreateStore(value, pointer); };
  if (op.operands.size() < 3) {
    store();
  } else {
    emit_if(c.b, c.scalars[op.operands[2]], "store", [](llvm::Instruction*) {}, store);
  }
  return {};
}

Result<void> store_chunk(Nest& nest, const Op& op, Value* streams) {
  Builder& b = nest.b;
  const Point point = nest.identity();
  const dsl::Type& type = nest.c.type(op.operands[1]);
  auto value = nest.evaluate_lanes(op.operands[1], point);
  if (!value) return value.error();
  Value* mask = nullptr;
  if (op.operands.size() > 2) {
    auto active = nest.active_mask(op.operands[2], point);
    if (!active) return active.error();
    mask = *active;
  }
  mask = nest.in_active_lanes(mask);
  auto where = nest.address(op.operands[0], point);
  if (!where) return where.error();
  Value* stored = to_memory(b, *value);
  const llvm::Align align(static_cast<uint64_t>(memory_bytes(type)));
  if (nest.vector_dim() < 0) {
    Value* pointer =
        mask ? b.CreateSelect(mask, where->pointer, entry_alloca(nest.c, stored->getType())) : where->pointer;
    b.CreateAlignedStore(stored, pointer, align);
  } else if (!where->contiguous) {
    b.CreateMaskedScatter(stored, nest.splat(where->pointer), align,
                          mask ? nest.c.memory_mask(nest.splat(mask)) : nullptr);
  } else if (mask) {
    b.CreateMaskedStore(stored, where->pointer, align, nest.c.memory_mask(nest.splat(mask)));
  } else {
    const int64_t row = nest.extent(nest.vector_dim()) * memory_bytes(type);
    store_vector(nest.c, stored, where->pointer, align, streams, row, nest.ahead());
  }
  return {};
}

Result<void> store_tile(Context& c, const Op& op) {
  if (auto done = transpose_operands(c, op.operands[1]); !done) return done;
  Nest nest(c, dsl::concrete_shape(c.type(op.operands[0])));
  const Point point = nest.identity();
  nest.register_masks(op.operands[1], point);
  nest.register_masks(op.operands[0], point);
  std::optional<MaskAt> mask;
  if (op.operands.size() > 2) {
    mask = MaskAt{op.operands[2], point};
    nest.register_mask(op.operands[2], point);
    nest.limit_to(*mask);
  }
  nest.choose_width(op.operands[1], kMaxWidth);
  Value* past_caches = streams(c, op, nest.visited());
  if (past_caches) nest.set_store();
  const bool interior = nest.interior_suffices(mask);
  if (auto done = nest.tabulate_rows({op.operands[0], op.operands[1]}); !done) return done;
  Nest::Body body;
  body.any_width = true;
  body.chunk = [&] { return store_chunk(nest, op, past_caches); };
  if (auto done = nest.walk(body, interior); !done) return done;
  nest.finish();
  return {};
}

}  // namespace

Result<void> lower_store(Context& c, const Op& op) {
  if (c.type(op.operands[0]).is_scalar()) return store_scalar(c, op);
  // The sums of a dot may be in their place already.
  const auto& slot = c.slots[op.operands[1]];
  const auto sums = slot ? c.dot_accumulators.find(slot->offset) : c.dot_accumulators.end();
  if (sums == c.dot_accumulators.end() || !sums->second.in_place) return store_tile(c, op);
  Value* stored = c.b.CreateLoad(c.b.getInt1Ty(), sums->second.stored);
  return unless(c, stored, [&] { return store_tile(c, op); });
}

}  // namespace kiln::codegen::cpu

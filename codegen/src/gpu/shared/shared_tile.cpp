// Tiles in shared memory: written by the threads that hold them, read by those that want them.
#include "gpu/shared/shared_tile.h"

#include <algorithm>

#include "gpu/address/rolled.h"
#include "gpu/layout/algebra.h"
#include "gpu/shared/shared_access.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kWritePhase = 0;

// Registers of a layout with copies among them, from those without.
Registers with_copies(const Registers& few, const Deduplicated& unique, const Layout& layout) {
  Registers out;
  for (Bits reg = 0; reg < static_cast<Bits>(layout.size(Dim::kRegister)); ++reg) {
    out.push_back(few[multiply(unique.kept, reg)]);
  }
  return out;
}

// How threads share a tile that is at home nowhere, or whose lines are to run the other way: each has squares of it, so
// that it can read along one axis and write along the other.
Layout sharing_layout(Context& ctx, const dsl::Type& type, int fast) {
  constexpr int64_t kSide = 4;
  const std::vector<int64_t> shape = padded_shape(type);
  const auto f = static_cast<size_t>(fast), s = 1 - f;
  std::vector<int64_t> per_thread(2), lanes(2), warps(2, 1);
  for (size_t axis : {f, s}) per_thread[axis] = std::min(kSide, shape[axis]);
  lanes[f] = std::min<int64_t>(ctx.block.lanes, shape[f] / per_thread[f]);
  lanes[s] = ctx.block.lanes / lanes[f];
  warps[s] = ctx.block.warps;
  return blocked(shape, per_thread, lanes, warps, {fast, 1 - fast});
}

// A staged tile whose lines are to run the other way has two places in turn: products may still read the one of the
// last iteration.
bool is_transposed(const Context& ctx, ValueId id) { return ctx.placement.staged.contains(ctx.definition[id]); }

Value* alternating_part(Context& ctx, const SharedBuffer& buffer, int64_t bytes) {
  Builder& ir = ctx.ir;
  llvm::IRBuilder<> entry(ctx.prologue_end);
  llvm::AllocaInst* offset = entry.CreateAlloca(entry.getInt32Ty());
  entry.CreateStore(entry.getInt32(0), offset);
  Value* now = ir.CreateLoad(ir.getInt32Ty(), offset);
  ir.CreateStore(ir.CreateXor(now, ir.getInt32(static_cast<uint32_t>(bytes))), offset);
  return ir.CreateGEP(ir.getInt8Ty(), buffer.pointer(), now);
}

// What has been written, for products to read.
SharedTile published(Context& ctx, ValueId id, const SharedTile& tile) {
  tile.buffer.touch(ctx.ir, SharedBuffer::Access::kWrite, kWritePhase);
  ctx.target.group_publish(ctx.ir);
  ctx.define_shared(id, tile);
  return tile;
}

}  // namespace

Result<Registers> read_shared_tile(Context& ctx, const SharedTile& tile, const dsl::Type& type, const Layout& layout) {
  const Deduplicated unique = without_copies_in_registers(layout);
  const int bits = traveling_bits(type);
  const SharedAccess access = plan_shared_load(tile.panels.memory, unique.layout, bits, ctx.target.lane_facts());
  Registers out = load_shared(ctx, {&tile.buffer, tile.base, tile.read_phase}, access, bits);
  for (Value*& x : out) x = from_bits(ctx, x, type);
  return with_copies(out, unique, layout);
}

Result<SharedTile> materialise_in_shared(Context& ctx, ValueId id, int fast) {
  if (const SharedTile* tile = ctx.shared(id, fast)) return *tile;
  const dsl::Type& type = ctx.type(id);
  const std::optional<SharedPanels> panels = shared_panels_of(type, fast);
  if (!panels) return internal_error("no panels of " + dsl::to_string(type, ctx.kernel.expr_names()));
  if (const Op* load = ctx.definition[id]; ctx.rolled_loads.contains(load)) {
    const SharedBuffer buffer(ctx.ir, panels->bytes);
    if (auto done = load_rolled(ctx, *load, *panels, buffer); !done) return done.error();
    return published(ctx, id, {*panels, buffer, buffer.pointer()});
  }
  const auto& home = ctx.placement.home[id];
  const Layout layout = without_copies_in_registers(home ? *home : sharing_layout(ctx, type, fast)).layout;
  // Where the value is defined: once for a loop that uses it.
  const llvm::IRBuilderBase::InsertPointGuard guard(ctx.ir);
  ctx.stand_where_defined(id);
  auto registers = ctx.get(id, layout);
  if (!registers) return registers.error();
  const int bits = traveling_bits(type);
  for (size_t reg = 0; reg < registers->size(); ++reg) {
    Value*& x = (*registers)[reg];
    // Padding would meet the other operand's: zeros.
    Value* inside = ctx.in_tile(layout, reg, type);
    x = to_bits(ctx, x, bits);
    if (inside) x = ctx.ir.CreateSelect(inside, x, llvm::Constant::getNullValue(x->getType()));
  }
  const bool alternates = is_transposed(ctx, id);
  const SharedBuffer buffer(ctx.ir, panels->bytes * (alternates ? 2 : 1));
  Value* base = alternates ? alternating_part(ctx, buffer, panels->bytes) : buffer.pointer();
  const SharedAccess access = plan_shared_store(panels->memory, layout, bits, ctx.target.lane_facts());
  store_shared(ctx, {&buffer, base, kWritePhase}, access, *registers, bits);
  return published(ctx, id, {*panels, buffer, base});
}

}  // namespace kiln::codegen::gpu

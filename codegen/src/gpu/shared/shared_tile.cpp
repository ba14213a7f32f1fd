// Tiles in shared memory: written by the threads that hold them, read by those that want them.
#include "gpu/shared/shared_tile.h"

#include <algorithm>

#include "gpu/address/in_turns.h"
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
Layout sharing_layout(Context& c, const dsl::Type& type, int fast) {
  constexpr int64_t kSide = 4;
  const std::vector<int64_t> shape = padded_shape(type);
  const auto f = static_cast<size_t>(fast), s = 1 - f;
  std::vector<int64_t> per_thread(2), lanes(2), warps(2, 1);
  for (size_t axis : {f, s}) per_thread[axis] = std::min(kSide, shape[axis]);
  lanes[f] = std::min<int64_t>(c.block.lanes, shape[f] / per_thread[f]);
  lanes[s] = c.block.lanes / lanes[f];
  warps[s] = c.block.warps;
  return blocked(shape, per_thread, lanes, warps, {fast, 1 - fast});
}

// A staged tile whose lines are to run the other way has two places in turn: products may still read the one of the
// last iteration.
bool is_turned(const Context& c, ValueId id) { return c.placement.staged.contains(c.definition[id]); }

Value* alternating_part(Context& c, const SharedBuffer& buffer, int64_t bytes) {
  Builder& b = c.b;
  llvm::IRBuilder<> entry(c.prologue_end);
  llvm::AllocaInst* offset = entry.CreateAlloca(entry.getInt32Ty());
  entry.CreateStore(entry.getInt32(0), offset);
  Value* now = b.CreateLoad(b.getInt32Ty(), offset);
  b.CreateStore(b.CreateXor(now, b.getInt32(static_cast<uint32_t>(bytes))), offset);
  return b.CreateGEP(b.getInt8Ty(), buffer.pointer(), now);
}

// What has been written, for products to read.
SharedTile published(Context& c, ValueId id, const SharedTile& tile) {
  tile.buffer.touch(c.b, SharedBuffer::Access::kWrite, kWritePhase);
  c.target.group_publish(c.b);
  c.define_shared(id, tile);
  return tile;
}

}  // namespace

Result<Registers> read_shared_tile(Context& c, const SharedTile& tile, const dsl::Type& type, const Layout& layout) {
  const Deduplicated unique = without_copies_in_registers(layout);
  const int bits = traveling_bits(type);
  const SharedAccess access = plan_shared_load(tile.panels.memory, unique.layout, bits, c.target.lane_facts());
  Registers out = load_shared(c, {&tile.buffer, tile.base, tile.read_phase}, access, bits);
  for (Value*& x : out) x = from_bits(c, x, type);
  return with_copies(out, unique, layout);
}

Result<SharedTile> put_in_shared(Context& c, ValueId id, int fast) {
  if (const SharedTile* tile = c.shared(id, fast)) return *tile;
  const dsl::Type& type = c.type(id);
  const std::optional<SharedPanels> panels = shared_panels_of(type, fast);
  if (!panels) return internal_error("no panels of " + dsl::to_string(type, c.kernel.expr_names()));
  if (const Op* load = c.definition[id]; c.in_turns.contains(load)) {
    const SharedBuffer buffer(c.b, panels->bytes);
    if (auto done = load_in_turns(c, *load, *panels, buffer); !done) return done.error();
    return published(c, id, {*panels, buffer, buffer.pointer()});
  }
  const auto& home = c.placement.home[id];
  const Layout layout = without_copies_in_registers(home ? *home : sharing_layout(c, type, fast)).layout;
  // Where the value is defined: once for a loop that uses it.
  const llvm::IRBuilderBase::InsertPointGuard guard(c.b);
  c.stand_where_defined(id);
  auto registers = c.get(id, layout);
  if (!registers) return registers.error();
  const int bits = traveling_bits(type);
  for (size_t reg = 0; reg < registers->size(); ++reg) {
    Value*& x = (*registers)[reg];
    // Padding would meet the other operand's: zeros.
    Value* inside = c.in_tile(layout, reg, type);
    x = to_bits(c, x, bits);
    if (inside) x = c.b.CreateSelect(inside, x, llvm::Constant::getNullValue(x->getType()));
  }
  const bool alternates = is_turned(c, id);
  const SharedBuffer buffer(c.b, panels->bytes * (alternates ? 2 : 1));
  Value* base = alternates ? alternating_part(c, buffer, panels->bytes) : buffer.pointer();
  const SharedAccess access = plan_shared_store(panels->memory, layout, bits, c.target.lane_facts());
  store_shared(c, {&buffer, base, kWritePhase}, access, *registers, bits);
  return published(c, id, {*panels, buffer, base});
}

}  // namespace kiln::codegen::gpu

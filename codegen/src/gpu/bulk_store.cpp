// Stores of large tiles by the engine of bulk_engine.h:
//
//   registers → shared memory, in panels of swizzled lines
//   what was written is published; a barrier
//   one thread tells the engine a box for each panel, and waits until it has read them
#include "gpu/bulk_copy.h"
#include "gpu/context.h"
#include "gpu/layout/algebra.h"
#include "gpu/shared_access.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kWritePhase = 0, kReadPhase = 1;

}  // namespace

Result<void> lower_bulk_store(Context& c, const Op& op, const BulkAccess& access) {
  Builder& b = c.b;
  const BulkEngine& engine = *c.target.bulk_engine();
  const BulkTile& tile = access.tile;
  const ValueId value = op.operands[1];
  const Layout layout = without_copies_in_registers(*c.placement.home[value]).layout;
  auto registers = c.get(value, layout);
  if (!registers) return registers.error();
  const int bits = 8 * dsl::info(c.type(value).element).bytes;
  for (Value*& x : *registers) x = b.CreateBitCast(to_memory(b, x), b.getIntNTy(static_cast<unsigned>(bits)));
  const SharedBuffer buffer(b, tile.bytes);
  const SharedAccess access_plan = plan_shared_store(tile.memory.elements, layout, bits, c.target.lane_facts());
  store_shared(c, {&buffer, buffer.pointer(), kWritePhase}, access_plan, *registers, bits);
  engine.publish_shared(b);

  Value* chosen = b.CreateIsNull(c.target.thread_id(b));
  const std::vector<Value*> at = tile_coordinates(c, tile.access);
  for (const TileBox& box : tile.boxes) {
    BoxCopy copy{c.tensor_maps[access.map], at, nullptr};
    for (size_t i = 0; i < at.size(); ++i) {
      if (box.start[i] != 0) copy.coordinates[i] = b.CreateAdd(at[i], b.getInt32(static_cast<uint32_t>(box.start[i])));
    }
    copy.shared = b.CreateConstGEP1_64(b.getInt8Ty(), buffer.pointer(), static_cast<uint64_t>(box.shared_bytes));
    buffer.mark(engine.store(b, copy, chosen), SharedBuffer::Access::kRead, kReadPhase);
  }
  engine.end_store_group(b, chosen);
  buffer.mark(engine.wait_store_groups(b, 0, true, chosen), SharedBuffer::Access::kRead, kReadPhase);
  return {};
}

}  // namespace kiln::codegen::gpu

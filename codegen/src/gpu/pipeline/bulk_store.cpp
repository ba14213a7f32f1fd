// Stores of large tiles by the engine of bulk_engine.h:
//
//   registers → shared memory, in panels of swizzled lines
//   what was written is published; a barrier
//   one thread tells the engine a box for each panel, and waits until it has read them
//
// Persistent blocks go on to the next program while the engine stores, and have no memory of a whole tile to spare:
// panel by panel goes through two buffers by turns, each of which waits for what the engine reads of it. Groups of
// warps that hold whole boxes store these by themselves, and wait for no other group.
#include "gpu/pipeline/bulk_store.h"

#include <array>

#include "gpu/address/tile_coordinates.h"
#include "gpu/layout/algebra.h"
#include "gpu/shared/shared_access.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kWritePhase = 0, kReadPhase = 1;

// A store of one tile: what its registers hold, and where boxes of it go.
class BulkStore {
 public:
  BulkStore(Context& ctx, const Op& op, const BulkAccess& access)
      : ctx_(ctx), access_(access), type_(ctx.type(op.operands[1])), bits_(8 * dsl::info(type_.element).bytes) {}

  Result<void> prepare(const Op& op) {
    const ValueId value = op.operands[1];
    layout_ = without_copies_in_registers(*ctx_.placement.home[value]).layout;
    auto registers = ctx_.get(value, layout_);
    if (!registers) return registers.error();
    registers_ = std::move(*registers);
    for (Value*& x : registers_) {
      x = ctx_.ir.CreateBitCast(to_memory(ctx_.ir, x), ctx_.ir.getIntNTy(static_cast<unsigned>(bits_)));
    }
    is_by_groups_ = ctx_.block.persistent && !access_.owners.empty();
    group_ = ctx_.ir.CreateUDiv(ctx_.warp, ctx_.ir.getInt32(kStoringWarps));
    chosen_ = is_by_groups_ ? tells_of_stores(ctx_) : ctx_.ir.CreateIsNull(ctx_.thread);
    at_ = tile_coordinates(ctx_, access_.tile.access);
    return {};
  }

  void store_whole() {
    const SharedBuffer buffer(ctx_.ir, access_.tile.bytes);
    write(buffer, access_.tile.memory.elements, layout_, registers_);
    wait_for_group();
    for (const TileBox& box : access_.tile.boxes) store(buffer, box, box.shared_bytes);
    engine().end_store_group(ctx_.ir, chosen_);
    buffer.mark(engine().wait_store_groups(ctx_.ir, 0, true, chosen_), SharedBuffer::Access::kRead, kReadPhase);
  }

  // False where a panel is not some of each thread's registers.
  bool store_by_panels() {
    const auto axis = static_cast<size_t>(*access_.tile.access.dims[0].axis);
    dsl::Type panel_type = type_;
    const int64_t width = access_.tile.map.swizzle_bytes / (bits_ / 8);
    panel_type.shape[axis] = dsl::Expr(width);
    const auto panels = shared_panels_of(panel_type, static_cast<int>(axis));
    const Layout cut = first(layout_, static_cast<int>(axis), width);
    const bool is_of_threads = cut.free_mask(Dim::kLane) != layout_.free_mask(Dim::kLane) ||
                               cut.free_mask(Dim::kWarp) != layout_.free_mask(Dim::kWarp);
    const int64_t count = dsl::concrete_shape(type_)[axis] / width;
    if (!panels || is_of_threads || (count < 2 && !is_by_groups_)) return false;
    const Deduplicated panel = without_copies_in_registers(cut);
    llvm::IRBuilder<> entry(ctx_.prologue_end);
    const std::array<SharedBuffer, 2> buffers = {SharedBuffer(entry, panels->bytes),
                                                 SharedBuffer(entry, panels->bytes)};
    for (int64_t i = 0; i < count; ++i) {
      const SharedBuffer& buffer = buffers[static_cast<size_t>(i % 2)];
      // The last store from this buffer was the last but one, but where the program before ended with it.
      const int pending = i == 0 && count % 2 == 1 ? 0 : 1;
      buffer.mark(engine().wait_store_groups(ctx_.ir, pending, true, chosen_), SharedBuffer::Access::kRead,
                  read_phase());
      wait_for_group();
      Registers some(static_cast<size_t>(panel.layout.size(Dim::kRegister)));
      for (size_t reg = 0; reg < registers_.size(); ++reg) {
        if (ctx_.register_coordinate(layout_, reg, static_cast<int>(axis)) / width != i) continue;
        some[multiply(panel.kept, static_cast<Bits>(reg))] = registers_[reg];
      }
      write(buffer, panels->memory, panel.layout, some);
      wait_for_group();
      for (const TileBox& box : access_.tile.boxes) {
        if (box.start[0] / width == i) store(buffer, box, box.shared_bytes - i * panels->bytes);
      }
      engine().end_store_group(ctx_.ir, chosen_);
    }
    return true;
  }

 private:
  const BulkEngine& engine() const { return *ctx_.target.bulk_engine(); }

  // Groups order their accesses by barriers of their own, and meet no other's bytes.
  int read_phase() const { return is_by_groups_ ? kWritePhase : kReadPhase; }
  void wait_for_group() {
    if (is_by_groups_) engine().group_barrier(ctx_.ir, group_, ctx_.block.lanes * kStoringWarps);
  }

  void write(const SharedBuffer& buffer, const Layout& memory, const Layout& layout, const Registers& registers) {
    const SharedAccess plan = plan_shared_store(memory, layout, bits_, ctx_.target.lane_facts());
    store_shared(ctx_, {&buffer, buffer.pointer(), kWritePhase}, plan, registers, bits_);
    engine().publish_shared(ctx_.ir);
  }

  void store(const SharedBuffer& buffer, const TileBox& box, int64_t offset) {
    Builder& ir = ctx_.ir;
    BoxCopy copy{ctx_.tensor_maps[access_.map], at_, nullptr};
    for (size_t i = 0; i < at_.size(); ++i) {
      if (box.start[i] != 0)
        copy.coordinates[i] = ir.CreateAdd(at_[i], ir.getInt32(static_cast<uint32_t>(box.start[i])));
    }
    copy.shared = ir.CreateConstGEP1_64(ir.getInt8Ty(), buffer.pointer(), static_cast<uint64_t>(offset));
    Value* chosen = chosen_;
    if (is_by_groups_) {
      const int owner = access_.owners[static_cast<size_t>(&box - access_.tile.boxes.data())];
      chosen = ir.CreateAnd(chosen, ir.CreateICmpEQ(group_, ir.getInt32(static_cast<uint32_t>(owner))));
    }
    buffer.mark(engine().store(ir, copy, chosen), SharedBuffer::Access::kRead, read_phase());
  }

  Context& ctx_;
  const BulkAccess& access_;
  const dsl::Type type_;
  const int bits_;
  Layout layout_;
  Registers registers_;
  bool is_by_groups_ = false;
  Value *group_ = nullptr, *chosen_ = nullptr;
  std::vector<Value*> at_;
};

}  // namespace

Value* tells_of_stores(Context& ctx) {
  if (ctx.block.warps <= kStoringWarps) return ctx.ir.CreateIsNull(ctx.thread);
  return ctx.ir.CreateIsNull(
      ctx.ir.CreateAnd(ctx.thread, ctx.ir.getInt32(static_cast<uint32_t>(ctx.block.lanes * kStoringWarps - 1))));
}

Result<void> lower_bulk_store(Context& ctx, const Op& op, const BulkAccess& access) {
  BulkStore store(ctx, op, access);
  if (auto ready = store.prepare(op); !ready) return ready;
  if (!ctx.block.persistent || !store.store_by_panels()) store.store_whole();
  return {};
}

}  // namespace kiln::codegen::gpu

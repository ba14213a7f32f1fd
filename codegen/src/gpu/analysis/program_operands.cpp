#include "gpu/analysis/program_operands.h"

#include <algorithm>
#include <set>

#include "gpu/address/tile_coordinates.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int64_t kBarrierBytes = 8;
constexpr int kPhase = 0;  // of all accesses: their order is that of the barriers

void wait_for(Context& ctx, const SharedBuffer& barrier, llvm::AllocaInst* parity) {
  Builder& ir = ctx.ir;
  barrier.touch(ir, SharedBuffer::Access::kRead, kPhase);
  Value* now = ir.CreateLoad(ir.getInt32Ty(), parity);
  ctx.target.bulk_engine()->wait(ir, barrier.pointer(), now);
  ir.CreateStore(ir.CreateXor(now, ir.getInt32(1)), parity);
}

bool reads_any(const Op& op, const std::set<ValueId>& values) {
  const auto is_one = [&](ValueId id) { return values.contains(id); };
  return any_op(op, [&](const Op& each) { return std::ranges::any_of(each.operands, is_one); });
}

}  // namespace

OperandPlaces make_operand_places(Context& ctx, const Pipeline& pipeline) {
  Builder& ir = ctx.ir;
  OperandPlaces out{{}, SharedBuffer(ir, kBarrierBytes), SharedBuffer(ir, kBarrierBytes)};
  for (const StagedLoad& operand : pipeline.program_operands) out.tiles.emplace_back(ir, operand.panels.bytes);
  return out;
}

void init_operand_places(Context& ctx, const OperandPlaces& places, Value* chosen) {
  for (const SharedBuffer& tile : places.tiles) tile.touch(ctx.ir, SharedBuffer::Access::kWrite, kPhase);
  for (const auto& [barrier, arrivals] : {std::pair(&places.full, 1), std::pair(&places.free, ctx.block.warps)}) {
    barrier->touch(ctx.ir, SharedBuffer::Access::kWrite, kPhase);
    ctx.target.bulk_engine()->init_barrier(ctx.ir, barrier->pointer(), arrivals, chosen);
  }
}

// Places that were never filled are free.
llvm::AllocaInst* begin_operands(Context& ctx, bool copies) {
  llvm::IRBuilder<> entry(ctx.prologue_end);
  llvm::AllocaInst* parity = entry.CreateAlloca(entry.getInt32Ty());
  entry.CreateStore(entry.getInt32(copies ? 1 : 0), parity);
  return parity;
}

void copy_operands(Context& ctx, const Pipeline& pipeline, llvm::AllocaInst* parity) {
  Builder& ir = ctx.ir;
  const BulkEngine& engine = *ctx.target.bulk_engine();
  const OperandPlaces& places = *ctx.program_operands;
  wait_for(ctx, places.free, parity);
  int64_t bytes = 0;
  for (const StagedLoad& operand : pipeline.program_operands) {
    bytes += operand.bulk->box_bytes * static_cast<int64_t>(operand.bulk->boxes.size());
  }
  places.full.touch(ir, SharedBuffer::Access::kWrite, kPhase);
  engine.arrive_expecting(ir, places.full.pointer(), bytes, ir.getTrue());
  for (size_t i = 0; i < places.tiles.size(); ++i) {
    const StagedLoad& operand = pipeline.program_operands[i];
    const std::vector<Value*> at = tile_coordinates(ctx, operand.bulk->access);
    for (const TileBox& box : operand.bulk->boxes) {
      BoxCopy copy{ctx.tensor_map(*operand.load), at, nullptr};
      for (size_t axis = 0; axis < at.size(); ++axis) {
        if (box.start[axis] == 0) continue;
        copy.coordinates[axis] = ir.CreateAdd(at[axis], ir.getInt32(static_cast<uint32_t>(box.start[axis])));
      }
      copy.shared =
          ir.CreateConstGEP1_64(ir.getInt8Ty(), places.tiles[i].pointer(), static_cast<uint64_t>(box.shared_bytes));
      places.tiles[i].touch(ir, SharedBuffer::Access::kWrite, kPhase);
      engine.load(ir, copy, places.full.pointer(), ir.getTrue());
    }
  }
}

void take_operands(Context& ctx, const Pipeline& pipeline, llvm::AllocaInst* parity) {
  const OperandPlaces& places = *ctx.program_operands;
  wait_for(ctx, places.full, parity);
  for (size_t i = 0; i < places.tiles.size(); ++i) {
    const StagedLoad& operand = pipeline.program_operands[i];
    places.tiles[i].touch(ctx.ir, SharedBuffer::Access::kRead, kPhase);
    ctx.define_shared(operand.load->results[0], {operand.panels, places.tiles[i], places.tiles[i].pointer(), kPhase});
  }
}

void leave_operands(Context& ctx) {
  Builder& ir = ctx.ir;
  const OperandPlaces& places = *ctx.program_operands;
  for (const SharedBuffer& tile : places.tiles) tile.touch(ir, SharedBuffer::Access::kRead, kPhase);
  places.free.touch(ir, SharedBuffer::Access::kWrite, kPhase);
  ctx.target.bulk_engine()->arrive(ir, places.free.pointer(), ir.CreateIsNull(ctx.lane));
}

const Op* last_reader(const dsl::Kernel& kernel, const Pipeline& pipeline) {
  std::set<ValueId> values;  // the operands, and what they are transposed
  for (const StagedLoad& operand : pipeline.program_operands) values.insert(operand.load->results[0]);
  const Op* out = nullptr;
  for (const Op& op : kernel.body.ops) {
    if (!reads_any(op, values)) continue;
    if (op.code == OpCode::kPermute) values.insert(op.results[0]);
    out = &op;
  }
  return out;
}

}  // namespace kiln::codegen::gpu

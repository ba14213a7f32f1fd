#include "gpu/analysis/program_factors.h"

#include <algorithm>
#include <set>

#include "gpu/address/tile_coordinates.h"
#include "kiln/dsl/walk.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int64_t kBarrierBytes = 8;
constexpr int kPhase = 0;  // of all accesses: their order is that of the barriers

void wait_for(Context& c, const SharedBuffer& barrier, llvm::AllocaInst* parity) {
  Builder& b = c.b;
  barrier.touch(b, SharedBuffer::Access::kRead, kPhase);
  Value* now = b.CreateLoad(b.getInt32Ty(), parity);
  c.target.bulk_engine()->wait(b, barrier.pointer(), now);
  b.CreateStore(b.CreateXor(now, b.getInt32(1)), parity);
}

bool reads_any(const Op& op, const std::set<ValueId>& values) {
  const auto is_one = [&](ValueId id) { return values.contains(id); };
  return any_op(op, [&](const Op& each) { return std::ranges::any_of(each.operands, is_one); });
}

}  // namespace

FactorPlaces make_factor_places(Context& c, const Pipeline& pipeline) {
  Builder& b = c.b;
  FactorPlaces out{{}, SharedBuffer(b, kBarrierBytes), SharedBuffer(b, kBarrierBytes)};
  for (const StagedLoad& factor : pipeline.factors) out.tiles.emplace_back(b, factor.panels.bytes);
  return out;
}

void init_factor_places(Context& c, const FactorPlaces& places, Value* chosen) {
  for (const SharedBuffer& tile : places.tiles) tile.touch(c.b, SharedBuffer::Access::kWrite, kPhase);
  for (const auto& [barrier, arrivals] : {std::pair(&places.full, 1), std::pair(&places.free, c.block.warps)}) {
    barrier->touch(c.b, SharedBuffer::Access::kWrite, kPhase);
    c.target.bulk_engine()->init_barrier(c.b, barrier->pointer(), arrivals, chosen);
  }
}

// Places that were never filled are free.
llvm::AllocaInst* begin_factors(Context& c, bool copies) {
  llvm::IRBuilder<> entry(c.prologue_end);
  llvm::AllocaInst* parity = entry.CreateAlloca(entry.getInt32Ty());
  entry.CreateStore(entry.getInt32(copies ? 1 : 0), parity);
  return parity;
}

void copy_factors(Context& c, const Pipeline& pipeline, llvm::AllocaInst* parity) {
  Builder& b = c.b;
  const BulkEngine& engine = *c.target.bulk_engine();
  const FactorPlaces& places = *c.factors;
  wait_for(c, places.free, parity);
  int64_t bytes = 0;
  for (const StagedLoad& factor : pipeline.factors) {
    bytes += factor.bulk->box_bytes * static_cast<int64_t>(factor.bulk->boxes.size());
  }
  places.full.touch(b, SharedBuffer::Access::kWrite, kPhase);
  engine.arrive_expecting(b, places.full.pointer(), bytes, b.getTrue());
  for (size_t i = 0; i < places.tiles.size(); ++i) {
    const StagedLoad& factor = pipeline.factors[i];
    const std::vector<Value*> at = tile_coordinates(c, factor.bulk->access);
    for (const TileBox& box : factor.bulk->boxes) {
      BoxCopy copy{c.tensor_map(*factor.load), at, nullptr};
      for (size_t axis = 0; axis < at.size(); ++axis) {
        if (box.start[axis] == 0) continue;
        copy.coordinates[axis] = b.CreateAdd(at[axis], b.getInt32(static_cast<uint32_t>(box.start[axis])));
      }
      copy.shared =
          b.CreateConstGEP1_64(b.getInt8Ty(), places.tiles[i].pointer(), static_cast<uint64_t>(box.shared_bytes));
      places.tiles[i].touch(b, SharedBuffer::Access::kWrite, kPhase);
      engine.load(b, copy, places.full.pointer(), b.getTrue());
    }
  }
}

void take_factors(Context& c, const Pipeline& pipeline, llvm::AllocaInst* parity) {
  const FactorPlaces& places = *c.factors;
  wait_for(c, places.full, parity);
  for (size_t i = 0; i < places.tiles.size(); ++i) {
    const StagedLoad& factor = pipeline.factors[i];
    places.tiles[i].touch(c.b, SharedBuffer::Access::kRead, kPhase);
    c.define_shared(factor.load->results[0], {factor.panels, places.tiles[i], places.tiles[i].pointer(), kPhase});
  }
}

void leave_factors(Context& c) {
  Builder& b = c.b;
  const FactorPlaces& places = *c.factors;
  for (const SharedBuffer& tile : places.tiles) tile.touch(b, SharedBuffer::Access::kRead, kPhase);
  places.free.touch(b, SharedBuffer::Access::kWrite, kPhase);
  c.target.bulk_engine()->arrive(b, places.free.pointer(), b.CreateIsNull(c.lane));
}

const Op* last_reader(const dsl::Kernel& kernel, const Pipeline& pipeline) {
  std::set<ValueId> values;  // the factors, and what they are transposed
  for (const StagedLoad& factor : pipeline.factors) values.insert(factor.load->results[0]);
  const Op* out = nullptr;
  for (const Op& op : kernel.body.ops) {
    if (!reads_any(op, values)) continue;
    if (op.code == OpCode::kPermute) values.insert(op.results[0]);
    out = &op;
  }
  return out;
}

}  // namespace kiln::codegen::gpu

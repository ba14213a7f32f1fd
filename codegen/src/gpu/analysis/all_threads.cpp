// Between lanes by butterflies; then each warp's part is put into shared memory, where all find them: few one by one,
// many a part a lane, and by butterflies again.
#include "gpu/analysis/all_threads.h"

#include "gpu/shared/convert.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kFewWarps = 4;

// Of each group of so many lanes.
Value* over_lanes(Context& ctx, Value* x, const Agreed& value, int count) {
  for (unsigned lanes = 1; lanes < static_cast<unsigned>(count); lanes *= 2) {
    x = value.combine(x, shuffle_xor(ctx, x, lanes));
  }
  return x;
}

}  // namespace

std::vector<Value*> over_all_threads(Context& ctx, llvm::ArrayRef<Agreed> values) {
  Builder& ir = ctx.ir;
  std::vector<Value*> out;
  for (const Agreed& value : values) out.push_back(over_lanes(ctx, value.own, value, ctx.block.lanes));
  if (ctx.block.warps == 1) return out;
  std::vector<SharedBuffer> buffers;
  const auto place = [&](size_t i, Value* warp) { return ir.CreateGEP(out[i]->getType(), buffers[i].pointer(), warp); };
  for (size_t i = 0; i < out.size(); ++i) {
    const auto bits = static_cast<int64_t>(out[i]->getType()->getPrimitiveSizeInBits().getFixedValue());
    buffers.emplace_back(ir, bits / 8 * ctx.block.warps);
    buffers[i].mark(ir.CreateStore(out[i], place(i, ctx.warp)), SharedBuffer::Access::kWrite, 0);
  }
  const auto u32 = [&](int x) { return ir.getInt32(static_cast<uint32_t>(x)); };
  for (size_t i = 0; i < out.size(); ++i) {
    const auto part = [&](Value* warp) {
      auto* load = ir.CreateLoad(out[i]->getType(), place(i, warp));
      buffers[i].mark(load, SharedBuffer::Access::kRead, 1);
      return load;
    };
    if (ctx.block.warps > kFewWarps && ctx.block.warps <= ctx.block.lanes) {
      out[i] = over_lanes(ctx, part(ir.CreateAnd(ctx.lane, u32(ctx.block.warps - 1))), values[i], ctx.block.warps);
      continue;
    }
    Value* whole = part(u32(0));
    for (int warp = 1; warp < ctx.block.warps; ++warp) whole = values[i].combine(whole, part(u32(warp)));
    out[i] = whole;
  }
  return out;
}

}  // namespace kiln::codegen::gpu

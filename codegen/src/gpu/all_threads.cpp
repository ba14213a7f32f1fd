// Between lanes by butterflies; then each warp's part is put into shared memory, where all find them.
#include "gpu/all_threads.h"

#include "gpu/shared_memory.h"

namespace kiln::codegen::gpu {

std::vector<Value*> over_all_threads(Context& c, llvm::ArrayRef<Agreed> values) {
  Builder& b = c.b;
  std::vector<Value*> out;
  for (const Agreed& value : values) {
    Value* x = value.own;
    for (unsigned lanes = 1; lanes < static_cast<unsigned>(c.block.lanes); lanes *= 2) {
      x = value.combine(x, shuffle_xor(c, x, lanes));
    }
    out.push_back(x);
  }
  if (c.block.warps == 1) return out;
  std::vector<SharedBuffer> buffers;
  const auto place = [&](size_t i, Value* warp) { return b.CreateGEP(out[i]->getType(), buffers[i].pointer(), warp); };
  for (size_t i = 0; i < out.size(); ++i) {
    const auto bits = static_cast<int64_t>(out[i]->getType()->getPrimitiveSizeInBits().getFixedValue());
    buffers.emplace_back(b, bits / 8 * c.block.warps);
    buffers[i].mark(b.CreateStore(out[i], place(i, c.warp)), SharedBuffer::Access::kWrite, 0);
  }
  for (size_t i = 0; i < out.size(); ++i) {
    Value* whole = nullptr;
    for (int warp = 0; warp < c.block.warps; ++warp) {
      auto* part = b.CreateLoad(out[i]->getType(), place(i, b.getInt32(static_cast<uint32_t>(warp))));
      buffers[i].mark(part, SharedBuffer::Access::kRead, 1);
      whole = whole ? values[i].combine(whole, part) : part;
    }
    out[i] = whole;
  }
  return out;
}

}  // namespace kiln::codegen::gpu

// Whether a launch writes much is known when it runs: programs × visits of the store by each × bytes of the tile. Both
// kinds of store stand beside each other in the innermost loop, behind a branch that always goes the same way.
#include "cpu/nest/streaming.h"

#include <llvm/IR/IntrinsicsX86.h>

#include <bit>

namespace kiln::codegen::cpu {
namespace {

// Bytes that a launch writes. Below, the last-level cache keeps them for the launch that reads them next.
constexpr int64_t kLarge = 16 << 20;
// The narrowest register: vectors at addresses of this alignment are stored piece by piece.
constexpr uint64_t kPiece = 16;
constexpr int64_t kLine = 64;
// Rows that are long enough for the broken lines at their ends not to matter.
constexpr int64_t kLongRow = 16 * kLine;

}  // namespace

Value* bytes_stored(Context& c, const Op& store, Value* elements) {
  Builder& b = c.b;
  Value* total = b.CreateMul(elements, c.i64(memory_bytes(c.type(store.operands[1]))));
  for (Value* programs : c.num_programs) total = b.CreateMul(total, b.CreateZExt(programs, b.getInt64Ty()));
  return c.visits ? b.CreateMul(total, c.visits) : total;
}

Value* streams(Context& c, const Op& store, Value* elements) {
  if (!c.target.is_x86 || !c.schedule.write_only.contains(&store)) return nullptr;
  c.streamed = true;
  return c.b.CreateICmpUGE(bytes_stored(c, store, elements), c.i64(kLarge));
}

void prefetch(Context& c, const Ahead& ahead) {
  Builder& b = c.b;
  for (int64_t at = 0; at < ahead.bytes; at += kLine) {
    Value* line = b.CreateGEP(b.getInt8Ty(), ahead.pointer, c.i64(at));
    b.CreateIntrinsic(llvm::Intrinsic::prefetch, {line->getType()},
                      {line, b.getInt32(0), b.getInt32(2), b.getInt32(1)});
  }
}

void store_vector(Context& c, Value* vector, Value* pointer, llvm::Align align, Value* streams, int64_t row_bytes,
                  llvm::ArrayRef<Ahead> ahead) {
  Builder& b = c.b;
  const uint64_t bytes = vector->getType()->getPrimitiveSizeInBits().getFixedValue() / 8;
  // Half of a line past the caches and half of it through them costs more than either.
  const bool whole_lines = row_bytes < kLongRow;
  const bool breaks_lines = whole_lines && (row_bytes % kLine != 0 || bytes < uint64_t{kLine});
  if (!streams || bytes < kPiece || breaks_lines) {
    b.CreateAlignedStore(vector, pointer, align);
    return;
  }
  const llvm::Align wanted(whole_lines ? uint64_t{kLine} : kPiece);
  Value* misplaced =
      b.CreateAnd(b.CreatePtrToInt(pointer, b.getInt64Ty()), c.i64(static_cast<int64_t>(wanted.value()) - 1));
  auto* past = llvm::BasicBlock::Create(b.getContext(), "past.caches", c.function);
  auto* plain = llvm::BasicBlock::Create(b.getContext(), "plain", c.function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "stored", c.function);
  b.CreateCondBr(b.CreateAnd(streams, b.CreateICmpEQ(misplaced, c.i64(0))), past, plain);
  b.SetInsertPoint(past);
  for (const Ahead& each : ahead) prefetch(c, each);
  // Rows side by side are vectors of any length.
  auto* store = b.CreateAlignedStore(vector, pointer, std::min(wanted, llvm::Align(std::bit_floor(bytes))));
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(b.getContext(), llvm::ConstantAsMetadata::get(b.getInt32(1))));
  b.CreateBr(after);
  b.SetInsertPoint(plain);
  b.CreateAlignedStore(vector, pointer, align);
  b.CreateBr(after);
  b.SetInsertPoint(after);
}

void end_streaming(Context& c) {
  if (c.streamed) c.b.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {}, {});
}

}  // namespace kiln::codegen::cpu

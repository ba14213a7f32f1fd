// Whether a launch writes much is known when it runs: programs × trip count of the store in each × bytes of the tile.
// Both kinds of store stand beside each other in the innermost loop, behind a branch that always goes the same way.
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

Value* bytes_stored(Context& ctx, const Op& store, Value* elements) {
  Builder& ir = ctx.ir;
  Value* total = ir.CreateMul(elements, ctx.i64(memory_bytes(ctx.type(store.operands[1]))));
  for (Value* programs : ctx.num_programs) total = ir.CreateMul(total, ir.CreateZExt(programs, ir.getInt64Ty()));
  return ctx.trip_count ? ir.CreateMul(total, ctx.trip_count) : total;
}

Value* streams(Context& ctx, const Op& store, Value* elements) {
  if (!ctx.target.is_x86 || !ctx.schedule.write_only.contains(&store)) return nullptr;
  ctx.streamed = true;
  return ctx.ir.CreateICmpUGE(bytes_stored(ctx, store, elements), ctx.i64(kLarge));
}

void prefetch(Context& ctx, const Ahead& ahead) {
  Builder& ir = ctx.ir;
  for (int64_t at = 0; at < ahead.bytes; at += kLine) {
    Value* line = ir.CreateGEP(ir.getInt8Ty(), ahead.pointer, ctx.i64(at));
    ir.CreateIntrinsic(llvm::Intrinsic::prefetch, {line->getType()},
                       {line, ir.getInt32(0), ir.getInt32(2), ir.getInt32(1)});
  }
}

void store_vector(Context& ctx, Value* vector, Value* pointer, llvm::Align align, Value* streams, int64_t row_bytes,
                  llvm::ArrayRef<Ahead> ahead) {
  Builder& ir = ctx.ir;
  const uint64_t bytes = vector->getType()->getPrimitiveSizeInBits().getFixedValue() / 8;
  // Half of a line past the caches and half of it through them costs more than either.
  const bool whole_lines = row_bytes < kLongRow;
  const bool breaks_lines = whole_lines && (row_bytes % kLine != 0 || bytes < uint64_t{kLine});
  if (!streams || bytes < kPiece || breaks_lines) {
    ir.CreateAlignedStore(vector, pointer, align);
    return;
  }
  const llvm::Align wanted(whole_lines ? uint64_t{kLine} : kPiece);
  Value* misplaced =
      ir.CreateAnd(ir.CreatePtrToInt(pointer, ir.getInt64Ty()), ctx.i64(static_cast<int64_t>(wanted.value()) - 1));
  auto* past = llvm::BasicBlock::Create(ir.getContext(), "past.caches", ctx.function);
  auto* plain = llvm::BasicBlock::Create(ir.getContext(), "plain", ctx.function);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "stored", ctx.function);
  ir.CreateCondBr(ir.CreateAnd(streams, ir.CreateICmpEQ(misplaced, ctx.i64(0))), past, plain);
  ir.SetInsertPoint(past);
  for (const Ahead& each : ahead) prefetch(ctx, each);
  // Rows side by side are vectors of any length.
  auto* store = ir.CreateAlignedStore(vector, pointer, std::min(wanted, llvm::Align(std::bit_floor(bytes))));
  store->setMetadata(llvm::LLVMContext::MD_nontemporal,
                     llvm::MDNode::get(ir.getContext(), llvm::ConstantAsMetadata::get(ir.getInt32(1))));
  ir.CreateBr(after);
  ir.SetInsertPoint(plain);
  ir.CreateAlignedStore(vector, pointer, align);
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
}

void end_streaming(Context& ctx) {
  if (ctx.streamed) ctx.ir.CreateIntrinsic(llvm::Intrinsic::x86_sse_sfence, {});
}

}  // namespace kiln::codegen::cpu

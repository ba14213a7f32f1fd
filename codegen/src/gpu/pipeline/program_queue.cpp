#include "gpu/pipeline/program_queue.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kPlaces = 2, kQueueBarrierBytes = 8, kNumberBytes = 4;
constexpr int kPhase = 0;  // of all accesses: their order is that of the barriers

Value* place_in(Context& ctx, const SharedBuffer& buffer, int bytes, const QueueEnd& end) {
  Builder& ir = ctx.ir;
  Value* number = ir.CreateLoad(ir.getInt32Ty(), end.place);
  return ir.CreateGEP(ir.getInt8Ty(), buffer.pointer(),
                      ir.CreateMul(number, ir.getInt32(static_cast<uint32_t>(bytes))));
}

void wait_for(Context& ctx, const SharedBuffer& barriers, const QueueEnd& end) {
  barriers.touch(ctx.ir, SharedBuffer::Access::kRead, kPhase);
  Value* parity = ctx.ir.CreateLoad(ctx.ir.getInt32Ty(), end.parity);
  ctx.target.bulk_engine()->wait(ctx.ir, place_in(ctx, barriers, kQueueBarrierBytes, end), parity);
}

void arrive_at(Context& ctx, const SharedBuffer& barriers, const QueueEnd& end, Value* chosen) {
  barriers.touch(ctx.ir, SharedBuffer::Access::kWrite, kPhase);
  ctx.target.bulk_engine()->arrive(ctx.ir, place_in(ctx, barriers, kQueueBarrierBytes, end), chosen);
}

void step(Context& ctx, const QueueEnd& end) {
  Builder& ir = ctx.ir;
  Value* next = ir.CreateAdd(ir.CreateLoad(ir.getInt32Ty(), end.place), ir.getInt32(1));
  Value* wraps = ir.CreateICmpEQ(next, ir.getInt32(kPlaces));
  ir.CreateStore(ir.CreateSelect(wraps, ir.getInt32(0), next), end.place);
  Value* parity = ir.CreateLoad(ir.getInt32Ty(), end.parity);
  ir.CreateStore(ir.CreateXor(parity, ir.CreateZExt(wraps, ir.getInt32Ty())), end.parity);
}

}  // namespace

ProgramQueue make_program_queue(Context& ctx) {
  Builder& ir = ctx.ir;
  return {SharedBuffer(ir, kNumberBytes * kPlaces), SharedBuffer(ir, kQueueBarrierBytes * kPlaces),
          SharedBuffer(ir, kQueueBarrierBytes * kPlaces)};
}

void init_program_queue(Context& ctx, const ProgramQueue& queue, Value* chosen) {
  Builder& ir = ctx.ir;
  for (const auto& [barriers, arrivals] : {std::pair(&queue.full, 1), std::pair(&queue.free, ctx.block.warps)}) {
    barriers->touch(ir, SharedBuffer::Access::kWrite, kPhase);
    for (int i = 0; i < kPlaces; ++i) {
      Value* barrier =
          ir.CreateConstGEP1_64(ir.getInt8Ty(), barriers->pointer(), static_cast<uint64_t>(kQueueBarrierBytes * i));
      ctx.target.bulk_engine()->init_barrier(ir, barrier, arrivals, chosen);
    }
  }
  queue.numbers.touch(ir, SharedBuffer::Access::kWrite, kPhase);
}

QueueEnd begin_queue(Context& ctx, bool gives) {
  llvm::IRBuilder<> entry(ctx.prologue_end);
  QueueEnd out{entry.CreateAlloca(entry.getInt32Ty()), entry.CreateAlloca(entry.getInt32Ty())};
  entry.CreateStore(entry.getInt32(0), out.place);
  entry.CreateStore(entry.getInt32(gives ? 1 : 0), out.parity);  // a place that nobody has used is free
  return out;
}

void give_program(Context& ctx, const QueueEnd& end, Value* number) {
  const ProgramQueue& queue = *ctx.queue;
  wait_for(ctx, queue.free, end);
  queue.numbers.touch(ctx.ir, SharedBuffer::Access::kWrite, kPhase);
  ctx.target.bulk_engine()->send(ctx.ir, place_in(ctx, queue.numbers, kNumberBytes, end), number);
  arrive_at(ctx, queue.full, end, ctx.ir.getTrue());
  step(ctx, end);
}

// The first lane tells the others: once it has the number the place may be filled again.
Value* take_program(Context& ctx, const QueueEnd& end) {
  const ProgramQueue& queue = *ctx.queue;
  wait_for(ctx, queue.full, end);
  queue.numbers.touch(ctx.ir, SharedBuffer::Access::kRead, kPhase);
  Value* received = ctx.target.bulk_engine()->receive(ctx.ir, place_in(ctx, queue.numbers, kNumberBytes, end));
  Value* number = ctx.target.warp_uniform(ctx.ir, received);
  arrive_at(ctx, queue.free, end, ctx.ir.CreateIsNull(ctx.lane));
  step(ctx, end);
  return number;
}

Value* count_program(Context& ctx, Value* programs) {
  return ctx.target.bulk_engine()->count_up(ctx.ir, ctx.program_counter,
                                            ctx.ir.CreateSub(programs, ctx.ir.getInt32(1)));
}

}  // namespace kiln::codegen::gpu

#include "gpu/pipeline/program_queue.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kPlaces = 2, kBarrierBytes = 8, kNumberBytes = 4;
constexpr int kPhase = 0;  // of all accesses: their order is that of the barriers

Value* place_in(Context& c, const SharedBuffer& buffer, int bytes, const QueueEnd& end) {
  Builder& b = c.b;
  Value* number = b.CreateLoad(b.getInt32Ty(), end.place);
  return b.CreateGEP(b.getInt8Ty(), buffer.pointer(), b.CreateMul(number, b.getInt32(static_cast<uint32_t>(bytes))));
}

void wait_for(Context& c, const SharedBuffer& barriers, const QueueEnd& end) {
  barriers.touch(c.b, SharedBuffer::Access::kRead, kPhase);
  Value* parity = c.b.CreateLoad(c.b.getInt32Ty(), end.parity);
  c.target.bulk_engine()->wait(c.b, place_in(c, barriers, kBarrierBytes, end), parity);
}

void arrive_at(Context& c, const SharedBuffer& barriers, const QueueEnd& end, Value* chosen) {
  barriers.touch(c.b, SharedBuffer::Access::kWrite, kPhase);
  c.target.bulk_engine()->arrive(c.b, place_in(c, barriers, kBarrierBytes, end), chosen);
}

void step(Context& c, const QueueEnd& end) {
  Builder& b = c.b;
  Value* next = b.CreateAdd(b.CreateLoad(b.getInt32Ty(), end.place), b.getInt32(1));
  Value* wraps = b.CreateICmpEQ(next, b.getInt32(kPlaces));
  b.CreateStore(b.CreateSelect(wraps, b.getInt32(0), next), end.place);
  Value* parity = b.CreateLoad(b.getInt32Ty(), end.parity);
  b.CreateStore(b.CreateXor(parity, b.CreateZExt(wraps, b.getInt32Ty())), end.parity);
}

}  // namespace

ProgramQueue make_program_queue(Context& c) {
  Builder& b = c.b;
  return {SharedBuffer(b, kNumberBytes * kPlaces), SharedBuffer(b, kBarrierBytes * kPlaces),
          SharedBuffer(b, kBarrierBytes * kPlaces)};
}

void init_program_queue(Context& c, const ProgramQueue& queue, Value* chosen) {
  Builder& b = c.b;
  for (const auto& [barriers, arrivals] : {std::pair(&queue.full, 1), std::pair(&queue.free, c.block.warps)}) {
    barriers->touch(b, SharedBuffer::Access::kWrite, kPhase);
    for (int i = 0; i < kPlaces; ++i) {
      Value* barrier =
          b.CreateConstGEP1_64(b.getInt8Ty(), barriers->pointer(), static_cast<uint64_t>(kBarrierBytes * i));
      c.target.bulk_engine()->init_barrier(b, barrier, arrivals, chosen);
    }
  }
  queue.numbers.touch(b, SharedBuffer::Access::kWrite, kPhase);
}

QueueEnd begin_queue(Context& c, bool gives) {
  llvm::IRBuilder<> entry(c.prologue_end);
  QueueEnd out{entry.CreateAlloca(entry.getInt32Ty()), entry.CreateAlloca(entry.getInt32Ty())};
  entry.CreateStore(entry.getInt32(0), out.place);
  entry.CreateStore(entry.getInt32(gives ? 1 : 0), out.parity);  // a place that nobody has used is free
  return out;
}

void give_program(Context& c, const QueueEnd& end, Value* number) {
  const ProgramQueue& queue = *c.queue;
  wait_for(c, queue.free, end);
  queue.numbers.touch(c.b, SharedBuffer::Access::kWrite, kPhase);
  c.target.bulk_engine()->send(c.b, place_in(c, queue.numbers, kNumberBytes, end), number);
  arrive_at(c, queue.full, end, c.b.getTrue());
  step(c, end);
}

// The first lane tells the others: once it has the number the place may be filled again.
Value* take_program(Context& c, const QueueEnd& end) {
  const ProgramQueue& queue = *c.queue;
  wait_for(c, queue.full, end);
  queue.numbers.touch(c.b, SharedBuffer::Access::kRead, kPhase);
  Value* received = c.target.bulk_engine()->receive(c.b, place_in(c, queue.numbers, kNumberBytes, end));
  Value* number = c.target.warp_uniform(c.b, received);
  arrive_at(c, queue.free, end, c.b.CreateIsNull(c.lane));
  step(c, end);
  return number;
}

Value* count_program(Context& c, Value* programs) {
  return c.target.bulk_engine()->count_up(c.b, c.program_counter, c.b.CreateSub(programs, c.b.getInt32(1)));
}

}  // namespace kiln::codegen::gpu

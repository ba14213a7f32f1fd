// print: a message in a ring that the client reads (docs/reference/artifact.md). One thread reserves room for it, all
// write the elements that they have, and when all have, that thread says that the message is complete.
#include "gpu/ops/print.h"

#include "gpu/address/register_groups.h"
#include "gpu/layout/algebra.h"
#include "kiln/abi/print_ring.h"

namespace kiln::codegen::gpu {
namespace {

using abi::PrintMessage;
using abi::PrintRing;

struct Printed {
  ValueId id;
  Layout layout;
  Registers registers;
  uint64_t offset = 0;  // in the message
};

Value* field(Context& ctx, uint64_t offset) {
  return ctx.ir.CreateConstGEP1_64(ctx.ir.getInt8Ty(), ctx.print_ring, offset);
}

Value* load_field(Context& ctx, uint64_t offset) {
  return ctx.target.load_global(ctx.ir, ctx.ir.getInt64Ty(), {field(ctx, offset), nullptr, dsl::CacheHint::kGlobal},
                                nullptr);
}

// By one thread: where the message begins, counted from the ring's first byte ever, or -1 where there is no room.
//
//   do { was = seen; if (was + bytes > released + capacity) { ++lost; return -1 }
//        seen = compare_exchange(reserved, was, was + bytes) } while (seen != was)
Value* reserve(Context& ctx, uint64_t bytes) {
  Builder& ir = ctx.ir;
  const auto block = [&](const char* name) { return llvm::BasicBlock::Create(ir.getContext(), name, ctx.function); };
  llvm::BasicBlock *retry = block("reserve"), *attempt = block("reserve.try"), *full = block("reserve.full"),
                   *done = block("reserved");
  Value* seen_first = load_field(ctx, offsetof(PrintRing, reserved));
  llvm::BasicBlock* before = ir.GetInsertBlock();
  ir.CreateBr(retry);

  ir.SetInsertPoint(retry);
  auto* seen = ir.CreatePHI(ir.getInt64Ty(), 2);
  seen->addIncoming(seen_first, before);
  Value* end = ir.CreateAdd(seen, ir.getInt64(bytes));
  Value* limit =
      ir.CreateAdd(load_field(ctx, offsetof(PrintRing, released)), load_field(ctx, offsetof(PrintRing, capacity)));
  ir.CreateCondBr(ir.CreateICmpUGT(end, limit), full, attempt);

  ir.SetInsertPoint(attempt);
  Value* held = ctx.target.compare_exchange(
      ir, seen, end, {field(ctx, offsetof(PrintRing, reserved)), nullptr, dsl::MemoryScope::kDevice});
  llvm::BasicBlock* tried = ir.GetInsertBlock();
  seen->addIncoming(held, tried);
  ir.CreateCondBr(ir.CreateICmpEQ(held, seen), done, retry);

  ir.SetInsertPoint(full);
  ctx.target.atomic_rmw(ir, dsl::AtomicKind::kAdd, ElementType::kU64, ir.getInt64(1), false,
                        {field(ctx, offsetof(PrintRing, lost)), nullptr, dsl::MemoryScope::kDevice});
  llvm::BasicBlock* lost = ir.GetInsertBlock();
  ir.CreateBr(done);

  ir.SetInsertPoint(done);
  auto* out = ir.CreatePHI(ir.getInt64Ty(), 2);
  out->addIncoming(seen, tried);
  out->addIncoming(ir.getInt64(~uint64_t{0}), lost);
  return out;
}

// What the leader has reserved, in all threads.
Value* reserve_for_block(Context& ctx, Value* leader, uint64_t bytes) {
  Builder& ir = ctx.ir;
  auto* alone = llvm::BasicBlock::Create(ir.getContext(), "leader", ctx.function);
  auto* together = llvm::BasicBlock::Create(ir.getContext(), "together", ctx.function);
  llvm::BasicBlock* before = ir.GetInsertBlock();
  ir.CreateCondBr(leader, alone, together);
  ir.SetInsertPoint(alone);
  Value* reserved = reserve(ctx, bytes);
  llvm::BasicBlock* behind = ir.GetInsertBlock();
  ir.CreateBr(together);
  ir.SetInsertPoint(together);
  auto* start = ir.CreatePHI(ir.getInt64Ty(), 2);
  start->addIncoming(ir.getInt64(0), before);
  start->addIncoming(reserved, behind);
  Registers out = {start};
  tell_copies(ctx, replicated({}, ctx.block), leader, out);
  return out[0];
}

void write_message(Context& ctx, const Op& op, const std::vector<Printed>& values, uint64_t bytes) {
  Builder& ir = ctx.ir;
  Value* leader = is_first_copy(ctx, replicated({}, ctx.block));
  Value* start = reserve_for_block(ctx, leader, bytes);
  Value* has_room = ir.CreateICmpNE(start, ir.getInt64(~uint64_t{0}));
  Value* inside = ir.CreateSub(load_field(ctx, offsetof(PrintRing, capacity)), ir.getInt64(1));
  const auto place = [&](Value* offset) {
    Value* at = ir.CreateAnd(ir.CreateAdd(start, offset), inside);
    return ir.CreateGEP(ir.getInt8Ty(), field(ctx, sizeof(PrintRing)), at);
  };
  Value* leads = ir.CreateAnd(has_room, leader);
  const auto put = [&](uint64_t offset, Value* word) {
    ctx.target.store_global(ir, word, {place(ir.getInt64(offset)), leads});
  };
  put(offsetof(PrintMessage, print), ir.getInt32(static_cast<uint32_t>(ctx.prints.size())));
  for (size_t axis = 0; axis < 3; ++axis) put(offsetof(PrintMessage, program) + 4 * axis, ctx.program_id[axis]);
  for (const Printed& value : values) {
    const dsl::Type& type = ctx.type(value.id);
    Value* writes = both(ir, has_room, is_first_copy(ctx, value.layout));
    for (size_t reg = 0; reg < value.registers.size(); ++reg) {
      Value* number = ir.CreateZExt(ctx.element_number(value.layout, reg, type), ir.getInt64Ty());
      Value* offset = ir.CreateMul(number, ir.getInt64(static_cast<uint64_t>(dsl::info(type.element).bytes)));
      ctx.target.store_global(ir, to_memory(ir, value.registers[reg]),
                              {place(ir.CreateAdd(offset, ir.getInt64(value.offset))),
                               both(ir, writes, ctx.in_tile(value.layout, reg, type))});
    }
  }
  ctx.target.program_barrier(ir, ctx.block);
  ctx.target.fence(ir, dsl::MemoryScope::kSystem, leads);
  put(offsetof(PrintMessage, bytes), ir.getInt32(static_cast<uint32_t>(bytes)));
  ctx.prints.push_back(&op);
}

}  // namespace

Result<void> lower_print(Context& ctx, const Op& op) {
  Builder& ir = ctx.ir;
  std::vector<Printed> values;
  uint64_t bytes = sizeof(PrintMessage);
  for (ValueId id : op.operands) {
    const Layout layout = without_copies_in_registers(ctx.layout_at_hand(id)).layout;
    auto registers = ctx.get(id, layout);
    if (!registers) return registers.error();
    values.push_back({id, layout, std::move(*registers), bytes});
    bytes += abi::print_value_bytes(
        static_cast<uint64_t>(dsl::element_count(ctx.type(id)) * dsl::info(ctx.type(id).element).bytes));
  }
  auto* prints = llvm::BasicBlock::Create(ir.getContext(), "print", ctx.function);
  auto* after = llvm::BasicBlock::Create(ir.getContext(), "print.end", ctx.function);
  ir.CreateCondBr(ir.CreateIsNotNull(ctx.print_ring), prints, after);
  ir.SetInsertPoint(prints);
  write_message(ctx, op, values, bytes);
  ir.CreateBr(after);
  ir.SetInsertPoint(after);
  return {};
}

}  // namespace kiln::codegen::gpu

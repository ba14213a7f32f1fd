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

Value* field(Context& c, uint64_t offset) { return c.b.CreateConstGEP1_64(c.b.getInt8Ty(), c.print_ring, offset); }

Value* load_field(Context& c, uint64_t offset) {
  return c.target.load_global(c.b, c.b.getInt64Ty(), {field(c, offset), nullptr, dsl::CacheHint::kGlobal}, nullptr);
}

// By one thread: where the message begins, counted from the ring's first byte ever, or -1 where there is no room.
//
//   do { was = seen; if (was + bytes > released + capacity) { ++lost; return -1 }
//        seen = compare_exchange(reserved, was, was + bytes) } while (seen != was)
Value* reserve(Context& c, uint64_t bytes) {
  Builder& b = c.b;
  const auto block = [&](const char* name) { return llvm::BasicBlock::Create(b.getContext(), name, c.function); };
  llvm::BasicBlock *retry = block("reserve"), *attempt = block("reserve.try"), *full = block("reserve.full"),
                   *done = block("reserved");
  Value* seen_first = load_field(c, offsetof(PrintRing, reserved));
  llvm::BasicBlock* before = b.GetInsertBlock();
  b.CreateBr(retry);

  b.SetInsertPoint(retry);
  auto* seen = b.CreatePHI(b.getInt64Ty(), 2);
  seen->addIncoming(seen_first, before);
  Value* end = b.CreateAdd(seen, b.getInt64(bytes));
  Value* limit =
      b.CreateAdd(load_field(c, offsetof(PrintRing, released)), load_field(c, offsetof(PrintRing, capacity)));
  b.CreateCondBr(b.CreateICmpUGT(end, limit), full, attempt);

  b.SetInsertPoint(attempt);
  Value* held = c.target.compare_exchange(
      b, seen, end, {field(c, offsetof(PrintRing, reserved)), nullptr, dsl::MemoryScope::kDevice});
  llvm::BasicBlock* tried = b.GetInsertBlock();
  seen->addIncoming(held, tried);
  b.CreateCondBr(b.CreateICmpEQ(held, seen), done, retry);

  b.SetInsertPoint(full);
  c.target.atomic_rmw(b, dsl::AtomicKind::kAdd, ElementType::kU64, b.getInt64(1), false,
                      {field(c, offsetof(PrintRing, lost)), nullptr, dsl::MemoryScope::kDevice});
  llvm::BasicBlock* lost = b.GetInsertBlock();
  b.CreateBr(done);

  b.SetInsertPoint(done);
  auto* out = b.CreatePHI(b.getInt64Ty(), 2);
  out->addIncoming(seen, tried);
  out->addIncoming(b.getInt64(~uint64_t{0}), lost);
  return out;
}

// What the leader has reserved, in all threads.
Value* reserve_for_block(Context& c, Value* leader, uint64_t bytes) {
  Builder& b = c.b;
  auto* alone = llvm::BasicBlock::Create(b.getContext(), "leader", c.function);
  auto* together = llvm::BasicBlock::Create(b.getContext(), "together", c.function);
  llvm::BasicBlock* before = b.GetInsertBlock();
  b.CreateCondBr(leader, alone, together);
  b.SetInsertPoint(alone);
  Value* reserved = reserve(c, bytes);
  llvm::BasicBlock* behind = b.GetInsertBlock();
  b.CreateBr(together);
  b.SetInsertPoint(together);
  auto* start = b.CreatePHI(b.getInt64Ty(), 2);
  start->addIncoming(b.getInt64(0), before);
  start->addIncoming(reserved, behind);
  Registers out = {start};
  tell_copies(c, replicated({}, c.block), leader, out);
  return out[0];
}

void write_message(Context& c, const Op& op, const std::vector<Printed>& values, uint64_t bytes) {
  Builder& b = c.b;
  Value* leader = is_first_copy(c, replicated({}, c.block));
  Value* start = reserve_for_block(c, leader, bytes);
  Value* has_room = b.CreateICmpNE(start, b.getInt64(~uint64_t{0}));
  Value* inside = b.CreateSub(load_field(c, offsetof(PrintRing, capacity)), b.getInt64(1));
  const auto place = [&](Value* offset) {
    Value* at = b.CreateAnd(b.CreateAdd(start, offset), inside);
    return b.CreateGEP(b.getInt8Ty(), field(c, sizeof(PrintRing)), at);
  };
  Value* leads = b.CreateAnd(has_room, leader);
  const auto put = [&](uint64_t offset, Value* word) {
    c.target.store_global(b, word, {place(b.getInt64(offset)), leads});
  };
  put(offsetof(PrintMessage, print), b.getInt32(static_cast<uint32_t>(c.prints.size())));
  for (size_t axis = 0; axis < 3; ++axis) put(offsetof(PrintMessage, program) + 4 * axis, c.program_id[axis]);
  for (const Printed& value : values) {
    const dsl::Type& type = c.type(value.id);
    Value* writes = both(b, has_room, is_first_copy(c, value.layout));
    for (size_t reg = 0; reg < value.registers.size(); ++reg) {
      Value* number = b.CreateZExt(c.element_number(value.layout, reg, type), b.getInt64Ty());
      Value* offset = b.CreateMul(number, b.getInt64(static_cast<uint64_t>(dsl::info(type.element).bytes)));
      c.target.store_global(
          b, to_memory(b, value.registers[reg]),
          {place(b.CreateAdd(offset, b.getInt64(value.offset))), both(b, writes, c.in_tile(value.layout, reg, type))});
    }
  }
  c.target.program_barrier(b, c.block);
  c.target.fence(b, dsl::MemoryScope::kSystem, leads);
  put(offsetof(PrintMessage, bytes), b.getInt32(static_cast<uint32_t>(bytes)));
  c.prints.push_back(&op);
}

}  // namespace

Result<void> lower_print(Context& c, const Op& op) {
  Builder& b = c.b;
  std::vector<Printed> values;
  uint64_t bytes = sizeof(PrintMessage);
  for (ValueId id : op.operands) {
    const Layout layout = without_copies_in_registers(c.layout_at_hand(id)).layout;
    auto registers = c.get(id, layout);
    if (!registers) return registers.error();
    values.push_back({id, layout, std::move(*registers), bytes});
    bytes += abi::print_value_bytes(
        static_cast<uint64_t>(dsl::element_count(c.type(id)) * dsl::info(c.type(id).element).bytes));
  }
  auto* prints = llvm::BasicBlock::Create(b.getContext(), "print", c.function);
  auto* after = llvm::BasicBlock::Create(b.getContext(), "print.end", c.function);
  b.CreateCondBr(b.CreateIsNotNull(c.print_ring), prints, after);
  b.SetInsertPoint(prints);
  write_message(c, op, values, bytes);
  b.CreateBr(after);
  b.SetInsertPoint(after);
  return {};
}

}  // namespace kiln::codegen::gpu

#include "gpu/address/register_groups.h"

#include "gpu/address/address.h"
#include "gpu/address/offset_address.h"
#include "gpu/layout/access.h"
#include "gpu/layout/algebra.h"
#include "gpu/shared/convert.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {

int64_t vector_of(Context& ctx, const Op& op, const Layout& layout, std::optional<ValueId> mask) {
  const dsl::Type& type = ctx.type(op.operands[0]);
  const int64_t bytes = dsl::info(type.element).bytes;
  const AxisInfo& info = ctx.info[op.operands[0]];
  int64_t vector = vector_width(layout, info.contiguous, 0, static_cast<int>(8 * bytes));
  const auto fits = [&](int64_t n) {
    return dsl::concrete_shape(type).back() % n == 0 && multiple_of_groups(info, n, bytes) % (n * bytes) == 0 &&
           (!mask || ctx.info[*mask].constant % n == 0);
  };
  while (vector > 1 && !fits(vector)) vector /= 2;
  return vector;
}

std::vector<Group> groups_of(const Layout& layout, int64_t vector, std::optional<int> axis) {
  const Columns& bases = layout.bases(Dim::kRegister);
  const Span registers(bases);
  std::vector<Bits> neighbour;  // the registers of the elements 1, 2, 4, … further on
  const int shift = layout.axis_offset(axis.value_or(layout.rank() - 1));
  for (int64_t n = 1; n < vector; n *= 2) neighbour.push_back(*registers.solve(static_cast<Bits>(n) << shift));
  const Bits inside = static_cast<Bits>(vector - 1) << shift;
  std::vector<Group> out;
  for (Bits reg = 0; reg < static_cast<Bits>(layout.size(Dim::kRegister)); ++reg) {
    if ((multiply(bases, reg) & inside) != 0) continue;
    Group group;
    for (Bits i = 0; i < static_cast<Bits>(vector); ++i) group.push_back(reg ^ multiply(neighbour, i));
    out.push_back(std::move(group));
  }
  return out;
}

Value* both(Builder& ir, Value* x, Value* y) { return !x ? y : !y ? x : ir.CreateAnd(x, y); }

Value* pointer_of(Context& ctx, const Address& address) {
  if (address.offset == 0) return address.base;
  return ctx.ir.CreateGEP(ctx.ir.getInt8Ty(), address.base, ctx.ir.getInt64(static_cast<uint64_t>(address.offset)));
}

Result<std::vector<Address>> access_addresses(Context& ctx, ValueId pointers, const Layout& layout) {
  auto by_offset = offset_addresses(ctx, pointers, layout);
  return by_offset ? std::move(*by_offset) : addresses(ctx, pointers, layout);
}

GlobalAccess access_at(Context& ctx, const Address& address, Value* predicate) {
  GlobalAccess out;
  out.predicate = predicate;
  if (address.by_thread) {
    out.offsets = {address.base, address.by_thread, address.offset};
  } else {
    out.pointer = pointer_of(ctx, address);
  }
  return out;
}

Result<Registers> get_if(Context& ctx, const std::optional<ValueId>& id, const Layout& layout) {
  return id ? ctx.get(*id, layout) : Result<Registers>(Registers());
}

std::optional<ValueId> operand(const Op& op, size_t index) {
  return op.operands.size() > index ? std::optional(op.operands[index]) : std::nullopt;
}

// Copies are in threads that differ in free bits of lanes and warps; the first has zeros there.
Value* is_first_copy(Context& ctx, const Layout& layout) {
  Value* out = nullptr;
  for (Dim dim : {Dim::kLane, Dim::kWarp}) {
    const Bits free = layout.free_mask(dim);
    if (free == 0) continue;
    Value* index = dim == Dim::kLane ? ctx.lane : ctx.warp;
    out = both(ctx.ir, out, ctx.ir.CreateIsNull(ctx.ir.CreateAnd(index, ctx.ir.getInt32(static_cast<uint32_t>(free)))));
  }
  return out;
}

void tell_copies(Context& ctx, const Layout& layout, Value* first, Registers& bits) {
  Builder& ir = ctx.ir;
  if (!first) return;
  if (layout.free_mask(Dim::kWarp) == 0) {
    Value* from = ir.CreateAnd(ctx.lane, ir.getInt32(~static_cast<uint32_t>(layout.free_mask(Dim::kLane))));
    for (Value*& x : bits) x = shuffle(ctx, x, from);
    return;
  }
  const Layout numbers = reshape(layout, {int64_t{1} << layout.element_bits()});
  const auto bytes = static_cast<int64_t>(bits[0]->getType()->getPrimitiveSizeInBits()) / 8;
  const SharedBuffer buffer(ir, bytes * numbers.shape()[0]);
  const auto place = [&](size_t reg) {
    Value* offset = ir.CreateMul(ctx.coordinate(numbers, reg, 0), ir.getInt32(static_cast<uint32_t>(bytes)));
    return ir.CreateGEP(ir.getInt8Ty(), buffer.pointer(), offset);
  };
  auto* tell = llvm::BasicBlock::Create(ir.getContext(), "tell", ctx.function);
  auto* told = llvm::BasicBlock::Create(ir.getContext(), "told", ctx.function);
  // The branch stands for the writes: a barrier in front of them is for all threads.
  buffer.mark(ir.CreateCondBr(first, tell, told), SharedBuffer::Access::kWrite, 0);
  ir.SetInsertPoint(tell);
  for (size_t reg = 0; reg < bits.size(); ++reg) ir.CreateStore(bits[reg], place(reg));
  ir.CreateBr(told);
  ir.SetInsertPoint(told);
  for (size_t reg = 0; reg < bits.size(); ++reg) {
    auto* load = ir.CreateLoad(bits[reg]->getType(), place(reg));
    buffer.mark(load, SharedBuffer::Access::kRead, 1);
    bits[reg] = load;
  }
}

}  // namespace kiln::codegen::gpu

#include "gpu/address/register_groups.h"

#include "gpu/address/address.h"
#include "gpu/address/offset_address.h"
#include "gpu/layout/access.h"
#include "gpu/layout/algebra.h"
#include "gpu/shared/convert.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {

int64_t vector_of(Context& c, const Op& op, const Layout& layout, std::optional<ValueId> mask) {
  const dsl::Type& type = c.type(op.operands[0]);
  const int64_t bytes = dsl::info(type.element).bytes;
  const AxisInfo& info = c.info[op.operands[0]];
  int64_t vector = vector_width(layout, info.contiguous, 0, static_cast<int>(8 * bytes));
  const auto fits = [&](int64_t n) {
    return dsl::concrete_shape(type).back() % n == 0 && multiple_of_groups(info, n, bytes) % (n * bytes) == 0 &&
           (!mask || c.info[*mask].constant % n == 0);
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

Value* both(Builder& b, Value* x, Value* y) { return !x ? y : !y ? x : b.CreateAnd(x, y); }

Value* pointer_of(Context& c, const Address& address) {
  if (address.offset == 0) return address.base;
  return c.b.CreateGEP(c.b.getInt8Ty(), address.base, c.b.getInt64(static_cast<uint64_t>(address.offset)));
}

Result<std::vector<Address>> access_addresses(Context& c, ValueId pointers, const Layout& layout) {
  auto by_offset = offset_addresses(c, pointers, layout);
  return by_offset ? std::move(*by_offset) : addresses(c, pointers, layout);
}

GlobalAccess access_at(Context& c, const Address& address, Value* predicate) {
  GlobalAccess out;
  out.predicate = predicate;
  if (address.by_thread) {
    out.offsets = {address.base, address.by_thread, address.offset};
  } else {
    out.pointer = pointer_of(c, address);
  }
  return out;
}

Result<Registers> get_if(Context& c, const std::optional<ValueId>& id, const Layout& layout) {
  return id ? c.get(*id, layout) : Result<Registers>(Registers());
}

std::optional<ValueId> operand(const Op& op, size_t index) {
  return op.operands.size() > index ? std::optional(op.operands[index]) : std::nullopt;
}

// Copies are in threads that differ in free bits of lanes and warps; the first has zeros there.
Value* is_first_copy(Context& c, const Layout& layout) {
  Value* out = nullptr;
  for (Dim dim : {Dim::kLane, Dim::kWarp}) {
    const Bits free = layout.free_mask(dim);
    if (free == 0) continue;
    Value* index = dim == Dim::kLane ? c.lane : c.warp;
    out = both(c.b, out, c.b.CreateIsNull(c.b.CreateAnd(index, c.b.getInt32(static_cast<uint32_t>(free)))));
  }
  return out;
}

void tell_copies(Context& c, const Layout& layout, Value* first, Registers& bits) {
  Builder& b = c.b;
  if (!first) return;
  if (layout.free_mask(Dim::kWarp) == 0) {
    Value* from = b.CreateAnd(c.lane, b.getInt32(~static_cast<uint32_t>(layout.free_mask(Dim::kLane))));
    for (Value*& x : bits) x = shuffle(c, x, from);
    return;
  }
  const Layout numbers = reshape(layout, {int64_t{1} << layout.element_bits()});
  const auto bytes = static_cast<int64_t>(bits[0]->getType()->getPrimitiveSizeInBits()) / 8;
  const SharedBuffer buffer(b, bytes * numbers.shape()[0]);
  const auto place = [&](size_t reg) {
    Value* offset = b.CreateMul(c.coordinate(numbers, reg, 0), b.getInt32(static_cast<uint32_t>(bytes)));
    return b.CreateGEP(b.getInt8Ty(), buffer.pointer(), offset);
  };
  auto* tell = llvm::BasicBlock::Create(b.getContext(), "tell", c.function);
  auto* told = llvm::BasicBlock::Create(b.getContext(), "told", c.function);
  // The branch stands for the writes: a barrier in front of them is for all threads.
  buffer.mark(b.CreateCondBr(first, tell, told), SharedBuffer::Access::kWrite, 0);
  b.SetInsertPoint(tell);
  for (size_t reg = 0; reg < bits.size(); ++reg) b.CreateStore(bits[reg], place(reg));
  b.CreateBr(told);
  b.SetInsertPoint(told);
  for (size_t reg = 0; reg < bits.size(); ++reg) {
    auto* load = b.CreateLoad(bits[reg]->getType(), place(reg));
    buffer.mark(load, SharedBuffer::Access::kRead, 1);
    bits[reg] = load;
  }
}

}  // namespace kiln::codegen::gpu

#include "gpu/shared/exchange.h"

#include <llvm/ADT/MapVector.h>

#include <bit>

#include "gpu/shared/convert.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kWritePhase = 0, kReadPhase = 1;

// Ints of more than 64 bits go by halves.
Value* shuffled(Context& c, Value* x, unsigned lanes) {
  const unsigned bits = x->getType()->getPrimitiveSizeInBits().getFixedValue();
  if (bits <= 64) return shuffle_xor(c, x, lanes);
  Builder& b = c.b;
  Value* low = shuffle_xor(c, b.CreateTrunc(x, b.getInt64Ty()), lanes);
  Value* high = shuffle_xor(c, b.CreateTrunc(b.CreateLShr(x, 64), b.getInt64Ty()), lanes);
  return b.CreateOr(b.CreateZExt(low, x->getType()), b.CreateShl(b.CreateZExt(high, x->getType()), 64));
}

// Each thread writes its registers into a column of its own and reads its partner's. Rows are in the order of the
// registers, not of the values' addresses, which are others in each process.
Registers fetch_from_warp(Context& c, const Registers& own, const ScanStep& step) {
  Builder& b = c.b;
  llvm::MapVector<Value*, uint32_t> rows;
  for (Value* x : own) rows.insert({x, static_cast<uint32_t>(rows.size())});
  llvm::Type* element = to_memory(b, own[0])->getType();
  const auto threads = static_cast<uint32_t>(c.block.lanes * c.block.warps);
  const auto bytes = static_cast<int64_t>(element->getPrimitiveSizeInBits().getFixedValue()) / 8;
  const SharedBuffer buffer(b, bytes * threads * static_cast<int64_t>(rows.size()));
  const int lane_bits = std::countr_zero(static_cast<unsigned>(c.block.lanes));
  Value* thread = b.CreateOr(b.CreateShl(c.warp, static_cast<uint64_t>(lane_bits)), c.lane);
  Value* partner = b.CreateXor(thread, b.getInt32(static_cast<uint32_t>(step.warp << lane_bits | step.lane)));
  const auto address = [&](uint32_t row, Value* column) {
    return b.CreateGEP(element, buffer.pointer(), b.CreateAdd(column, b.getInt32(row * threads)));
  };
  for (const auto& [x, row] : rows) {
    buffer.mark(b.CreateStore(to_memory(b, x), address(row, thread)), SharedBuffer::Access::kWrite, kWritePhase);
  }
  std::map<uint32_t, Value*> fetched;
  Registers out;
  for (size_t reg = 0; reg < own.size(); ++reg) {
    const uint32_t row = rows.lookup(own[reg ^ step.reg]);
    Value*& x = fetched[row];
    if (!x) {
      auto* load = b.CreateLoad(element, address(row, partner));
      buffer.mark(load, SharedBuffer::Access::kRead, kReadPhase);
      x = own[0]->getType()->isIntegerTy(1) ? b.CreateIsNotNull(load) : load;
    }
    out.push_back(x);
  }
  return out;
}

// Null for 0.
Value* odd(Builder& b, Value* index, Bits mask) {
  if (mask == 0) return nullptr;
  Value* bits = b.CreateAnd(index, b.getInt32(static_cast<uint32_t>(mask)));
  if (std::has_single_bit(mask)) return b.CreateIsNotNull(bits);
  return b.CreateTrunc(b.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, bits), b.getInt1Ty());
}

}  // namespace

Registers fetch(Context& c, const Registers& own, const ScanStep& step) {
  if (step.warp != 0) return fetch_from_warp(c, own, step);
  std::map<Value*, Value*> done;
  Registers out;
  for (size_t reg = 0; reg < own.size(); ++reg) {
    Value* x = own[reg ^ step.reg];
    Value*& fetched = done[x];
    if (!fetched) fetched = step.lane == 0 ? x : shuffled(c, x, static_cast<unsigned>(step.lane));
    out.push_back(fetched);
  }
  return out;
}

Parity::Parity(Context& c, const Index& mask) : reg_(mask.reg) {
  Value *lane = odd(c.b, c.lane, mask.lane), *warp = odd(c.b, c.warp, mask.warp);
  thread_ = !lane ? warp : !warp ? lane : c.b.CreateXor(lane, warp);
}

}  // namespace kiln::codegen::gpu

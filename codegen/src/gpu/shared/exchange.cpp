#include "gpu/shared/exchange.h"

#include <llvm/ADT/MapVector.h>

#include <bit>

#include "gpu/shared/convert.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

constexpr int kWritePhase = 0, kReadPhase = 1;

// Ints of more than 64 bits go by halves.
Value* shuffled(Context& ctx, Value* x, unsigned lanes) {
  const unsigned bits = x->getType()->getPrimitiveSizeInBits().getFixedValue();
  if (bits <= 64) return shuffle_xor(ctx, x, lanes);
  Builder& ir = ctx.ir;
  Value* low = shuffle_xor(ctx, ir.CreateTrunc(x, ir.getInt64Ty()), lanes);
  Value* high = shuffle_xor(ctx, ir.CreateTrunc(ir.CreateLShr(x, 64), ir.getInt64Ty()), lanes);
  return ir.CreateOr(ir.CreateZExt(low, x->getType()), ir.CreateShl(ir.CreateZExt(high, x->getType()), 64));
}

// Each thread writes its registers into a column of its own and reads its partner's. Rows are in the order of the
// registers, not of the values' addresses, which are others in each process.
Registers fetch_from_warp(Context& ctx, const Registers& own, const ScanStep& step) {
  Builder& ir = ctx.ir;
  llvm::MapVector<Value*, uint32_t> rows;
  for (Value* x : own) rows.insert({x, static_cast<uint32_t>(rows.size())});
  llvm::Type* element = to_memory(ir, own[0])->getType();
  const auto threads = static_cast<uint32_t>(ctx.block.lanes * ctx.block.warps);
  const auto bytes = static_cast<int64_t>(element->getPrimitiveSizeInBits().getFixedValue()) / 8;
  const SharedBuffer buffer(ir, bytes * threads * static_cast<int64_t>(rows.size()));
  const int lane_bits = std::countr_zero(static_cast<unsigned>(ctx.block.lanes));
  Value* thread = ir.CreateOr(ir.CreateShl(ctx.warp, static_cast<uint64_t>(lane_bits)), ctx.lane);
  Value* partner = ir.CreateXor(thread, ir.getInt32(static_cast<uint32_t>(step.warp << lane_bits | step.lane)));
  const auto address = [&](uint32_t row, Value* column) {
    return ir.CreateGEP(element, buffer.pointer(), ir.CreateAdd(column, ir.getInt32(row * threads)));
  };
  for (const auto& [x, row] : rows) {
    buffer.mark(ir.CreateStore(to_memory(ir, x), address(row, thread)), SharedBuffer::Access::kWrite, kWritePhase);
  }
  std::map<uint32_t, Value*> fetched;
  Registers out;
  for (size_t reg = 0; reg < own.size(); ++reg) {
    const uint32_t row = rows.lookup(own[reg ^ step.reg]);
    Value*& x = fetched[row];
    if (!x) {
      auto* load = ir.CreateLoad(element, address(row, partner));
      buffer.mark(load, SharedBuffer::Access::kRead, kReadPhase);
      x = own[0]->getType()->isIntegerTy(1) ? ir.CreateIsNotNull(load) : load;
    }
    out.push_back(x);
  }
  return out;
}

// Null for 0.
Value* odd(Builder& ir, Value* index, Bits mask) {
  if (mask == 0) return nullptr;
  Value* bits = ir.CreateAnd(index, ir.getInt32(static_cast<uint32_t>(mask)));
  if (std::has_single_bit(mask)) return ir.CreateIsNotNull(bits);
  return ir.CreateTrunc(ir.CreateUnaryIntrinsic(llvm::Intrinsic::ctpop, bits), ir.getInt1Ty());
}

}  // namespace

Registers fetch(Context& ctx, const Registers& own, const ScanStep& step) {
  if (step.warp != 0) return fetch_from_warp(ctx, own, step);
  std::map<Value*, Value*> done;
  Registers out;
  for (size_t reg = 0; reg < own.size(); ++reg) {
    Value* x = own[reg ^ step.reg];
    Value*& fetched = done[x];
    if (!fetched) fetched = step.lane == 0 ? x : shuffled(ctx, x, static_cast<unsigned>(step.lane));
    out.push_back(fetched);
  }
  return out;
}

Parity::Parity(Context& ctx, const Index& mask) : reg_(mask.reg) {
  Value *lane = odd(ctx.ir, ctx.lane, mask.lane), *warp = odd(ctx.ir, ctx.warp, mask.warp);
  thread_ = !lane ? warp : !warp ? lane : ctx.ir.CreateXor(lane, warp);
}

}  // namespace kiln::codegen::gpu

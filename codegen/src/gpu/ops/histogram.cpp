// histogram: counters in shared memory, to which every thread adds its elements. Elements that are none of the bins',
// or padding, add to a counter beside them, of the lane's own so that these do not wait for each other.
#include "gpu/ops/histogram.h"

#include "gpu/address/register_groups.h"
#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

enum Phase : uint8_t { kClear, kCount, kRead };

class Counters {
 public:
  Counters(Context& ctx, int64_t bins)
      : ctx_(ctx), ir_(ctx.ir), bins_(static_cast<uint32_t>(bins)), buffer_(ctx.ir, 4 * (bins + ctx.block.lanes)) {}

  // Those that `layout` holds of the bins, and no padding.
  void clear(const Layout& layout) {
    for (size_t reg = 0; reg < static_cast<size_t>(layout.size(Dim::kRegister)); ++reg) {
      mark(ir_.CreateStore(ir_.getInt32(0), at(bin(layout, reg))), SharedBuffer::Access::kWrite, kClear);
    }
  }

  void count(Value* element, Value* counts) {
    Value* ours = ir_.CreateICmpULT(element, llvm::ConstantInt::get(element->getType(), bins_));
    if (counts) ours = ir_.CreateAnd(ours, counts);
    Value* place = ir_.CreateSelect(ours, ir_.CreateTrunc(element, ir_.getInt32Ty()), beside());
    mark(ir_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, at(place), ir_.getInt32(1), llvm::Align(4),
                             llvm::AtomicOrdering::Monotonic),
         SharedBuffer::Access::kWrite, kCount);
  }

  Registers read(const Layout& layout) {
    Registers out;
    for (size_t reg = 0; reg < static_cast<size_t>(layout.size(Dim::kRegister)); ++reg) {
      auto* load = ir_.CreateLoad(ir_.getInt32Ty(), at(bin(layout, reg)));
      mark(load, SharedBuffer::Access::kRead, kRead);
      out.push_back(load);
    }
    return out;
  }

 private:
  Value* beside() { return ir_.CreateAdd(ctx_.lane, ir_.getInt32(bins_)); }
  Value* at(Value* counter) { return ir_.CreateGEP(ir_.getInt32Ty(), buffer_.pointer(), counter); }
  void mark(llvm::Instruction* access, SharedBuffer::Access kind, Phase phase) { buffer_.mark(access, kind, phase); }
  Value* bin(const Layout& layout, size_t reg) {
    Value* inside = ctx_.in_tile(layout, reg, std::vector<int64_t>{bins_});
    Value* bin = ctx_.coordinate(layout, reg, 0);
    return inside ? ir_.CreateSelect(inside, bin, beside()) : bin;
  }

  Context& ctx_;
  Builder& ir_;
  const uint32_t bins_;
  const SharedBuffer buffer_;
};

}  // namespace

Result<void> lower_histogram(Context& ctx, const Op& op) {
  const ValueId operand = op.operands[0];
  const Layout &layout = ctx.placement.wanted.at(&op), &result = *ctx.placement.home[op.results[0]];
  auto elements = ctx.get(operand, layout);
  if (!elements) return elements.error();
  Counters counters(ctx, number_attr(op, 0));
  counters.clear(result);
  Value* first = is_first_copy(ctx, layout);
  for (size_t reg = 0; reg < elements->size(); ++reg) {
    // Negative ones are large.
    Value* x = (*elements)[reg];
    llvm::Type* wide = x->getType()->isIntegerTy(64) ? ctx.ir.getInt64Ty() : ctx.ir.getInt32Ty();
    x = dsl::info(ctx.type(operand).element).is_signed ? ctx.ir.CreateSExt(x, wide) : ctx.ir.CreateZExt(x, wide);
    Value* inside = ctx.in_tile(layout, reg, ctx.type(operand));
    counters.count(x, !inside ? first : !first ? inside : ctx.ir.CreateAnd(inside, first));
  }
  ctx.define(op.results[0], counters.read(result));
  return {};
}

}  // namespace kiln::codegen::gpu

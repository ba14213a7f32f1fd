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
  Counters(Context& c, int64_t bins)
      : c_(c), b_(c.b), bins_(static_cast<uint32_t>(bins)), buffer_(c.b, 4 * (bins + c.block.lanes)) {}

  // Those that `layout` holds of the bins, and no padding.
  void clear(const Layout& layout) {
    for (size_t reg = 0; reg < static_cast<size_t>(layout.size(Dim::kRegister)); ++reg) {
      mark(b_.CreateStore(b_.getInt32(0), at(bin(layout, reg))), SharedBuffer::Access::kWrite, kClear);
    }
  }

  void count(Value* element, Value* counts) {
    Value* ours = b_.CreateICmpULT(element, llvm::ConstantInt::get(element->getType(), bins_));
    if (counts) ours = b_.CreateAnd(ours, counts);
    Value* place = b_.CreateSelect(ours, b_.CreateTrunc(element, b_.getInt32Ty()), beside());
    mark(b_.CreateAtomicRMW(llvm::AtomicRMWInst::Add, at(place), b_.getInt32(1), llvm::Align(4),
                            llvm::AtomicOrdering::Monotonic),
         SharedBuffer::Access::kWrite, kCount);
  }

  Registers read(const Layout& layout) {
    Registers out;
    for (size_t reg = 0; reg < static_cast<size_t>(layout.size(Dim::kRegister)); ++reg) {
      auto* load = b_.CreateLoad(b_.getInt32Ty(), at(bin(layout, reg)));
      mark(load, SharedBuffer::Access::kRead, kRead);
      out.push_back(load);
    }
    return out;
  }

 private:
  Value* beside() { return b_.CreateAdd(c_.lane, b_.getInt32(bins_)); }
  Value* at(Value* counter) { return b_.CreateGEP(b_.getInt32Ty(), buffer_.pointer(), counter); }
  void mark(llvm::Instruction* access, SharedBuffer::Access kind, Phase phase) { buffer_.mark(access, kind, phase); }
  Value* bin(const Layout& layout, size_t reg) {
    Value* inside = c_.in_tile(layout, reg, std::vector<int64_t>{bins_});
    Value* bin = c_.coordinate(layout, reg, 0);
    return inside ? b_.CreateSelect(inside, bin, beside()) : bin;
  }

  Context& c_;
  Builder& b_;
  const uint32_t bins_;
  const SharedBuffer buffer_;
};

}  // namespace

Result<void> lower_histogram(Context& c, const Op& op) {
  const ValueId operand = op.operands[0];
  const Layout &layout = c.placement.wanted.at(&op), &result = *c.placement.home[op.results[0]];
  auto elements = c.get(operand, layout);
  if (!elements) return elements.error();
  Counters counters(c, number_attr(op, 0));
  counters.clear(result);
  Value* first = is_first_copy(c, layout);
  for (size_t reg = 0; reg < elements->size(); ++reg) {
    // Negative ones are large.
    Value* x = (*elements)[reg];
    llvm::Type* wide = x->getType()->isIntegerTy(64) ? c.b.getInt64Ty() : c.b.getInt32Ty();
    x = dsl::info(c.type(operand).element).is_signed ? c.b.CreateSExt(x, wide) : c.b.CreateZExt(x, wide);
    Value* inside = c.in_tile(layout, reg, c.type(operand));
    counters.count(x, !inside ? first : !first ? inside : c.b.CreateAnd(inside, first));
  }
  c.define(op.results[0], counters.read(result));
  return {};
}

}  // namespace kiln::codegen::gpu

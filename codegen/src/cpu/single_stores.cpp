#include "cpu/single_stores.h"

#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include <optional>

namespace kiln::codegen::cpu {
namespace {

// The one lane of a constant mask that is on; absent where there are more, or none, or one of them is not known.
std::optional<unsigned> single_lane(const llvm::Value* mask) {
  const auto* lanes = llvm::dyn_cast<llvm::Constant>(mask);
  if (!lanes) return std::nullopt;
  const unsigned count = llvm::cast<llvm::FixedVectorType>(mask->getType())->getNumElements();
  std::optional<unsigned> found;
  for (unsigned i = 0; i < count; ++i) {
    const llvm::Constant* lane = lanes->getAggregateElement(i);
    if (!lane || (!lane->isNullValue() && !lane->isOneValue())) return std::nullopt;
    if (lane->isNullValue()) continue;
    if (found) return std::nullopt;
    found = i;
  }
  return found;
}

void store_lane(llvm::IntrinsicInst& store, unsigned lane) {
  llvm::IRBuilder<> ir(&store);
  llvm::Value* value = ir.CreateExtractElement(store.getArgOperand(0), uint64_t{lane});
  llvm::Value* place = ir.CreateConstGEP1_64(value->getType(), store.getArgOperand(1), lane);
  const uint64_t bytes = store.getDataLayout().getTypeStoreSize(value->getType()).getFixedValue();
  const llvm::Align align = llvm::commonAlignment(store.getParamAlign(1).valueOrOne(), lane * bytes);
  ir.CreateAlignedStore(value, place, align)->copyMetadata(store);
  store.eraseFromParent();
}

}  // namespace

void store_single_lanes(llvm::Function& function) {
  for (llvm::Instruction& instruction : llvm::make_early_inc_range(llvm::instructions(function))) {
    auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
    if (!call || call->getIntrinsicID() != llvm::Intrinsic::masked_store) continue;
    if (const auto lane = single_lane(call->getArgOperand(2))) store_lane(*call, *lane);
  }
}

}  // namespace kiln::codegen::cpu

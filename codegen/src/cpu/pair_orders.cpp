#include "cpu/pair_orders.h"

#include <llvm/ADT/DenseMap.h>
#include <llvm/ADT/SmallVector.h>
#include <llvm/Analysis/VectorUtils.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/InstIterator.h>
#include <llvm/IR/IntrinsicInst.h>

#include <array>
#include <optional>
#include <set>
#include <vector>

namespace kiln::codegen::cpu {
namespace {

using llvm::Instruction;
using llvm::ShuffleVectorInst;
using llvm::Value;

constexpr unsigned kRegisterBytes = 32;

unsigned lanes_of(const Value* x) { return llvm::cast<llvm::FixedVectorType>(x->getType())->getNumElements(); }
unsigned element_bytes(const Value* x) { return x->getType()->getScalarSizeInBits() / 8; }

// In a register of so many lanes the i-th one holds this one: vshufps and vunpcklpd of two registers make that order,
// and vunpcklps, vunpckhps and their like undo it. Its own inverse.
unsigned moved(unsigned lane, unsigned lanes) {
  static constexpr std::array<unsigned, 8> kOfEight = {0, 1, 4, 5, 2, 3, 6, 7};
  static constexpr std::array<unsigned, 4> kOfFour = {0, 2, 1, 3};
  return lane / lanes * lanes + (lanes == 8 ? kOfEight[lane % 8] : kOfFour[lane % 4]);
}

// Vectors of 4 or 8 bytes an element that fill whole registers.
bool fills_registers(const Value* x) {
  const unsigned bytes = element_bytes(x);
  return (bytes == 4 || bytes == 8) && lanes_of(x) * bytes % kRegisterBytes == 0;
}

// The first lane of a shuffle that takes every second one of its first operand.
std::optional<int> takes_apart(const Value* x) {
  const auto* shuffle = llvm::dyn_cast<ShuffleVectorInst>(x);
  if (!shuffle || lanes_of(shuffle->getOperand(0)) != 2 * lanes_of(x) || !fills_registers(x)) return std::nullopt;
  const llvm::ArrayRef<int> mask = shuffle->getShuffleMask();
  if (mask[0] != 0 && mask[0] != 1) return std::nullopt;
  for (size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != mask[0] + 2 * static_cast<int>(i)) return std::nullopt;
  }
  return mask[0];
}

// Lanes of two vectors by turns.
bool puts_together(const Value* x) {
  const auto* shuffle = llvm::dyn_cast<ShuffleVectorInst>(x);
  if (!shuffle || lanes_of(x) != 2 * lanes_of(shuffle->getOperand(0))) return false;
  const llvm::ArrayRef<int> mask = shuffle->getShuffleMask();
  const int half = static_cast<int>(mask.size() / 2);
  for (int i = 0; i < half; ++i) {
    if (mask[static_cast<size_t>(2 * i)] != i || mask[static_cast<size_t>(2 * i) + 1] != half + i) return false;
  }
  return true;
}

bool is_lane_by_lane(const Instruction& op) {
  if (const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&op)) {
    return llvm::isTriviallyVectorizable(call->getIntrinsicID());
  }
  return op.isBinaryOp() || op.isUnaryOp() || llvm::isa<llvm::CmpInst, llvm::SelectInst, llvm::FreezeInst>(op) ||
         (llvm::isa<llvm::CastInst>(op) && !llvm::isa<llvm::BitCastInst>(op));
}

// By value: which shuffle it was found from.
using Seen = llvm::DenseMap<const Instruction*, const Instruction*>;

// What is computed lane by lane between shuffles of these two kinds.
class Pairs {
 public:
  // All that belongs together with one that takes pairs apart; absent where its lanes are wanted in order.
  static std::optional<Pairs> around(ShuffleVectorInst& first, Seen& seen) {
    Pairs out;
    bool fine = true;
    llvm::SmallVector<Instruction*, 16> todo = {&first};
    seen[&first] = &first;
    const auto visit = [&](Value* x) {
      auto* op = llvm::dyn_cast<Instruction>(x);
      fine = fine && op && lanes_of(op) == lanes_of(&first);
      if (!fine) return;
      const auto [at, is_new] = seen.try_emplace(op, &first);
      if (is_new) todo.push_back(op);
      fine = at->second == &first;
    };
    while (fine && !todo.empty()) {
      Instruction* op = todo.pop_back_val();
      if (takes_apart(op) && element_bytes(op) == element_bytes(&first)) {
        out.apart_.push_back(llvm::cast<ShuffleVectorInst>(op));
      } else if (is_lane_by_lane(*op)) {
        for (Value* operand : op->operands()) {
          if (operand->getType()->isVectorTy() && !llvm::getSplatValue(operand)) visit(operand);
        }
      } else {
        fine = false;
      }
      for (llvm::User* user : op->users()) {
        if (puts_together(user) && element_bytes(user) == element_bytes(&first)) {
          auto* shuffle = llvm::cast<ShuffleVectorInst>(user);
          for (Value* half : {shuffle->getOperand(0), shuffle->getOperand(1)}) {
            if (!llvm::getSplatValue(half)) visit(half);
          }
          out.together_.insert(shuffle);
        } else if (user->getType()->isVectorTy()) {
          visit(user);
        } else {
          fine = false;
        }
      }
    }
    return fine && !out.together_.empty() ? std::optional(std::move(out)) : std::nullopt;
  }

  void order() const {
    const unsigned lanes = kRegisterBytes / element_bytes(apart_[0]);
    for (ShuffleVectorInst* shuffle : apart_) {
      std::vector<int> mask;
      for (unsigned i = 0; i < lanes_of(shuffle); ++i) mask.push_back(shuffle->getMaskValue(moved(i, lanes)));
      replace(shuffle, mask);
    }
    for (ShuffleVectorInst* shuffle : together_) {
      const auto half = static_cast<int>(lanes_of(shuffle) / 2);
      std::vector<int> mask;
      for (int i = 0; i < half; ++i) {
        const auto at = static_cast<int>(moved(static_cast<unsigned>(i), lanes));
        mask.insert(mask.end(), {at, half + at});
      }
      replace(shuffle, mask);
    }
  }

 private:
  static void replace(ShuffleVectorInst* shuffle, llvm::ArrayRef<int> mask) {
    llvm::IRBuilder<> ir(shuffle);
    shuffle->replaceAllUsesWith(ir.CreateShuffleVector(shuffle->getOperand(0), shuffle->getOperand(1), mask));
    shuffle->eraseFromParent();
  }

  std::vector<ShuffleVectorInst*> apart_;
  std::set<ShuffleVectorInst*> together_;
};

}  // namespace

void order_pairs(llvm::Function& function) {
  Seen seen;
  std::vector<Pairs> found;
  for (Instruction& op : llvm::instructions(function)) {
    if (!takes_apart(&op) || seen.contains(&op)) continue;
    if (auto pairs = Pairs::around(llvm::cast<ShuffleVectorInst>(op), seen)) found.push_back(std::move(*pairs));
  }
  for (const Pairs& pairs : found) pairs.order();
}

}  // namespace kiln::codegen::cpu

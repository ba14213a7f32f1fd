// Barriers by hazard.
//
// before                                    after
//   store …, %a    ; write of 0               store …, %a
//   %x = load %a   ; read of 0                barrier
//                                             %x = load %a
//
// A walk over the kernel carries what has been accessed since the last barrier, on any way that leads here. An access
// that meets bytes of one of these, and one of both writes, gets a barrier in front. Loops are walked until nothing
// changes; barriers only ever become more.
#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Module.h>

#include <map>
#include <set>
#include <tuple>

#include "gpu/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

using Pending = std::set<std::tuple<int, bool, int>>;  // buffer, writes, phase

bool meet(const SharedRange& a, const SharedRange& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool is_hazard(const SharedMark& mark, const Pending& pending, const SharedPlan& plan) {
  for (const auto& [buffer, writes, phase] : pending) {
    if (!writes && !mark.writes) continue;
    if (buffer == mark.buffer && phase == mark.phase) continue;
    if (meet(plan.buffers[static_cast<size_t>(buffer)], plan.buffers[static_cast<size_t>(mark.buffer)])) return true;
  }
  return false;
}

Pending walk(llvm::BasicBlock& block, Pending pending, const SharedPlan& plan, std::set<llvm::Instruction*>& barriers) {
  for (llvm::Instruction& instruction : block) {
    const auto mark = shared_mark(instruction);
    if (!mark) continue;
    if (barriers.contains(&instruction) || is_hazard(*mark, pending, plan)) {
      barriers.insert(&instruction);
      pending.clear();
    }
    pending.insert({mark->buffer, mark->writes, mark->phase});
  }
  return pending;
}

void erase_touches(llvm::Module& module) {
  llvm::Function* touch = module.getFunction(kTouchFunction);
  if (!touch) return;
  while (!touch->use_empty()) llvm::cast<llvm::Instruction>(touch->user_back())->eraseFromParent();
  touch->eraseFromParent();
}

}  // namespace

void insert_barriers(llvm::Function& function, const SharedPlan& plan, const TargetInfo& target) {
  std::set<llvm::Instruction*> barriers;
  std::map<llvm::BasicBlock*, Pending> behind;
  const llvm::ReversePostOrderTraversal<llvm::Function*> order(&function);
  for (bool changed = true; changed;) {
    changed = false;
    for (llvm::BasicBlock* block : order) {
      Pending pending;
      for (llvm::BasicBlock* before : llvm::predecessors(block)) {
        pending.insert(behind[before].begin(), behind[before].end());
      }
      Pending out = walk(*block, std::move(pending), plan, barriers);
      changed = changed || out != behind[block];
      behind[block] = std::move(out);
    }
  }
  for (llvm::Instruction* access : barriers) {
    llvm::IRBuilder<> b(access);
    target.barrier(b);
  }
  erase_touches(*function.getParent());
}

}  // namespace kiln::codegen::gpu

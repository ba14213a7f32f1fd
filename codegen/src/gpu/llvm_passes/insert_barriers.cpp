// Barriers by hazard.
//
// before                                    after
//   store …, %a    ; write of 0               store …, %a
//   %x = load %a   ; read of 0                barrier
//                                             %x = load %a
//
// A walk over the kernel carries what has been accessed since the last barrier, on any way that leads here: of shared
// memory each access, of global memory (global_order.h) each op. An access that meets bytes of one of these, and one of
// both writes, gets a barrier in front. Loops are walked until nothing changes; barriers only ever become more.
#include "gpu/llvm_passes/insert_barriers.h"

#include <llvm/ADT/PostOrderIterator.h>
#include <llvm/ADT/SetVector.h>
#include <llvm/IR/CFG.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "gpu/shared/shared_memory.h"

namespace kiln::codegen::gpu {
namespace {

using Shared = std::set<std::tuple<int, bool, int>>;      // buffer, writes, phase
using Global = std::set<std::tuple<bool, size_t, bool>>;  // writes, number of the access; in this run of its region

struct Pending {
  Shared shared;
  Global global;

  bool operator==(const Pending&) const = default;
  void add(const Pending& other) {
    shared.insert(other.shared.begin(), other.shared.end());
    global.insert(other.global.begin(), other.global.end());
  }
};

bool meet(const SharedRange& a, const SharedRange& b) {
  return a.offset < b.offset + b.bytes && b.offset < a.offset + a.bytes;
}

bool meets_any(const SharedMark& mark, const Shared& pending, const SharedPlan& plan) {
  for (const auto& [buffer, writes, phase] : pending) {
    if (!writes && !mark.writes) continue;
    if (buffer == mark.buffer && phase == mark.phase) continue;
    if (meet(plan.buffers[static_cast<size_t>(buffer)], plan.buffers[static_cast<size_t>(mark.buffer)])) return true;
  }
  return false;
}

class Walk {
 public:
  Walk(const SharedPlan& plan, const GlobalOrder& order) : plan_(plan), order_(order) {}

  Pending through(llvm::BasicBlock& block, Pending pending) {
    for (llvm::Instruction& instruction : block) {
      if (const auto mark = shared_mark(instruction)) {
        if (meets_any(*mark, pending.shared, plan_)) barriers_.insert(&instruction);
        if (barriers_.contains(&instruction)) pending = {};
        pending.shared.insert({mark->buffer, mark->writes, mark->phase});
      } else if (const auto global = global_mark(instruction)) {
        if (global->is_access) {
          if (is_hazard(global->number, pending.global)) barriers_.insert(&instruction);
          if (barriers_.contains(&instruction)) pending = {};
          pending.global.insert({order_.accesses()[global->number].writes, global->number, true});
        } else {
          begin_run(order_.runs()[global->number], pending.global);
        }
      }
    }
    return pending;
  }

  const llvm::SetVector<llvm::Instruction*>& barriers() const { return barriers_; }

 private:
  // Reads are in the way of writes alone.
  bool is_hazard(size_t access, const Global& pending) const {
    const auto& all = order_.accesses();
    const auto first = all[access].writes ? pending.begin() : pending.lower_bound({true, 0, false});
    return std::any_of(first, pending.end(), [&](const auto& before) {
      const auto [writes, number, same_run] = before;
      return needs_barrier(all[number], all[access], same_run);
    });
  }

  void begin_run(const dsl::Region* region, Global& pending) const {
    Global out;
    for (const auto& [writes, access, same_run] : pending) {
      out.insert({writes, access, same_run && order_.accesses()[access].region != region});
    }
    pending = std::move(out);
  }

  const SharedPlan& plan_;
  const GlobalOrder& order_;
  llvm::SetVector<llvm::Instruction*> barriers_;
};

void erase_touches(llvm::Module& module) {
  llvm::Function* touch = module.getFunction(kTouchFunction);
  if (!touch) return;
  while (!touch->use_empty()) llvm::cast<llvm::Instruction>(touch->user_back())->eraseFromParent();
  touch->eraseFromParent();
}

}  // namespace

void insert_barriers(llvm::Function& function, const SharedPlan& plan, const GlobalOrder& global,
                     const TargetInfo& target, const BlockShape& block) {
  Walk walk(plan, global);
  std::map<llvm::BasicBlock*, Pending> behind;
  const llvm::ReversePostOrderTraversal<llvm::Function*> order(&function);
  for (bool changed = true; changed;) {
    changed = false;
    for (llvm::BasicBlock* block : order) {
      Pending pending;
      for (llvm::BasicBlock* before : llvm::predecessors(block)) pending.add(behind[before]);
      Pending out = walk.through(*block, std::move(pending));
      changed = changed || out != behind[block];
      behind[block] = std::move(out);
    }
  }
  for (llvm::Instruction* access : walk.barriers()) {
    llvm::IRBuilder<> ir(access);
    target.program_barrier(ir, block);
  }
  erase_touches(*function.getParent());
  erase_global_marks(function);
}

}  // namespace kiln::codegen::gpu

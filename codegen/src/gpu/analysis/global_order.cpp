#include "gpu/analysis/global_order.h"

#include <llvm/IR/Module.h>

#include <algorithm>
#include <numeric>

#include "gpu/layout/algebra.h"

namespace kiln::codegen::gpu {
namespace {

// A mark is a call of one of these with its number.
constexpr char kAccess[] = "kiln.global.access", kRun[] = "kiln.global.run";

void call_mark(Builder& ir, const char* name, size_t number) {
  auto* type = llvm::FunctionType::get(ir.getVoidTy(), {ir.getInt32Ty()}, false);
  llvm::Module& module = *ir.GetInsertBlock()->getModule();
  ir.CreateCall(module.getOrInsertFunction(name, type), {ir.getInt32(static_cast<uint32_t>(number))});
}

// Elements by their row-major number, so that views of one tile are alike.
Layout flattened(const Layout& layout) {
  const std::vector<int64_t> shape = layout.shape();
  return reshape(layout, {std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>())});
}

}  // namespace

size_t GlobalOrder::lanes_number(const Layout& layout) {
  const Layout flat = flattened(layout);
  const auto found = std::ranges::find(layouts_, flat);
  if (found != layouts_.end()) return static_cast<size_t>(found - layouts_.begin());
  layouts_.push_back(flat);
  return layouts_.size() - 1;
}

size_t GlobalOrder::place_number(dsl::ValueId pointers, size_t lanes) {
  return places_.try_emplace({pointers, lanes}, places_.size()).first->second;
}

void GlobalOrder::mark(Builder& ir, dsl::ValueId pointers, const Layout& layout, Use use) {
  OrderedAccess access;
  const auto parameter = pointers_.parameter(pointers);
  if (parameter && !kernel_.params[*parameter].may_alias) {
    access.reach = OrderedAccess::Reach::kParameter;
    access.parameter = *parameter;
    access.is_constant = kernel_.params[*parameter].readonly;
    if (use == Use::kOrderingWrite) access.reach = OrderedAccess::Reach::kOrdering;
  }
  access.writes = use != Use::kRead;
  access.lanes = lanes_number(layout);
  if (use != Use::kOrderingWrite && pointers_.distinct(pointers)) access.place = place_number(pointers, access.lanes);
  access.region = pointers_.region(pointers);
  access.elements = dsl::element_count(kernel_.type(pointers));
  access.copies = !layout.injective();
  const auto [number, is_new] = numbers_.try_emplace(access, accesses_.size());
  if (is_new) accesses_.push_back(access);
  call_mark(ir, kAccess, number->second);
}

void GlobalOrder::begin(Builder& ir, const dsl::Region& region) {
  runs_.push_back(&region);
  call_mark(ir, kRun, runs_.size() - 1);
}

bool needs_barrier(const OrderedAccess& before, const OrderedAccess& after, bool same_run) {
  using Reach = OrderedAccess::Reach;
  if (!before.writes && !after.writes) return false;
  // A thread that has a copy reads what the first one writes.
  const bool by_copies = (before.copies || after.copies) && !(before.writes && after.writes);
  if (same_run && before.place && before.place == after.place) return by_copies;
  if (before.reach == Reach::kAny || after.reach == Reach::kAny) return true;
  if (before.reach == Reach::kOrdering || after.reach == Reach::kOrdering) {
    return !before.is_constant && !after.is_constant;
  }
  if (before.parameter == after.parameter) return true;
  // Buffers may be the same where the same lane touches the same address: then it must be the same thread.
  return before.elements == after.elements && (before.lanes != after.lanes || by_copies);
}

std::optional<GlobalMark> global_mark(const llvm::Instruction& instruction) {
  const auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
  const llvm::Function* callee = call ? call->getCalledFunction() : nullptr;
  if (!callee || (callee->getName() != kAccess && callee->getName() != kRun)) return std::nullopt;
  const auto number = llvm::cast<llvm::ConstantInt>(call->getArgOperand(0))->getZExtValue();
  return GlobalMark{callee->getName() == kAccess, number};
}

void erase_global_marks(llvm::Function& function) {
  llvm::Module& module = *function.getParent();
  for (const char* name : {kAccess, kRun}) {
    llvm::Function* mark = module.getFunction(name);
    if (!mark) continue;
    while (!mark->use_empty()) llvm::cast<llvm::CallInst>(mark->user_back())->eraseFromParent();
    mark->eraseFromParent();
  }
}

}  // namespace kiln::codegen::gpu

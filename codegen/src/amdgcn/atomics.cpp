// Atomics and fences by LLVM's own, with scopes; a predicate is a branch. Orders are fences: the accesses are relaxed.
//
// Floats add up in memory where the processor can; that takes f32 subnormals for zero on some, which
// docs/reference/ops.md allows. Minima of floats, which must order zeros and propagate NaN, have no instructions.
//
// Memory that the host may change while the kernel runs (fine-grained), or that lies behind a bus, knows few of these
// operations: LLVM makes a loop of compare-and-swap of the others unless it is told that no such memory is meant. Only
// atomics whose scope is the system mean it (AMDGPUUsage, "Metadata").
#include <llvm/IR/Instructions.h>

#include "amdgcn/target_info.h"

namespace kiln::codegen::amdgcn {
namespace {

using dsl::AtomicKind;
using dsl::ElementType;
using llvm::Value;
using Builder = llvm::IRBuilder<>;
using Operation = llvm::AtomicRMWInst::BinOp;

llvm::SyncScope::ID scope_of(Builder& ir, dsl::MemoryScope scope) {
  switch (scope) {
    case dsl::MemoryScope::kBlock:
      return ir.getContext().getOrInsertSyncScopeID("workgroup");
    case dsl::MemoryScope::kDevice:
      return ir.getContext().getOrInsertSyncScopeID("agent");
    case dsl::MemoryScope::kSystem:
      break;
  }
  return llvm::SyncScope::System;
}

Operation operation_of(AtomicKind kind, ElementType element) {
  const bool is_signed = dsl::info(element).is_signed;
  switch (kind) {
    case AtomicKind::kAdd:
      return dsl::is_float(element) ? Operation::FAdd : Operation::Add;
    case AtomicKind::kMin:
      return is_signed ? Operation::Min : Operation::UMin;
    case AtomicKind::kMax:
      return is_signed ? Operation::Max : Operation::UMax;
    case AtomicKind::kAnd:
      return Operation::And;
    case AtomicKind::kOr:
      return Operation::Or;
    case AtomicKind::kXor:
      return Operation::Xor;
    case AtomicKind::kXchg:
      break;
  }
  return Operation::Xchg;
}

llvm::Type* float_type(Builder& ir, ElementType element) {
  switch (element) {
    case ElementType::kF64:
      return ir.getDoubleTy();
    case ElementType::kF16:
      return ir.getHalfTy();
    case ElementType::kBF16:
      return ir.getBFloatTy();
    default:
      return ir.getFloatTy();
  }
}

}  // namespace

bool AmdTargetInfo::has_atomic(AtomicKind kind, ElementType element, int64_t count, bool gives_old) const {
  const int64_t bytes = dsl::info(element).bytes;
  if (!dsl::is_float(element) || kind == AtomicKind::kXchg) return bytes >= 4 && count == 1;
  if (kind != AtomicKind::kAdd) return false;
  if (bytes == 2) return processor_.adds_pairs && count == 2 && !gives_old;
  return count == 1 && (bytes == 8 ? processor_.adds_f64 : bytes == 4 && processor_.adds_f32);
}

Value* AmdTargetInfo::atomic_rmw(Builder& ir, AtomicKind kind, ElementType element, Value* value, bool gives_old,
                                 const gpu::AtomicAccess& access) const {
  const Operation operation = operation_of(kind, element);
  llvm::Type* bits = value->getType();
  if (operation == Operation::FAdd) {
    llvm::Type* real = float_type(ir, element);
    value = ir.CreateBitCast(value, bits->isVectorTy() ? bits->getWithNewType(real) : real);
  }
  const auto bytes = static_cast<uint64_t>(bits->getPrimitiveSizeInBits().getFixedValue()) / 8;
  return emit_under(ir, access.predicate, [&]() -> Value* {
    auto* old = ir.CreateAtomicRMW(operation, global_pointer(ir, access.pointer), value, llvm::Align(bytes),
                                   llvm::AtomicOrdering::Monotonic, scope_of(ir, access.scope));
    llvm::MDNode* yes = llvm::MDNode::get(ir.getContext(), {});
    if (access.scope != dsl::MemoryScope::kSystem) {
      for (const char* name : {"amdgpu.no.fine.grained.memory", "amdgpu.no.remote.memory"}) old->setMetadata(name, yes);
    }
    if (operation == Operation::FAdd) old->setMetadata("amdgpu.ignore.denormal.mode", yes);
    return gives_old ? ir.CreateBitCast(old, bits) : nullptr;
  });
}

Value* AmdTargetInfo::compare_exchange(Builder& ir, Value* expected, Value* desired,
                                       const gpu::AtomicAccess& access) const {
  return emit_under(ir, access.predicate, [&] {
    auto* exchanged = ir.CreateAtomicCmpXchg(global_pointer(ir, access.pointer), expected, desired,
                                             llvm::Align(expected->getType()->getIntegerBitWidth() / 8),
                                             llvm::AtomicOrdering::Monotonic, llvm::AtomicOrdering::Monotonic,
                                             scope_of(ir, access.scope));
    return ir.CreateExtractValue(exchanged, 0);
  });
}

// Of all lanes: a fence is an instruction of the wave.
void AmdTargetInfo::fence(Builder& ir, dsl::MemoryScope scope, Value* /*predicate*/) const {
  ir.CreateFence(llvm::AtomicOrdering::AcquireRelease, scope_of(ir, scope));
}

}  // namespace kiln::codegen::amdgcn

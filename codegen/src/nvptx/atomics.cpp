// Atomics and fences as inline assembly: LLVM drops the orders of its own atomics, and has no predicated ones.
//
// f32 sums of global memory take subnormals for zero (PTX ISA, "atom", "red"); docs/reference/ops.md allows it. Floats
// have no instructions for minima that order zeros and propagate NaN.
#include <llvm/IR/InlineAsm.h>

#include "nvptx/target_info.h"

namespace kiln::codegen::nvptx {
namespace {

using dsl::AtomicKind;
using dsl::ElementType;
using llvm::Value;
using Builder = llvm::IRBuilder<>;

const char* scope_name(dsl::MemoryScope scope) {
  switch (scope) {
    case dsl::MemoryScope::kBlock:
      return "cta";
    case dsl::MemoryScope::kSystem:
      return "sys";
    case dsl::MemoryScope::kDevice:
      break;
  }
  return "gpu";
}

const char* operation_name(AtomicKind kind) {
  switch (kind) {
    case AtomicKind::kAdd:
      return "add";
    case AtomicKind::kMin:
      return "min";
    case AtomicKind::kMax:
      return "max";
    case AtomicKind::kAnd:
      return "and";
    case AtomicKind::kOr:
      return "or";
    case AtomicKind::kXor:
      return "xor";
    case AtomicKind::kXchg:
      break;
  }
  return "exch";
}

// ".u32", ".noftz.bf16"
std::string type_name(AtomicKind kind, ElementType element) {
  const dsl::ElementTypeInfo& info = dsl::info(element);
  const std::string bits = std::to_string(8 * info.bytes);
  if (kind == AtomicKind::kMin || kind == AtomicKind::kMax) return (info.is_signed ? ".s" : ".u") + bits;
  if (kind != AtomicKind::kAdd) return ".b" + bits;
  if (!dsl::is_float(element)) return ".u" + bits;
  return (info.bytes == 2 ? ".noftz." : ".") + std::string(info.name);
}

const char* constraint(unsigned bits) { return bits == 64 ? "l" : bits == 32 ? "r" : "h"; }

// An instruction of text `what`, with operands from $0 on, under a predicate that is the last one.
struct Assembly {
  std::string text, constraints;
  llvm::SmallVector<Value*, 8> operands;

  void add(Value* operand, const char* how) {
    constraints += std::string(constraints.empty() ? "" : ",") + how;
    operands.push_back(operand);
  }
  Value* call(Builder& ir, llvm::Type* result) {
    llvm::SmallVector<llvm::Type*, 8> types;
    for (Value* x : operands) types.push_back(x->getType());
    constraints += std::string(constraints.empty() ? "" : ",") + "~{memory}";
    auto* type = llvm::FunctionType::get(result, types, false);
    return ir.CreateCall(llvm::InlineAsm::get(type, text, constraints, true), operands);
  }
};

// `instruction` has its operands from `first` on; without the predicate $0, if it is a result, becomes 0.
Value* call_predicated(Builder& ir, Assembly& assembly, const std::string& instruction, Value* predicate,
                       llvm::Type* result) {
  const bool gives = !result->isVoidTy();
  if (gives) {
    const std::string early = std::string("=&") + constraint(result->getIntegerBitWidth());
    assembly.constraints = early + (assembly.constraints.empty() ? "" : "," + assembly.constraints);
  }
  assembly.text = instruction;
  if (predicate) {
    const std::string zero = gives ? "mov.b" + std::to_string(result->getIntegerBitWidth()) + " $0, 0; " : "";
    const size_t number = assembly.operands.size() + (gives ? 1 : 0);
    assembly.text =
        "{ .reg .pred p; setp.ne.b32 p, $" + std::to_string(number) + ", 0; " + zero + "@p " + instruction + " }";
    assembly.add(ir.CreateZExt(predicate, ir.getInt32Ty()), "r");
  }
  return assembly.call(ir, result);
}

}  // namespace

bool CudaTargetInfo::has_atomic(AtomicKind kind, ElementType element, int64_t count, bool gives_old) const {
  const int64_t bytes = dsl::info(element).bytes;
  if (dsl::is_float(element)) {
    if (kind == AtomicKind::kXchg) return bytes >= 4 && count == 1;
    if (kind != AtomicKind::kAdd || bytes == 1) return false;
    if (element == ElementType::kBF16 && !target_.units().adds_vectors) return false;
    // Two halves of a word, and up to four words from sm_90 on.
    if (count * bytes <= 4) return true;
    return count == 1 || (bytes <= 4 && target_.units().adds_vectors && !gives_old);
  }
  return bytes >= 4 && count == 1;
}

Value* CudaTargetInfo::atomic_rmw(Builder& ir, AtomicKind kind, ElementType element, Value* value, bool gives_old,
                                  const gpu::AtomicAccess& access) const {
  Assembly assembly;
  const unsigned bits = value->getType()->getPrimitiveSizeInBits().getFixedValue();
  const bool is_exchange = kind == AtomicKind::kXchg;
  const std::string how = std::string(gives_old || is_exchange ? "atom" : "red") + ".relaxed." +
                          scope_name(access.scope) + ".global." + operation_name(kind);
  assembly.add(access.pointer, "l");
  const unsigned first = gives_old || is_exchange ? 2 : 1;
  std::string type = type_name(kind, element), operand = "$" + std::to_string(first);
  if (!value->getType()->isVectorTy()) {
    assembly.add(value, constraint(bits));
  } else {
    const unsigned words = bits / 32;
    if (dsl::info(element).bytes == 2) type += "x2";
    Value* parts = ir.CreateBitCast(value, llvm::FixedVectorType::get(ir.getInt32Ty(), words));
    std::string list;
    for (unsigned i = 0; i < words; ++i) {
      assembly.add(ir.CreateExtractElement(parts, i), "r");
      list += (i ? ", $" : "$") + std::to_string(first + i);
    }
    if (words > 1) {
      type = type.starts_with(".noftz") ? ".noftz.v" + std::to_string(words) + type.substr(6)
                                        : ".v" + std::to_string(words) + type;
      operand = "{" + list + "}";
    }
  }
  if (first == 1) {
    call_predicated(ir, assembly, how + type + " [$0], " + operand + ";", access.predicate, ir.getVoidTy());
    return nullptr;
  }
  return call_predicated(ir, assembly, how + type + " $0, [$1], " + operand + ";", access.predicate, value->getType());
}

Value* CudaTargetInfo::compare_exchange(Builder& ir, Value* expected, Value* desired,
                                        const gpu::AtomicAccess& access) const {
  const unsigned bits = expected->getType()->getIntegerBitWidth();
  Assembly assembly;
  assembly.add(access.pointer, "l");
  assembly.add(expected, constraint(bits));
  assembly.add(desired, constraint(bits));
  const std::string instruction = std::string("atom.relaxed.") + scope_name(access.scope) + ".global.cas.b" +
                                  std::to_string(bits) + " $0, [$1], $2, $3;";
  return call_predicated(ir, assembly, instruction, access.predicate, expected->getType());
}

void CudaTargetInfo::fence(Builder& ir, dsl::MemoryScope scope, Value* predicate) const {
  Assembly assembly;
  call_predicated(ir, assembly, std::string("fence.acq_rel.") + scope_name(scope) + ";", predicate, ir.getVoidTy());
}

}  // namespace kiln::codegen::nvptx

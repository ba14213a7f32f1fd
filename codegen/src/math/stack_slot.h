// A place for a value in the function's frame.
#pragma once

#include <llvm/IR/IRBuilder.h>

namespace kiln::codegen {

// As a generic pointer, which functions take: some targets have frames in an address space of their own.
inline llvm::Value* stack_slot(llvm::IRBuilder<>& b, llvm::Type* type) {
  return b.CreateAddrSpaceCast(b.CreateAlloca(type), b.getPtrTy());
}

}  // namespace kiln::codegen

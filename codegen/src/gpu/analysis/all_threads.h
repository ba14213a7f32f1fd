// What all threads of a program agree on.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Ints, each combined over all threads, by an operation that is associative and commutative. They share a barrier.
struct Agreed {
  Value* own;
  llvm::function_ref<Value*(Value*, Value*)> combine;
};
std::vector<Value*> over_all_threads(Context& ctx, llvm::ArrayRef<Agreed> values);

}  // namespace kiln::codegen::gpu

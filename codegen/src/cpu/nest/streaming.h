// Stores that go past the caches: for results that the kernel does not read and that no cache would hold until somebody
// does. Without them each line that is written is first read from memory.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

// i64: what the launch writes through this `store`, if other programs store as many elements (i64) as this one.
Value* bytes_stored(Context& ctx, const Op& store, Value* elements);

// i1: whether the launch writes enough through this `store` that it goes past the caches, if other programs store as
// many elements (i64) as this one; null where it never does.
Value* streams(Context& ctx, const Op& store, Value* elements);

// Memory to ask for early: `bytes` from here on.
struct Ahead {
  Value* pointer;
  int64_t bytes;
};
void prefetch(Context& ctx, const Ahead& ahead);

// Stores a whole vector, past the caches where `streams` (null: never) holds and the address allows it. `row_bytes`: of
// the memory around it that is written without gaps. `ahead` is asked for where it goes past the caches: there memory
// is what the kernel waits for.
void store_vector(Context& ctx, Value* vector, Value* pointer, llvm::Align align, Value* streams, int64_t row_bytes,
                  llvm::ArrayRef<Ahead> ahead);

// Before the entry function returns: what went past the caches becomes visible to other threads.
void end_streaming(Context& ctx);

}  // namespace kiln::codegen::cpu

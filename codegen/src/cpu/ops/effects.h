// What a kernel tells its launcher: prints, and the failures of assert and of bounds checks. Code names them by number;
// the artifact's metadata lists what is behind the numbers.
#pragma once

#include "cpu/context.h"
#include "kiln/abi/cpu_abi.h"

namespace kiln::codegen::cpu {

class Nest;

// What kiln_entry returns.
enum class Failure : int32_t { kAssert = KILN_ASSERT_FAILED, kOutOfBounds = KILN_OUT_OF_BOUNDS };

// The pointer at an offset of kiln_ctx; null where the caller's kiln_ctx ends before it.
Value* context_field(Context& ctx, uint64_t offset);

// Returns from the entry with a failure record where the condition, an i1, holds. `lane` and `index` are i64.
struct FailureAt {
  Failure code;
  uint32_t parameter = KILN_NO_PARAMETER;
  Value* lane = nullptr;
  Value* index = nullptr;
};
void fail_if(Context& ctx, const Op& op, Value* condition, llvm::function_ref<FailureAt()> where);
// The same for the first of the active lanes at the nest's point, which is all of its space, whose bit is set.
// `index`: lanes of the index that is at fault, or null.
void fail_if_any(Nest& nest, const Op& op, Failure code, Value* lanes, Value* index);

// Hands every chunk of a tile to `visit`, in row-major order. Without bounds from masks: all elements count.
Result<void> for_each_chunk(Context& ctx, ValueId id, llvm::function_ref<void(Nest&, Value*)> visit);

// The row-major number of a lane of the chunk at hand; i64.
Value* lane_number(Nest& nest, Value* lane);
// An i64 with the bits of a mask of up to 64 lanes (null: all of the nest's).
Value* lane_bits(Nest& nest, Value* mask);

Result<void> lower_assert(Context& ctx, const Op& op);
Result<void> lower_print(Context& ctx, const Op& op);

}  // namespace kiln::codegen::cpu

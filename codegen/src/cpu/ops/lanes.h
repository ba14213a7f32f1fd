// Ops on memory that go lane by lane, in row-major order: atomics, and accesses that are checked one by one.
//
// A chunk of the nest evaluates pointers, values and mask in vectors, puts them into small arrays on the stack, and a
// loop over the set bits of the mask does the op for one lane after the other; lanes that are masked off cost nothing.
#pragma once

#include <functional>

#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {

// Neighbouring lanes done at once: where a chunk is whole, has no result, and begins at a multiple of their bytes.
struct LaneGroup {
  unsigned lanes;
  std::function<void(Value* pointer, Value* values)> act;
};

struct LaneOp {
  ValueId pointer;
  llvm::SmallVector<ValueId, 2> values;  // further operands, handed to `act` as they lie in memory (i1 as a byte)
  std::optional<ValueId> mask;
  std::optional<ValueId> result;  // absent, or unused: `act` may return null
  std::optional<ValueId> other;   // the result where the mask is false; absent: 0
  // Pointers are computed as written, with wrapping index arithmetic: what was checked is what is accessed.
  bool exact_pointers = false;
  std::optional<LaneGroup> group;  // of ops with one further operand
};

// Does one lane; `number` gives its row-major number, i64. Returns the lane's result as it lies in memory.
using LaneAction =
    std::function<Value*(Value* pointer, llvm::ArrayRef<Value*> values, llvm::function_ref<Value*()> number)>;

Result<void> for_each_lane(Context& ctx, const LaneOp& op, const LaneAction& act);

}  // namespace kiln::codegen::cpu

// Packed operands of dot that serve more than one program.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

// Whether an op makes pointers of its first operand, which it moves or spreads.
bool moves_pointer(const Op& op);

// A place for what is packed of `id`; `present` (i1): it holds that already.
struct CachedOperand {
  Value* pointer;
  Value* present;
  Value* stays;  // i1: the next iteration of a loop has another place
};
CachedOperand cache_operand(Context& ctx, ValueId id, int64_t bytes);

}  // namespace kiln::codegen::cpu

// Rows of A that lie in memory one by one, at no fixed distance from each other.
#pragma once

#include "cpu/dot/dot_cache.h"
#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

bool has_scattered_rows(Context& ctx, ValueId id);
// What point_at_rows wants for rows that must be copied, and for their addresses.
int64_t bytes_of_rows(const Context& ctx, const DotBlocking& blocking);
// Rows of zeros have no address then: bit `iteration` of their words (i32, rounded up to whole vectors) says so.
struct RowsLeftOut {
  Value *words, *iteration;
  Value* any;  // variable, i1: there are such
};
// `memory`: of bytes_of_rows.
Result<OperandA> point_at_rows(Context& ctx, const DotBlocking& blocking, ValueId id, Value* steps, Value* rows,
                               const CachedOperand& memory, const RowsLeftOut* left_out = nullptr);

// The rows, copied to a fixed distance, for tiles: whole lines along K.
Result<OperandA> gather_rows(Context& ctx, const DotBlocking& blocking, ValueId id, Value* steps, Value* rows);

}  // namespace kiln::codegen::cpu

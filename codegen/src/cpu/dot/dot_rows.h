// Rows of A that lie in memory one by one, at no fixed distance from each other.
#pragma once

#include "cpu/dot/dot_keep.h"
#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

bool has_scattered_rows(Context& c, ValueId id);
// What point_at_rows wants for rows that must be copied, and for their addresses.
int64_t bytes_of_rows(const Context& c, const DotPlan& plan);
// Rows of zeros have no address then: bit `turn` of their words (i32, rounded up to whole vectors) says so.
struct RowsLeftOut {
  Value *words, *turn;
  Value* any;  // variable, i1: there are such
};
// `memory`: of bytes_of_rows.
Result<OperandA> point_at_rows(Context& c, const DotPlan& plan, ValueId id, Value* steps, Value* rows,
                               const Kept& memory, const RowsLeftOut* left_out = nullptr);

// The rows, copied to a fixed distance, for tiles: whole lines along K.
Result<OperandA> gather_rows(Context& c, const DotPlan& plan, ValueId id, Value* steps, Value* rows);

}  // namespace kiln::codegen::cpu

// Operands of dot, packed into scratch or read where they lie.
#pragma once

#include "cpu/dot/dot_plan.h"
#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {

// Whether it is in memory, with the numbers of a column one behind the other.
bool lies_by_columns(Context& ctx, ValueId id);
// The columns of B as the rows of a product with a single column.
Result<OperandA> rows_of_columns(Context& ctx, const DotBlocking& blocking, ValueId b, Value* steps);
// An operand's element as it stands in a unit.
Value* to_packed(Context& ctx, Builder& ir, const DotForm& form, ElementType from, Value* x);
// `steps`: so many of the units along K are read, from the first one on. `rows`: those of A from there on do not
// matter, but for the last block that begins before; null: all do.
Result<OperandA> pack_a(Context& ctx, const DotBlocking& blocking, ValueId id, Value* steps, Value* rows);
Result<OperandB> pack_b(Context& ctx, const DotBlocking& blocking, ValueId id, Value* steps);
// Rows of A, or those listed, into rows packed_row_bytes apart.
Result<void> pack_a_rows(Context& ctx, const DotBlocking& blocking, ValueId id, Value* packed,
                         const std::optional<Nest::Listed>& listed = std::nullopt);
// Reserves scratch, and fills it with a byte.
Value* reserve(Context& ctx, int64_t bytes);
void fill_bytes(Context& ctx, Value* pointer, int value, int64_t bytes);
int64_t packed_row_bytes(const DotBlocking& blocking);    // of A
int64_t packed_panel_bytes(const DotBlocking& blocking);  // of B

}  // namespace kiln::codegen::cpu

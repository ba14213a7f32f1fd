// Transposes through registers: what is contiguous along one axis becomes contiguous along another.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

// n vectors of n lanes, n a power of two: lane j of vector i becomes lane i of vector j.
void transpose_registers(Builder& ir, llvm::MutableArrayRef<Value*> rows);

// Puts those `permute`s below a value, by elementwise ops alone, into scratch whose operand lies in memory along
// another axis than their result's last one: a nest over the value then reads whole vectors.
Result<void> transpose_operands(Context& ctx, ValueId value);

}  // namespace kiln::codegen::cpu

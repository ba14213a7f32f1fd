// Products without matrix units, as an instruction of a warp like those of matrix units: each thread multiplies rows of
// A by columns of B, which it has as vectors, into a block of sums. So their operands are staged and read as those of
// matrix instructions are.
#pragma once

#include <optional>

#include "gpu/block/block_shape.h"
#include "gpu/dot/dot_instruction.h"

namespace kiln::codegen::gpu {

// For tiles [rows, inner]·[inner, columns]; nothing where they are too small for all warps,
// or too large for code without a loop, or not all of one type.
std::optional<MatrixInstruction> multiply_add_instruction(const DotTypes& types, int64_t rows, int64_t columns,
                                                          int64_t inner, const BlockShape& block);
// The smallest, which tiles of any size are made of.
MatrixInstruction least_multiply_add_instruction(const BlockShape& block);

}  // namespace kiln::codegen::gpu

// Products of blocks of two rows and two columns, AArch64's: bfmmla, smmla, ummla, usmmla.
//
//   A  two units of row r, then two of row r+1
//   B  two units of column n, then two of column n+1
//   C  [r, n] [r, n+1] [r+1, n] [r+1, n+1]
//
// What is packed, and how, is that of the instructions that take single units.
#pragma once

#include <array>

#include "cpu/dot/dot_form.h"

namespace kiln::codegen::cpu {

using PairOfVectors = std::array<Value*, 2>;

// The sums of four columns of two rows, as blocks of the first two columns and of the others; and back.
PairOfVectors blocks_of_rows(Builder& ir, const DotForm& form, const PairOfVectors& rows);
PairOfVectors rows_of_blocks(Builder& ir, const DotForm& form, const PairOfVectors& blocks);
// Units of four columns, of two neighbours along K, as operands for the first two columns and for the others.
PairOfVectors columns_of_units(Builder& ir, const PairOfVectors& units);
// acc + a·b
Value* multiply_blocks(Builder& ir, const DotForm& form, Value* a, Value* b, Value* acc);

}  // namespace kiln::codegen::cpu

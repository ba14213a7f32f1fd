// Sorting rows of unsigned ints by a network of vector compare-exchanges.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

// Ints that a row must have room for where `count` are to be sorted.
int64_t network_capacity(const Context& ctx, int bits, int64_t count);

// void (ptr row, i64 count): ints of 32 or 64 bits into ascending order. What lies behind them in the row's room, and
// up to a vector behind that, is overwritten.
llvm::Function* sort_network(Context& ctx, int bits);

}  // namespace kiln::codegen::cpu

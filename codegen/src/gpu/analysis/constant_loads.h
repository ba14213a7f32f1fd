// Loads that see the same whenever they are made: of parameters that nobody writes through, once each, before anything
// is written, by ops that all that is written is computed from.
//
//   %x = load %p            ; constant: %p is only read
//   %m = reduce %x
//   %w = load %q            ; constant
//   %y = … %x, %m, %w …
//   store %o, %y
//
// That they are told to be so (ld.global.nc) lets the assembler make some behind stores, and rows of more elements fit
// into registers: layer norms of 16384 bf16 by 512 threads take 64 and spill nothing, 106 else. Kernels without
// reductions gain nothing, and those of short rows little: they would not be worth that a kernel with such loads cannot
// begin before what it reads is written (nvptx/grid_wait.h).
//
// A pointer that is written through may be that of a parameter that is only read, where each lane touches its own
// addresses (in-place elementwise). What a store is computed from has been read by then; other loads must stay before
// it.
#pragma once

#include <set>

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

// By programs of so many threads. `in_order`: such a kernel begins in order anyway, so that short rows may have them
// too.
std::set<const dsl::Op*> constant_loads(const dsl::Kernel& kernel, int64_t threads, bool in_order);

}  // namespace kiln::codegen::gpu

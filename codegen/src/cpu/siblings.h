// Ops of one kind that one walk may serve: those further down the region that need not wait for what stands between.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

// Whether a value is there already: a scalar, or a tile in scratch.
bool is_there(const Context& ctx, ValueId id);

// How many ops in all, and how far down they are looked for.
struct Reach {
  size_t ops;
  ptrdiff_t distance;
};

// The op, whose results are not there yet, and those behind it that are alike. What one of them
// reads is there, or is computed where it is wanted from what is there, before the first of them has run.
std::vector<const Op*> with_siblings(const Context& ctx, const Op& op, Reach reach,
                                     llvm::function_ref<bool(const Op&)> is_alike);

}  // namespace kiln::codegen::cpu

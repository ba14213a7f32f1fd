// The passes on tile IR that need no LLVM, in order. docs/inside/passes.md is the guide.
#pragma once

#include "passes/pass.h"

namespace kiln::codegen {

using Pass = TilePass<>;

// Of the language: dsl::instantiate() is dsl::with_constants() and these (kiln/dsl/rounding.h).
std::span<const Pass> rounding_passes();
// Behind them, of every target.
std::span<const Pass> pipeline();
// Behind them, of CPUs alone.
std::span<const Pass> cpu_passes();
// Behind the cuts (launches/launch_sequence.h), of GPUs alone: on the kernel of each launch. gpu/passes/block_passes.h
// has those that come next.
std::span<const Pass> gpu_passes();

// In any of the four; nothing by that name: null.
const Pass* find_pass(std::string_view name);
// The names of all.
std::string pass_names();

// `pipeline()`.
dsl::Kernel run_passes(dsl::Kernel kernel, const PassObserver& observer = {});

}  // namespace kiln::codegen

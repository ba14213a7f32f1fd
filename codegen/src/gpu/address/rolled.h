// Short code (launch_shape.h) makes many accesses to global memory in a loop, so many of them an iteration, where their
// tile is in shared memory anyway: what a product reads there, and what comes from there to be stored.
//
//   %x0 = load …                    for iteration in 0…4 {
//   …                                 %x0 … %x15 = load …
//   %x63 = load …              →      store …, %shared, %x0 … %x15
//   store …, %shared, %x0 … %x63    }
//
// The threads of an iteration are those of further warps: while code of an iteration is made, the context's `warp`
// counts on behind the block's warps, and the highest bits of the register stand in layouts behind the bits of the
// warp. So all that computes addresses and masks does what it does elsewhere.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Whether a load is made in a rolled loop, by materialise_in_shared(), where the product stands that reads it.
bool is_loaded_rolled(Context& ctx, const Op& load);

// Makes it, and writes what it gives to where `panels` say, in a buffer that is nobody else's yet.
Result<void> load_rolled(Context& ctx, const Op& load, const SharedPanels& panels, const SharedBuffer& buffer);

// Makes a store in a rolled loop; false where it is none of those.
Result<bool> store_rolled(Context& ctx, const Op& store);

}  // namespace kiln::codegen::gpu

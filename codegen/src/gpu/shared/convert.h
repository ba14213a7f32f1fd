// Conversions of tiles from one layout to another.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Registers in one layout, from those in another.
Result<Registers> convert(Context& ctx, const Registers& registers, const dsl::Type& type, const Layout& from,
                          const Layout& to);
// The same begun: what has to be read from shared memory is read when the function is called, behind other writes.
Result<std::function<Registers()>> start_conversion(Context& ctx, const Registers& registers, const dsl::Type& type,
                                                    const Layout& from, const Layout& to);

// From a lane; integers of any width.
Value* shuffle(Context& ctx, Value* x, Value* lane);
// From the lane whose number differs in these bits; elements of any type.
Value* shuffle_xor(Context& ctx, Value* x, unsigned lanes);

}  // namespace kiln::codegen::gpu

// Loads and stores of global memory.
#pragma once

#include "gpu/context.h"

namespace kiln::codegen::gpu {

Result<void> lower_load(Context& ctx, const Op& op);
// What a load gives in a layout; nothing where `enabled` (null: true) is false.
Result<Registers> load_tile(Context& ctx, const Op& op, const Layout& layout, Value* enabled);
Result<void> lower_store(Context& ctx, const Op& op);
// The accesses alone, for whose order in the block the caller sees to.
Result<Registers> load_registers(Context& ctx, const Op& op, const Layout& layout, Value* enabled);
Result<void> store_registers(Context& ctx, const Op& op, const Layout& layout, const Registers& values);

}  // namespace kiln::codegen::gpu

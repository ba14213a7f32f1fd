// B that was packed ahead in units, which the micro-kernel then reads where it lies.
#pragma once

#include "cpu/dot/dot_plan.h"
#include "cpu/nest/nest.h"

namespace kiln::codegen::cpu {

// Whether the only use of this reshape is a dot that reads its source.
bool is_read_in_units(Context& ctx, const Op& reshape);

bool may_lie_in_units(const Context& ctx, const DotBlocking& blocking, ValueId id);
// B that lies in memory in units; null where it does not.
std::optional<Nest::MemoryView> units_in_memory(Context& ctx, const DotBlocking& blocking, ValueId id);
// Where it is to be read. `pack` packs it where the view is not whole.
Result<OperandB> read_units(Context& ctx, const DotBlocking& blocking, ValueId id, OperandB packed,
                            const std::optional<Nest::MemoryView>& view, llvm::function_ref<Result<void>()> pack);

}  // namespace kiln::codegen::cpu

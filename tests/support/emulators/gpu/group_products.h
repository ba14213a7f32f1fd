// Products of several warps with operands in shared memory, computed on the host. Addresses are made as the manual of
// wgmma says (PTX ISA, "Shared Memory Matrix Layout"), not as the lowering lays tiles out.
#pragma once

#include "gpu/target_info.h"

namespace kiln::test {

// In shared memory, where an operand begins at `start`: element (i, k) of a step, i along the axis that is not k.
const std::byte* element_address(const codegen::gpu::GroupOperand& operand, const std::byte* start, size_t step, int i,
                                 int k, int bytes);

// As NVIDIA's wgmma; nothing where there is none.
std::optional<codegen::gpu::GroupInstruction> find_group_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                     dsl::ElementType sum, dsl::Precision precision,
                                                                     const std::function<int()>& next_site);

}  // namespace kiln::test

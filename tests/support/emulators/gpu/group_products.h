// Products of several warps with operands in shared memory, computed on the host. Addresses are made as the manual of
// wgmma says (PTX ISA, "Shared Memory Matrix Layout"), not as the lowering lays tiles out.
#pragma once

#include "gpu/target_info.h"

namespace kiln::test {

// As NVIDIA's wgmma; nothing where there is none.
std::optional<codegen::gpu::GroupInstruction> find_group_instruction(dsl::ElementType a, dsl::ElementType b,
                                                                     dsl::ElementType sum, dsl::Precision precision,
                                                                     const std::function<int()>& next_site);

}  // namespace kiln::test

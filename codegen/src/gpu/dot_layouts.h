// Which layouts a dot wants: by matrix instructions where the target has one for its types and extents, else each
// thread has a block of the result.
#pragma once

#include <optional>

#include "gpu/placement.h"
#include "gpu/target_info.h"

namespace kiln::codegen::gpu {

struct DotLayouts {
  Layout accumulator;
  // By matrix instructions: the operands' layouts, and how many fragments a warp has along m, n and k.
  std::optional<MatrixInstruction> instruction;
  Layout a, b;
  int64_t m_fragments = 0, n_fragments = 0, k_fragments = 0;
};

DotLayouts dot_layouts(const dsl::Kernel& kernel, const dsl::Op& dot, const TargetInfo& target,
                       const BlockShape& block);

}  // namespace kiln::codegen::gpu

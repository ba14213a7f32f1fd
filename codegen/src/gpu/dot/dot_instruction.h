// The matrix instruction of a dot: the target's own, or one for other types, with operands that are converted in
// registers on their way in:
//
//   tf32x3, bf16x3   f32 = big + small, both of the short type; a·b ≈ small·big + big·small + big·big
//   f8               as f16, which has all its numbers
#pragma once

#include <optional>

#include "gpu/target_info.h"

namespace kiln::codegen::gpu {

// Element types of operands and sum.
struct DotTypes {
  dsl::ElementType a, b, sum;
  dsl::Precision precision = dsl::Precision::kIeee;
};

// `context` outlives what is returned only in its kernel. Nothing where products have to be multiply-adds.
std::optional<MatrixInstruction> dot_instruction(const ElementContext& context, const TargetInfo& target,
                                                 const DotTypes& types);

// An instruction for the types of `types`, whose operands are converted to those of another, `wide`, on their way in.
MatrixInstruction on_wider(const ElementContext& context, const MatrixInstruction& of_wide, const DotTypes& types,
                           dsl::ElementType wide);

}  // namespace kiln::codegen::gpu

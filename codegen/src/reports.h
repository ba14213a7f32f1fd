// What the compiler puts into an artifact's metadata (docs/artifact.md).
#pragma once

#include "cpu/lower.h"
#include "gpu/lower_plan.h"
#include "kiln/abi/metadata.h"
#include "kiln/dsl/binary.h"

namespace kiln::codegen {

inline constexpr const char* kEntry = "kiln_entry";

// What every artifact says.
abi::Metadata describe(const dsl::CompileRequest& request, const dsl::Kernel& kernel);
// Adds `checks`, `prints`, `plan` and `workspace_bytes`, each where there is something to say.
void describe_launch(const Plan& plan, const cpu::Lowered& lowered, abi::Metadata& metadata);
// Adds `plan` and `workspace_bytes`, where a GPU's kernel takes several launches.
void describe_stages(const gpu::LoweredPlan& plan, abi::Metadata& metadata);
// Adds `checks`, `prints` and where a GPU's launch puts what they need, behind `params_bytes`.
void describe_launch(const dsl::Kernel& kernel, const gpu::Lowered& lowered, abi::Metadata& metadata);

}  // namespace kiln::codegen

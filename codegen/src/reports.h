// The parts of an artifact's metadata (docs/reference/artifact.md) that say what a launch may report, and how it is
// planned.
#pragma once

#include <nlohmann/json.hpp>

#include "cpu/lower.h"
#include "gpu/lower_plan.h"

namespace kiln::codegen {

// Adds `checks`, `prints`, `plan` and `workspace_bytes`, each where there is something to say.
void describe_launch(const Plan& plan, const cpu::Lowered& lowered, nlohmann::json& metadata);
// Adds `plan` and `workspace_bytes`, where a GPU's kernel takes several launches.
void describe_stages(const gpu::LoweredPlan& plan, nlohmann::json& metadata);
// Adds `checks`, `prints` and where a GPU's launch puts what they need, behind `params_bytes`.
void describe_launch(const dsl::Kernel& kernel, const gpu::Lowered& lowered, nlohmann::json& metadata);

}  // namespace kiln::codegen

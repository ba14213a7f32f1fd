// An artifact's metadata (docs/reference/artifact.md): what was asked for, what a launch may report, how it is planned.
#pragma once

#include "cpu/lower.h"
#include "gpu/lower_launches.h"
#include "kiln/abi/metadata.h"
#include "kiln/dsl/binary.h"

namespace kiln::codegen {

inline constexpr const char* kEntry = "kiln_entry";

// What every artifact says.
abi::Metadata describe_request(const dsl::CompileRequest& request, const dsl::Kernel& kernel);
// Adds `checks`, `prints`, `plan` and `workspace_bytes`, each where there is something to say.
void describe_launch(const LaunchSequence& sequence, const cpu::Lowered& lowered, abi::Metadata& metadata);
// Of a GPU, whose `device` is there: adds `plan` and `workspace_bytes` where there are several launches, and what the
// first one's function asks of its launch.
void describe_launches(const gpu::LoweredSequence& lowered, abi::Metadata& metadata);
// Adds `checks`, `prints` and where a GPU's launch puts what they need, behind `params_bytes`.
void describe_launch(const dsl::Kernel& kernel, const gpu::Lowered& lowered, abi::Metadata& metadata);

}  // namespace kiln::codegen

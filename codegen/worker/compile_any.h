// What a request is for decides who answers it: a kernel's goes to the compiler, a graph's to the planner.
#pragma once

#include "kiln/codegen/compile.h"

namespace kiln::worker {

Result<Artifact> compile_any(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                             const codegen::Progress& progress);

}  // namespace kiln::worker

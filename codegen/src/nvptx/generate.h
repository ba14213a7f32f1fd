// From the tile IR to PTX, and to machine code where an assembler is at hand.
#pragma once

#include <functional>
#include <string_view>

#include "gpu/lower_plan.h"
#include "kiln/dsl/artifact.h"
#include "nvptx/assemble.h"
#include "nvptx/target.h"

namespace kiln::codegen::nvptx {

struct Generated {
  gpu::LoweredPlan plan;
  std::vector<std::byte> code;  // what `emit` asks for
  std::string emitted;          // of `cubin`: "ptx" where no assembler is at hand
  std::optional<Resources> resources;
};

// `config` has schedule options (gpu/launch_shape.h). `emit`: cubin, ptx (also called asm), llvm. `begin` is told each
// phase.
Result<Generated> generate(const dsl::Kernel& kernel, const CudaTarget& target, const dsl::ConstexprValues& config,
                           gpu::Effort effort, const std::string& emit,
                           const std::function<void(std::string_view phase)>& begin);

}  // namespace kiln::codegen::nvptx

// What a vendor's code generator gives the compiler beside its TargetInfo.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/launch_shape.h"
#include "gpu/lower_plan.h"
#include "kiln/abi/metadata.h"

namespace kiln::codegen::gpu {

// Is told each phase.
using PhaseBegin = std::function<void(std::string_view phase)>;

struct Generated {
  LoweredPlan plan;
  std::vector<std::byte> code;
  std::string emitted;  // what the code is
  abi::Device device;   // of the artifact's metadata
};

struct Vendor {
  std::string family;                 // of its targets' names: "cuda" of "cuda:sm_90a"
  std::vector<std::string> forms;     // what code can be; the first is what a launcher loads
  void (*initialise)() = nullptr;     // once per process, before any other call
  void (*start_helpers)() = nullptr;  // before the process may start no others; may be null
  Result<void> (*check_target)(const std::string& name) = nullptr;
  // `kernel` is optimised; `config` has schedule options (gpu/launch_shape.h); `emit` is one of the forms.
  Result<Generated> (*generate)(const dsl::Kernel& kernel, const std::string& target,
                                const dsl::ConstexprValues& config, Effort effort, const std::string& emit,
                                const PhaseBegin& begin) = nullptr;
};

}  // namespace kiln::codegen::gpu

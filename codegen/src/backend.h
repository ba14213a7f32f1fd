// A backend is a value: what the compiler does for one family of targets, step by step. The driver (compile.cpp) runs
// the steps in this order, the same for all:
//
//   check_target → with_constants → rounding_passes() → pipeline() → check_supported → tile_passes → cut → lower → emit
//                                                                                                           │
//                                     of each launch of a GPU: choose_shape, code, lowered_passes, llvm_passes
//
// docs/inside/architecture.md has the picture, docs/inside/passes.md the passes.
#pragma once

#include <optional>
#include <variant>

#include "cpu/lower.h"
#include "diagnostics.h"
#include "gpu/lower_launches.h"
#include "kiln/abi/metadata.h"
#include "kiln/codegen/outside.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/custom_kernel.h"
#include "launches/launch_sequence.h"
#include "llvm_pass.h"
#include "passes/pipeline.h"

namespace kiln::codegen {

// Who listens to a compile.
struct Observer {
  std::function<void(std::string_view phase)> begin;
  PassObserver passes;
};

// What a compile may do. Where code turns out badly, another attempt is made with less, or with more time.
struct Attempt {
  gpu::Effort effort = gpu::Effort::kFast;
  bool specialises = true;  // as far as the schedule option warp_specialise asks for it
};

// A request between the passes on its kernel and its code.
struct Job {
  Job(const dsl::CompileRequest& of, const LaunchSequence& launches, Attempt how, const Observer& who)
      : request(of), sequence(launches), attempt(how), observer(who), diagnostics(context), module("kiln", context) {}

  const dsl::CompileRequest& request;
  const LaunchSequence& sequence;  // its launches
  const Attempt attempt;
  const Observer& observer;
  llvm::LLVMContext context;
  Diagnostics diagnostics;
  llvm::Module module;
  std::variant<std::monostate, cpu::Lowered, gpu::LoweredSequence> lowered;
  abi::Metadata metadata;  // of the artifact; `emit` adds to it

  // The config, as far as this attempt follows it.
  dsl::ConstexprValues config() const;
};

// What passes on LLVM IR know of the code that they change.
struct CodeFacts {
  const Job& job;
  const LaunchStep& launch;  // of CPUs, whose launches are one module: the last
  int64_t shared_bytes = 0;

  llvm::Function& entry(llvm::Module& module) const { return *module.getFunction(launch.entry); }
  bool has_products() const { return gpu::has_products(launch.kernel.body); }
  // The code of few products is long in a loop, all of which is to be seen at once.
  bool may_be_parted() const { return !has_products() || gpu::has_many_products(launch.kernel.body); }
};
using CodePass = LlvmPass<CodeFacts>;

struct Code {
  std::vector<std::byte> bytes;
  // What an assembler says of its registers: so many bytes are in memory instead; some threads would have too few.
  int64_t spilled_bytes = 0;
  bool lacks_registers = false;
};

struct Backend {
  std::string_view family;                                  // of its targets' names: "cuda" of "cuda:sm_90a"
  std::span<const std::string_view> forms;                  // what code can be; the first is what a launcher loads
  bool names_entries = false;                               // `so:NAME`: several kernels go into one program
  void (*initialise)(const Outside& outside) = nullptr;     // once per process, before any other call
  void (*start_helpers)(const Outside& outside) = nullptr;  // before the process may start no others; may be null

  Result<void> (*check_target)(const std::string& name) = nullptr;
  // What the target has no instructions for; may be null.
  void (*restrict_options)(const std::string& target, dsl::KernelOptions& options) = nullptr;
  Result<void> (*check_supported)(const dsl::Kernel& kernel, const std::string& target) = nullptr;
  std::span<const Pass> tile_passes;  // on the whole kernel, behind those of every target
  LaunchSequence (*cut)(dsl::Kernel kernel, const dsl::ConstexprValues& config, const PassObserver& observer) = nullptr;
  // The largest block for a launch to be tried; null where programs are no blocks of threads.
  Result<gpu::LaunchShape> (*choose_shape)(const Job& job, const LaunchStep& launch) = nullptr;
  // To LLVM IR that is ready to become code: all that follows up to `emit`.
  Result<void> (*lower)(const Backend& self, Job& job) = nullptr;
  std::span<const CodePass> lowered_passes;  // what completes the code of a launch, before it is verified
  std::span<const CodePass> llvm_passes;     // what optimises the code of a launch
  Result<Code> (*emit)(Job& job) = nullptr;

  // Code that others wrote, in the forms that it may have: to what a launcher loads, with what the metadata say of it.
  std::span<const dsl::CodeForm> custom_forms;
  Result<std::vector<std::byte>> (*compile_custom)(const dsl::CustomRequest& request,
                                                   abi::Metadata& metadata) = nullptr;
};

namespace cpu {
const Backend& backend();
}
namespace nvptx {
const Backend& backend();
}
namespace amdgcn {
const Backend& backend();
}

// The backend of a target's family. Error: this compiler was built without it. CPUs are what a target is of otherwise.
Result<const Backend*> backend_for(const std::string& target);
// Those that there are.
std::span<const Backend* const> backends();

// A row of any table, in the order in which they run.
struct PassRow {
  std::string_view name, place;
};
std::vector<PassRow> rows_of(const Backend& backend);

}  // namespace kiln::codegen

// Kernels that take several launches (launches/launch_sequence.h): what tests of each kind of plan have in common.
#pragma once

#include "differential.h"
#include "launches/launch_sequence.h"

namespace kiln::test {

// The plan that GPUs have of an instance of the kernel; `config` may have schedule options.
codegen::LaunchSequence gpu_launches(const dsl::Kernel& kernel, const dsl::ConstexprValues& config = {});

// Programs of each stage for one of the kernel's; each stage is checked to be sound.
std::vector<int64_t> chunks_of(const codegen::LaunchSequence& sequence);

struct LaunchTrial {
  std::vector<TestArgument> arguments;
  Match match = kExact;
  dsl::ConstexprValues config = {};
  std::vector<std::string> emulated = {"gpu"};                            // shapes of blocks
  std::vector<std::string> compiled = {"", "amd:gfx942", "amd:gfx1100"};  // targets
};

// Runs the kernel on this machine's CPU (or a CUDA device), in AMD's machine code, and its stages as kernels of their
// own in the emulator of the lowering for GPUs: all buffers are as the interpreter, which runs the kernel as it was
// written, leaves them. Artifacts have plans where the kernel has. The first kernel of a test runs on the CPU, on one
// of AMD's processors and on one of the shapes, each further one on one of the targets, and every other one on one of
// the shapes, by turns (sampled.h).
void expect_as_interpreted(const dsl::Kernel& kernel, const LaunchTrial& trial);

// Kernels of one program.
// out = reduce(x[i] for i < n, else other) of `elements` elements.
std::string reduce_text(const std::string& type, const std::string& out, int64_t elements, const std::string& reduce);
// out = softmax(x[i] for i < n).
std::string softmax_text(int64_t columns);
// y = scan(x[i] for i < n, else 0).
std::string scan_text(const std::string& type, int64_t elements, const std::string& attrs);
// v, i = the k largest (or smallest) of x, i32 of few different values: ties everywhere.
std::string topk_text(int64_t elements, int64_t k, bool largest);
// y = sorted x; with `values` also the place that each key came from, which shows whether the sort is stable.
std::string sort_text(const std::string& type, int64_t elements, bool descending, bool values);

}  // namespace kiln::test

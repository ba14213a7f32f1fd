// The tests of this harness on a CUDA device: with KILN_TEST_TARGETS=cuda, what they compile for this machine's CPU is
// compiled for its first NVIDIA GPU instead, and runs there through the client's launcher. tests/gpu/run.sh does that.
//
// KILN_TEST_CUDA=cuda:sm_80 names another target than the device's own; without a device it is cuda:sm_90a.
#pragma once

#include "harness.h"
#include "kiln/client/gpu.h"

namespace kiln::test {

bool on_cuda();

// A refusal of an op that is not lowered yet is printed too: tests leave such kernels out, and run_tests.py counts
// them.
Result<Artifact> compile_for_cuda(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs,
                                  const dsl::Facts& facts);
// Buffers are copied there and back. Bytes before and behind each are checked; addresses are no better aligned than the
// artifact's facts say. A device that no longer works takes the process along: all that follows would fail too.
Result<void> run_on(const Device& device, const dsl::Kernel& kernel, const Artifact& artifact,
                    std::vector<TestArgument>& arguments, const client::LaunchOptions& options);
// On the first device, which stays open until the process ends.
Result<void> run_on_cuda(const dsl::Kernel& kernel, const Artifact& artifact, std::vector<TestArgument>& arguments,
                         const client::LaunchOptions& options);

}  // namespace kiln::test

// Kernels through the lowering for GPUs, run on the host: differential tests compare them with the interpreter. Speed
// and instructions are not a GPU's; who holds what, who waits for whom and who may read what are.
//
// Beyond wrong results these are errors: a barrier or shuffle that not all threads reach, accesses of global memory
// outside the arguments or unaligned, of shared memory outside what the block has, accesses of either that no barrier
// orders, and results that depend on the order in which threads run.
#pragma once

#include <array>
#include <span>
#include <string>
#include <vector>

#include "kiln/dsl/artifact.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/ir.h"

namespace kiln::test {

// "gpu", "gpu:warps=4", "gpu:warps=1,lanes=64" or "gpu:warps=1,programs=4". What the name leaves open is chosen by the
// kernel's text, so that many kernels cover all shapes of blocks. "gpu:like=sm_120": with the units and the shared
// memory of that processor.
bool is_emulated(const std::string& target);

Result<Artifact> compile_emulated(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs,
                                  const dsl::Facts& facts, const std::string& target);

// What a launch leaves for the host (docs/reference/artifact.md): the failure record, and the ring of messages with its
// data.
struct EmulatedReports {
  std::vector<std::byte> failure, ring;
};

// Buffers are aligned as far as the facts and element types ask for, and no further. Extents are known where `reports`
// are asked for.
Result<void> run_emulated(const Artifact& artifact, const dsl::Kernel& kernel, std::span<const dsl::Argument> arguments,
                          std::array<uint32_t, 3> grid, EmulatedReports* reports = nullptr);

}  // namespace kiln::test

// Compiles a kernel in this process, runs it, and runs the interpreter on the same arguments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kiln/client/handle.h"
#include "kiln/dsl/artifact.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/ir.h"

namespace kiln::test {

// Bytes of a buffer argument, or a scalar's bits.
struct TestArgument {
  std::vector<std::byte> buffer;
  uint64_t bits = 0;
  bool is_buffer = false;
};

template <class T>
TestArgument buffer(const std::vector<T>& values) {
  TestArgument out;
  out.is_buffer = true;
  out.buffer.resize(values.size() * sizeof(T));
  std::copy_n(reinterpret_cast<const std::byte*>(values.data()), out.buffer.size(), out.buffer.data());
  return out;
}
inline TestArgument scalar_bits(uint64_t bits) { return {{}, bits, false}; }

template <class T>
std::vector<T> values_of(const TestArgument& argument) {
  std::vector<T> out(argument.buffer.size() / sizeof(T));
  std::copy_n(argument.buffer.data(), argument.buffer.size(), reinterpret_cast<std::byte*>(out.data()));
  return out;
}

// LLVM's targets are registered once.
void initialise();

// `target` "" is this machine's CPU; "gpu" and the like are emulated (gpu_emulator.h), "amd" too (amd_device.h).
Result<Artifact> compile(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs,
                         const dsl::Facts& facts = {}, const std::string& target = "", const std::string& emit = "so");
// All that these arguments allow to say of the parameters; buffers are aligned where facts want them to be.
dsl::Facts facts_of(const dsl::Kernel& kernel, const std::vector<TestArgument>& arguments);
// The lowering for GPUs says that it does not know an op yet; such a target is left out.
bool is_refused(const Result<Artifact>& artifact);
// With the variable KILN_TEST_QUICK code for CPUs is made quickly (docs/reference/artifact.md, `emit`).
// The variable KILN_TEST_TARGETS: "gpu" for the emulator alone, also where a test names no target; "cpu" for CPUs
// alone; "amd" for AMD's machine code, also where a test names no target, "amd:gfx90a" for that of one processor.
bool wants_targets(const std::string& kind);
// Loads the artifact and runs all programs of the grid that the scalar arguments give. Buffers are updated in place and
// end at a page that may not be touched, so that reading or writing past them is a crash, not luck.
Result<void> run_compiled(const dsl::Kernel& kernel, const Artifact& artifact, std::vector<TestArgument>& arguments);
// The same through the client: on threads, with the extents of the buffers known.
Result<void> run_launched(const dsl::Kernel& kernel, const Artifact& artifact, std::vector<TestArgument>& arguments,
                          const client::LaunchOptions& options = {});
Result<void> run_interpreted(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs, const dsl::Facts& facts,
                             std::vector<TestArgument>& arguments, bool contract = true,
                             const dsl::InterpretOptions& options = {});
// Of the instantiated kernel, for these arguments.
Result<std::array<uint32_t, 3>> grid_of(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs,
                                        const std::vector<TestArgument>& arguments);

}  // namespace kiln::test

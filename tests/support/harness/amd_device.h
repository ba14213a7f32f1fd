// Code objects for AMD GPUs, executed by the emulator of their machine code.
#pragma once

#include <array>
#include <map>
#include <span>
#include <string>

#include "gpu_emulator.h"
#include "kiln/dsl/artifact.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/ir.h"

namespace kiln::test {

// "amd" is one of the processors that are emulated; "amd:gfx942" that one.
bool is_amd(const std::string& target);
// The processor that "amd" stands for, by the kernel's text: gfx942 or gfx1100; one of all seven where
// KILN_TEST_TARGETS is "amd", and what that names if it names one.
std::string amd_target_of(const dsl::Kernel& kernel);
// Whether the default run has the kernel: a part of them, by their text. All where KILN_TEST_TARGETS begins with "amd".
bool is_chosen_for_amd(const dsl::Kernel& kernel);

// Runs twice where a workgroup has several waves: with these in order, and in reverse. Every address is checked against
// the arguments, which are aligned as far as the facts and element types ask for, and no further. Extents are known
// where `reports` are asked for.
Result<void> run_on_amd(const Artifact& artifact, const dsl::Kernel& kernel, std::span<const dsl::Argument> arguments,
                        std::array<uint32_t, 3> grid, EmulatedReports* reports = nullptr);
// Of LDS instructions, by their text: turns in which lanes waited for others at the same bank.
Result<std::map<std::string, uint64_t>> bank_conflicts_on_amd(const Artifact& artifact, const dsl::Kernel& kernel,
                                                              std::span<const dsl::Argument> arguments,
                                                              std::array<uint32_t, 3> grid);

}  // namespace kiln::test

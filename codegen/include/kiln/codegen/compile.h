// The compiler behind one function. No LLVM type is visible here.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "kiln/codegen/outside.h"
#include "kiln/dsl/artifact.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen {

// Called at the start of each phase with its name, for the heartbeat of a worker.
using Progress = std::function<void(std::string_view phase)>;

// Compiles one request (see kiln/dsl/request.h). Errors carry lines of the author's source where the debug section
// has them. Not thread-safe: one process compiles one request at a time.
Result<Artifact> compile(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                         const Progress& progress);

// The same of a request for a custom kernel (kiln/dsl/custom_kernel.h). Errors carry lines of its text.
Result<Artifact> compile_custom(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                                const Progress& progress);

// Loads and initialises LLVM; nothing is compiled before. The first word of what is outside holds for the process.
void initialise(const Outside& outside = {});

// That, and compiles a tiny kernel for `target`, of a CPU, so that processes forked from this one start warm;
// empty: native_target().
void warm_up(const Outside& outside = {}, const std::string& target = {});

// Starts what compiling needs beside this process, and makes the files of memory that it needs, before the process
// gives up the right to. From then on it starts no others.
void start_helpers(const Outside& outside = {});

// Names the exact compiler: the build-ids of this executable and of libLLVM.
std::string builder_id();

// What `cpu` means on this machine: native_processor(), and what was measured of it once in this process.
std::string native_target();

// "cpu:" and LLVM's CPU name with its sorted feature list, for example "cpu:znver5,+avx512f,…".
std::string native_processor();

// The rest of a target's name is of what only a measurement tells: which instructions are the fastest for products of
// small numbers (";dot-bf16=…;dot-i8=…"), empty where they are those that the features promise. Two measurements may
// differ, so whoever keeps one for others asks may_be_measured() before believing it: whether this machine has all that
// these words name, and runs it. Not thread-safe: they have the process's handler of SIGILL for some milliseconds.
bool may_measure_units();  // else there is no choice
std::string measured_dot_units();
bool may_be_measured(std::string_view units);

}  // namespace kiln::codegen

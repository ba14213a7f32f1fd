// Handles of code that is there already: an artifact of docs/reference/artifact.md, from wherever it came, without a
// daemon.
//
//   auto fn = load_artifact(kernel, artifact);
//   if (!fn) …fn.error().message…
//   auto done = fn->launch(arguments);
#pragma once

#include <string>
#include <vector>

#include "kiln/client/handle.h"
#include "kiln/dsl/artifact.h"
#include "kiln/dsl/ir.h"

namespace kiln::client {

// The kernel must be the one that the artifact was compiled from. The handle has this variant alone: a launch whose
// arguments break the facts that it was compiled for is an error, and nothing compiles behind it.
Result<UntypedFunction> load_artifact(const dsl::Kernel& kernel, const Artifact& artifact);

// A function of a shared object that the caller built: `symbol` is of kiln_entry_fn (kiln/abi/cpu_abi.h), and runs
// programs of the kernel's grid. `declared` is a kernel without ops, as for CustomCode. Error: the file cannot be read,
// or has no such function.
Result<UntypedFunction> load_shared_object(const dsl::Kernel& declared, const std::string& path,
                                           const std::string& symbol);

// What the CPU of this machine has of the features that code may need, by LLVM's names.
std::vector<std::string> host_features();

}  // namespace kiln::client

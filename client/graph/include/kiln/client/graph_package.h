// A compiled graph as bytes: its plan, and the code of its kernels. CBOR, an array of 3: a tag, the plan's bytes
// (docs/reference/graph-plan.md), and an array with metadata and code of each kernel, one behind the other.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kiln/client/graph.h"

namespace kiln::client {

// Has the kernels compiled where no cache has them, for the plan's target, whose machine need not be this one. Error:
// of the first kernel that cannot be compiled.
Result<std::string> write_package(Client& client, const graph::Plan& plan);
// Survives any bytes as far as the plan and the metadata go; code is run as it is.
Result<CompiledGraph> read_package(std::span<const std::byte> bytes);

}  // namespace kiln::client

// A kernel of a plan without its body: what a client needs to ask for code and to launch it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "kiln/graph/plan.h"

namespace kiln::graph {

// Of bytes of encode_kernel(): all but ops, and the names of values. None of a kernel that names source lines at run
// time, which must be read whole. Throws BadBytes.
std::optional<PlannedKernel> read_kernel_head(std::span<const std::byte> encoded);

}  // namespace kiln::graph

// Names of a program's outputs, by what the module's forward() gives.
#pragma once

#include <string>
#include <vector>

#include "pt2/fields.h"

namespace kiln::graph::pt2 {

// The leaves of a tree that torch.utils._pytree wrote, in order: of {"a": x, "b": (y, z)} "a", "b_0", "b_1"; of a tuple
// "y0", "y1"; of one tensor "y". Other than `count` leaves, or text that is no such tree: "y0", "y1", ….
std::vector<std::string> leaf_names(const std::string& tree, size_t count);

}  // namespace kiln::graph::pt2

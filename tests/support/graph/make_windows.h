#pragma once

#include "graph/generator.h"

namespace kiln::random_graph {

// Convolutions, windows, pools and resizes.
void make_windows(Generator& gen, TensorOp op);

}  // namespace kiln::random_graph

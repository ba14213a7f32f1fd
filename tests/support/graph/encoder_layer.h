// A layer of an encoder, small, as most tests of whole programs want one.
#pragma once

#include "kiln/graph/graph.h"

namespace kiln::test {

// Attention with a mask by places, two norms and two layers, of any batch n and length s: [n, s, kEncoderWidth] to the
// same. The first two inputs are by batch: x and mask.
inline constexpr int64_t kEncoderWidth = 32;
graph::GraphDef encoder_layer();

}  // namespace kiln::test

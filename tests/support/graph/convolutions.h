// Convolutions that are wide enough for blocks of products, each with a layer before it and one behind.
#pragma once

#include <span>

#include "kiln/graph/graph.h"

namespace kiln::test {

struct Convolution {
  const char* name;
  graph::Shape x, w;
  graph::ConvOptions options = {};
};
std::span<const Convolution> convolutions();

// A scalar of inputs x, w, scale and bias. What lies between the layers may lie in any order.
graph::GraphDef network(const Convolution& of, graph::Dim batch, dsl::ElementType type);

}  // namespace kiln::test

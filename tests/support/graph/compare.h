// Whether what a plan computed is what the evaluator says.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kiln/graph/evaluate.h"

namespace kiln::test {

struct Tolerance {
  double ulps = 64;
  std::optional<dsl::ElementType> coarsest = {};
  std::span<const graph::Array> wide = {};
};
// "" or what differs first. Ints and bools are equal. Floats are within `ulps` units in the last place of the coarsest
// type on the way (absent: the output's own), at the largest magnitude of the output, or 1; and within 16 times of what
// the evaluator loses by rounding itself, which `wide` tells, its results in f64. NaN is where NaN is, but where the
// two evaluations do not agree on that.
std::string difference(std::span<const graph::Array> actual, std::span<const graph::Array> expected,
                       const Tolerance& tolerance = {});

// The float type of the fewest bits among the values of a graph.
std::optional<dsl::ElementType> coarsest_float(const graph::Graph& graph);

}  // namespace kiln::test

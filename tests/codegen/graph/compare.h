// Whether what a plan computed is what the evaluator says.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "kiln/graph/evaluate.h"

namespace kiln::test {

// "" or what differs first. Ints and bools are equal; floats are within `ulps` units of the type's last place at the
// larger magnitude of all elements of the output and the element's own, NaN where NaN is.
std::string difference(std::span<const graph::Array> actual, std::span<const graph::Array> expected, double ulps = 64);

}  // namespace kiln::test

// A program of ATen calls as JSON, for scripts that compare with PyTorch.
//
//   {"dims": {"n": [1, 64]},
//    "inputs": [{"name": "x", "type": "f32", "shape": ["n", 8]}],
//    "calls": [{"target": "aten.sum.dim_IntList", "arguments": {"self": {"tensor": "x"}, "dim": [1]}, "results":
//    ["y"]}], "outputs": [["y", "y"]]}
//
// Arguments: null, true, 2, 2.5, [a list]; {"float": "inf"}, {"word": "mean"}, {"type": "f32"}, {"dim": "n + 1"} and
// {"tensor": "x"}, where "" is None among tensors.
#pragma once

#include <nlohmann/json.hpp>

#include "kiln/graph/aten.h"

namespace kiln::graph {

Result<AtenProgram> aten_program(const nlohmann::json& json);

}  // namespace kiln::graph

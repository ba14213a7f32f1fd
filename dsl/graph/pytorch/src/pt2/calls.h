// The calls of an exported program, with those of its parts inlined.
#pragma once

#include <string>
#include <vector>

#include "pt2/values.h"

namespace kiln::graph::pt2 {

// Of a `graph` of the schema.
std::vector<AtenCall> calls_of(const json& graph, const Sizes& sizes);

// The innermost line of the author's in a stack trace of Python's, "model.py:12 in forward"; empty: none.
std::string place_of(std::string_view stack_trace);

}  // namespace kiln::graph::pt2

// Types, sizes and arguments of exported programs.
#pragma once

#include <map>
#include <string>

#include "kiln/graph/aten.h"
#include "pt2/fields.h"
#include "pt2/symbols.h"

namespace kiln::graph::pt2 {

// Sizes that are known when the graph runs: the ranges of symbols, and what names of ints stand for.
struct Sizes {
  SymbolRanges ranges;
  std::map<std::string, Dim, std::less<>> ints;
};

// Of a ScalarType of the schema. Complex numbers and f8 of other kinds than e4m3fn and e5m2 are errors.
ElementType element_type(const json& value);
// {"as_int": 4} or {"as_expr": {"expr_str": …}}
Dim size_of(const json& value, const SymbolRanges& ranges);

// Whether a call with this argument or result is about ints, floats or booleans alone that a run knows, no tensors.
bool is_symbolic(const json& argument);

// Names of tensors go through `renamed`, which has those of an inlined part.
using Renamed = std::map<std::string, std::string, std::less<>>;
AtenArgument argument_of(const json& argument, const Sizes& sizes, const Renamed& renamed);

}  // namespace kiln::graph::pt2

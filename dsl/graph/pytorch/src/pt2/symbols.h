// Integer expressions over sizes, as SymPy writes them: `Add(Symbol('s0', integer=True), Integer(1))`, or `s0 + 1`.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "kiln/dsl/result.h"
#include "kiln/graph/dim.h"

namespace kiln::graph::pt2 {

struct SymbolRange {
  int64_t low = 0, high = DimInfo::kMost;
};
using SymbolRanges = std::map<std::string, SymbolRange, std::less<>>;

// Symbols without a range may be any size. Errors quote the text.
Result<Dim> read_dim(std::string_view text, const SymbolRanges& ranges);

}  // namespace kiln::graph::pt2

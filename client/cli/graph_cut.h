// `kiln graph cut`: what a graph's gradient keeps from the forward pass, and what it computes again.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::cli {

struct GraphCutFlags {
  std::string file;                // .kg
  std::vector<std::string> by;     // names of inputs; none: all of floats
  std::vector<std::string> sizes;  // "n=128"
  std::optional<int64_t> budget_bytes;
};
Result<void> cut_graph(const GraphCutFlags& flags);

}  // namespace kiln::cli

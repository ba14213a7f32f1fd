// What a C header has beside the declarations: the kernel's grid and its launch, as functions.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kiln/abi/metadata.h"

namespace kiln::cli {

// What a launch must meet: an expression in the form of `grid_expr` (docs/reference/artifact.md), with the config put
// in, and what a comment says of it.
struct LaunchCondition {
  nlohmann::json expr;
  std::string comment;
};

// Needs C11, or C++, and what the header declares before it: kiln_ctx and its like, `NAME_params` and the entries.
// `fields`: those of `NAME_params`, in the order of the parameters. Empty where the metadata has no `grid_expr`.
std::string c_launcher(const std::string& name, const std::vector<std::string>& fields,
                       const std::vector<LaunchCondition>& conditions, const abi::Metadata& metadata);

}  // namespace kiln::cli

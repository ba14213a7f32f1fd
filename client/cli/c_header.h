// The C header that stands beside an emitted shared object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::cli {

// Declares the entry and a struct whose layout is that of its `params`.
std::string c_header(const dsl::Kernel& kernel, const nlohmann::json& metadata);

// The symbols that the code defines for its launcher: of a plan the entries of all stages.
std::vector<std::string> entries_of(const nlohmann::json& metadata);

}  // namespace kiln::cli

// The C header that stands beside an emitted shared object.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "kiln/dsl/ir.h"

namespace kiln::cli {

// Declares the entry and a struct whose layout is that of its `params`.
std::string c_header(const dsl::Kernel& kernel, const nlohmann::json& metadata);

}  // namespace kiln::cli

// The C header that stands beside an emitted shared object.
#pragma once

#include <string>
#include <vector>

#include "kiln/abi/metadata.h"
#include "kiln/dsl/ir.h"

namespace kiln::cli {

// Declares the entry and a struct whose layout is that of its `params`.
std::string c_header(const dsl::Kernel& kernel, const abi::Metadata& metadata);

// The symbols that the code defines for its launcher: of a plan the entries of all stages.
std::vector<std::string> entries_of(const abi::Metadata& metadata);

}  // namespace kiln::cli

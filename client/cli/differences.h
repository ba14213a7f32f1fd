// What two compile requests do not have in common, for people who ask why the second was no hit.
#pragma once

#include <string>
#include <vector>

#include "kiln/dsl/binary.h"

namespace kiln::cli {

// One line for each part of the request key that differs: "target: cpu:a here, cpu:b there". Empty: the same request.
std::vector<std::string> differences(const dsl::CompileRequest& here, const dsl::CompileRequest& there);

// "BM=64, BN=128", "A=align16, n=x16", or "none".
std::string constexprs_text(const dsl::CompileRequest& request);
std::string facts_text(const dsl::CompileRequest& request);

}  // namespace kiln::cli

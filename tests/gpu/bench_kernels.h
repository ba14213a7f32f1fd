// The kernels that bench.py times, by name and element type: those of the library, and products whose operands lie
// otherwise than the library's.
#pragma once

#include <string>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"

namespace kiln::test {

// "softmax", "bf16". An unknown name or type is an error that says so.
Result<dsl::Kernel> bench_kernel(const std::string& name, const std::string& type);

}  // namespace kiln::test

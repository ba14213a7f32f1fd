// The kernel library by name, without tracing all of it as library_kernels() does (kiln/dsl/kernels.h).
#pragma once

#include <span>
#include <string_view>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/result.h"

namespace kiln::dsl {

// In the order of library_kernels(). Thread-safe, as is the other.
std::span<const std::string_view> library_kernel_names();
// Traces that one when it is first asked for; null: the library has no kernel of this name. The library owns it.
const Result<Kernel>* find_library_kernel(std::string_view name);

}  // namespace kiln::dsl

// Where threads wait for memory or for each other, they wait for as much as there is at once.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

dsl::Kernel gather_waits(dsl::Kernel kernel, int threads);

}  // namespace kiln::codegen::gpu

// The canonical order of the values that a loop carries.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// Orders the carried values of every loop by demand and drops those that nothing demands. Expects a verified kernel;
// what is dropped may leave dead ops.
void order_carried(Kernel& kernel);

}  // namespace kiln::dsl

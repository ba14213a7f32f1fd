#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

// Common subexpressions of instantiated IR, one value each.
//
//   %a = cmp %i, %n {pred = lt}             %a = cmp %i, %n {pred = lt}
//   %x = load %p, %a                   →    %x = load %p, %a
//   %b = cmp %i, %n {pred = lt}             store %q, %x, %a
//   store %q, %x, %b
//
// Pure ops only, within a region and from outer regions into inner ones. Masks that were written twice become one,
// which is how the mask analysis sees that they agree.
dsl::Kernel eliminate_common_subexpressions(dsl::Kernel kernel);
// Loads become one too, where nothing is loaded that may be stored.
dsl::Kernel eliminate_common_loads(dsl::Kernel kernel);

}  // namespace kiln::codegen

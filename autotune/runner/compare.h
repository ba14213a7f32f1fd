// Whether two candidates' outputs are one result.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "kiln/dsl/types.h"

namespace kiln::autotune {

// What differs, in words; empty where nothing does. Ints must be equal. Floats may differ as sums in another order do,
// by so many units in the last place of `rounding`, the coarsest type that the values were rounded to: the norm of the
// difference by few units of the norm, an element by more of its own size and the array's root mean square. A wrong
// tile is far beyond both. NaN equals NaN, an infinity itself.
std::string compare_arrays(dsl::ElementType element, dsl::ElementType rounding, std::span<const std::byte> expected,
                           std::span<const std::byte> actual);

}  // namespace kiln::autotune

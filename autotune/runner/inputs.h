// Arrays for a kernel to be measured on: a function of the seed, on every machine the same.
#pragma once

#include <cstddef>
#include <span>

#include "kiln/autotune/workload.h"
#include "kiln/dsl/types.h"

namespace kiln::autotune {

// Bytes of the array behind a pointer parameter. Error where no memory holds them.
Result<uint64_t> array_bytes(const dsl::Param& param, const WorkloadArgument& argument);

// Arrays repeat their first elements after so many. It is a prime, so that no two tiles of a kernel hold the same.
inline constexpr size_t kPeriod = 1048573;

// The array behind parameter `number`, or its beginning: at most kPeriod elements. Floats are N(0, 1), times 1/8 in f8
// so that products stay finite, or where the argument has a range uniform in it; ints are uniform in the range, without
// one in [0, 8) or [-4, 4).
void fill_array(dsl::ElementType element, const WorkloadArgument& argument, uint64_t seed, size_t number,
                std::span<std::byte> out);

}  // namespace kiln::autotune

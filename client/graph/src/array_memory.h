// How a caller's array lies in memory.
#pragma once

#include "kiln/client/array.h"

namespace kiln::client {

int64_t count_of(std::span<const int64_t> shape);
// Row-major without gaps, and aligned to its elements: as kernels of plans take it.
bool is_plain(const ArrayView& array);
// Its elements in row-major order, to memory for all of them.
void copy_plain(const ArrayView& array, std::byte* to);
// "f32[2, 3]"
std::string type_text(const ArrayView& array);

}  // namespace kiln::client

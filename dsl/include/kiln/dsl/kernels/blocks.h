// What the kernels of this directory share. They compute in f32 whatever the element type of their arrays.
#pragma once

#include <limits>

#include "kiln/dsl/kernel.h"

namespace kiln::dsl::lang::kernels {

inline constexpr float kLowest = -std::numeric_limits<float>::infinity();

// A block of an array, in f32.
inline Value load_f32(const Tile& array, std::vector<Operand> offsets, Shape block, TileOptions options = {},
                      SourceLocation loc = SourceLocation::current()) {
  return cast(array.load(std::move(offsets), std::move(block), options, loc), f32_t);
}

// Row `row` of an array whose rows are `stride` elements apart.
inline Tile row_of(const Value& base, const Value& row, Operand stride, Operand cols) {
  return tile(base + cast(row, i64_t) * std::move(stride), {std::move(cols)});
}

}  // namespace kiln::dsl::lang::kernels

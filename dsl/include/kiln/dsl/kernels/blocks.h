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

// Of functions whose argument or result is a T in memory: a type of fewer bits than f32 hides what the target's
// approximation loses.
template <class T>
Accuracy accuracy() {
  return info(element_v<T>).bits < 32 ? Accuracy::kFast : Accuracy::kFull;
}

// What the rows of a tile, its last axis, add up to, in a form for arithmetic with that tile.
inline Value row_sums(const Value& v) {
  const int axis = v.rank() - 1;
  const Value total = sum(v, axis);
  return axis == 0 ? total : expand_dims(total, axis);
}

// Of kernels that take ROWS rows at once.
inline std::vector<SpaceAxis> narrow_space() {
  return {{"ROWS", {1, 2, 4, 8, 16}}, {"BLOCK", {32, 64, 128, 256, 512, 1024}}, {"num_warps", {1, 2, 4}}};
}

// Row `row` of an array whose rows are `stride` elements apart.
inline Tile row_of(const Value& base, const Value& row, Operand stride, Operand cols) {
  return tile(base + cast(row, i64_t) * std::move(stride), {std::move(cols)});
}

}  // namespace kiln::dsl::lang::kernels

// What static counting knows of a value in one program: integers and addresses as affine functions of the place in the
// tile, masks as boxes of places.
//
//   %9 = arange {0, 64}                     0 + 1·i
//   %12 = add (broadcast %9), (splat %8)    base of %8, strides (0, 1)
//   %14 = cmp %12, (splat %n) {lt}          the box of places below n - base
//   %20 = add (broadcast %rows), %12        of rows that were looked up: steps (unknown, 1)
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::autotune {

// Places [low, high) of one axis.
struct Interval {
  int64_t low = 0, high = 0;
  int64_t size() const { return high > low ? high - low : 0; }
};

struct KnownValue {
  // The value, or offset of a pointer in elements, is base + Σ strides[axis]·place[axis]. Either may be unknown.
  std::optional<int64_t> base = {};
  std::optional<std::vector<int64_t>> strides = {};
  // By axis, what a place further adds where that is known: of strides that are not all known, else empty.
  std::vector<std::optional<int64_t>> steps = {};
  std::optional<std::vector<Interval>> box = {};  // of an i1 tile: where it is true
  std::optional<uint32_t> param = {};             // the parameter that a pointer or descriptor is based on
  std::vector<KnownValue> dims = {};              // of a descriptor: extents, then strides of all axes but the last
  bool estimated = false;                         // base is an expected value of data
  bool data = false;                              // computed from what was loaded

  bool affine() const { return base && strides; }
  std::optional<int64_t> step(size_t axis) const;
  // One number for the whole tile.
  std::optional<int64_t> uniform() const;
};
KnownValue known_scalar(int64_t value);

// What is known of an op's result, for ops without regions that touch no memory.
KnownValue evaluate(const dsl::Kernel& kernel, const dsl::Op& op, std::span<const KnownValue* const> operands);

}  // namespace kiln::autotune

// How a tile is scanned along an axis, in the order of the axis whatever the layout.
//
// Bit after bit of the axis, from the lowest: before step i every element knows the scan within its group of 2^i
// neighbours and the group's total. It gets the total of the group beside its own, whose elements differ in bit i
// alone. In the upper group that total goes before the scan; the new total is that of the lower group and then that of
// the upper. The combination need not be commutative. A scan from the end takes lower for upper.
#pragma once

#include "gpu/layout/layout.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::gpu {

struct ScanStep {
  // The total comes from register r ^ reg, lane l ^ lane, warp w ^ warp: of a warp other than its own, through shared
  // memory, of a lane by a shuffle.
  Bits reg = 0, lane = 0, warp = 0;
  // An element is in the upper group where its index has an odd number of these bits.
  Index upper;
};

// An error where the axis is split over blocks.
Result<std::vector<ScanStep>> plan_scan(const Layout& layout, int axis);

}  // namespace kiln::codegen::gpu

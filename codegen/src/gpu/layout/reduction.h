// How a tile is reduced along an axis: in registers, then between lanes, then between warps.
//
// Two places hold elements to be combined where they differ along the axis alone. Those directions, a space over GF(2),
// modulo the ones in which nothing differs at all (copies), are given a basis: first of registers, then of lanes, then
// of warps. Each is a step of a butterfly: everyone combines what he has with what his partner in that direction has,
// so the steps of lanes leave the result in all of them. Which operand comes first differs between the two, so the
// combination has to be commutative; the tree is the same everywhere, so all get the same bits.
#pragma once

#include "gpu/layout/conversion.h"

namespace kiln::codegen::gpu {

// Register r of lane l is combined with register r ^ reg of lane l ^ lane.
struct Partner {
  Bits reg = 0, lane = 0;
};

struct ReductionPlan {
  Columns in_thread;  // r and r ^ in_thread[i]; only one of the two is needed afterwards
  std::vector<Partner> shuffles;
  // The registers of the tile that hold, after these steps, the registers of `partial`.
  Columns partial_registers;
  // Between warps: the partial results have a last axis with those of each warp. They are converted from `partial` into
  // `gathered`, which has them in registers, in its lowest bits; then these are combined. One and the same where
  // no axis is split over warps (extent 1).
  Layout partial, gathered;
  Layout result;  // the slice, without copies in registers
};

// An error where the axis is split over blocks.
Result<ReductionPlan> plan_reduction(const Layout& layout, int axis);

}  // namespace kiln::codegen::gpu

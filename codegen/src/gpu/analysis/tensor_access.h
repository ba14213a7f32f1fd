// Which loads and stores are of a box of an array: what an engine that copies boxes between global and shared memory
// can do by itself.
//
//   %p = a + (64·%pid + i0)·ld + 32·%k + i1,  masked by 64·%pid + i0 < M and 32·%k + i1 < K
//   dims   K by 1 at 32·%k (axis 1)      innermost first: extent, stride, coordinate, which axis of the tile
//          M by ld at 64·%pid (axis 0)
//
// The pointer is linear in the tile's coordinates and in scalars (linear_index.h), with factors that the host knows at
// a launch. Each axis of the tile is a dimension, and each factor that is left over as well. Masks are bounds along one
// axis, which become extents, or hold for the whole tile or none of it: guards.
#pragma once

#include "gpu/analysis/linear_index.h"
#include "kiln/abi/launch_block.h"
#include "kiln/dsl/result.h"

namespace kiln::codegen::gpu {

struct TensorDim {
  dsl::Expr extent;   // 1 or more, where the guards hold
  dsl::Expr stride;   // elements; of the innermost 1
  Linear coordinate;  // of the box's first element: uniform, and where there is no extent to cut it, in range
  std::optional<int> axis = {};  // of the tile; without one the box is one element wide
  bool is_bounded = false;       // coordinates may lie outside
  bool fits_i32 = true;          // else coordinates may lie beyond 32 bits, that is, outside
};

struct TensorAccess {
  uint32_t param = 0;           // the pointer
  dsl::Expr offset;             // elements, from the pointer
  std::vector<TensorDim> dims;  // innermost first, then the tile's axes from the last on, then those without an axis
  std::vector<Linear> guards;   // nothing is accessed unless they are all 0 or more
  bool fills_nan = false;       // what a load has outside: NaN, else 0
};

using abi::kMaxTensorRank;

// The error says why not.
Result<TensorAccess> find_tensor_access(const dsl::Kernel& kernel, const dsl::Op& access, LinearForms& forms);

std::string to_string(const TensorAccess& access, const dsl::Kernel& kernel);

}  // namespace kiln::codegen::gpu

#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

// Reshapes between loads and stores, gone into indices, where the last axis has up to eight elements. Where a `reshape`
// makes one axis of two, the store that it feeds is one in the shape before it; where it makes two of one, what feeds
// it is computed in the shape behind it.
//
//   %j = join %a, %b                              [n, 2]
//   %x = reshape %j {shape = [2n]}                %i = add (mul (expand_dims (arange 0, n)), 2),
//   %i = arange {start = 0, end = 2n}       →              (expand_dims (arange 0, 2))     broadcast to [n, 2]
//   %q = addptr splat(%p), %i                     %q = addptr splat(%p), %i
//   store %q, %x                                  store %q, (join %a, %b)
//
// For targets that keep what a reshape reads in memory. Only where all that has the shape is elementwise ops, loads and
// indices; loads stay where they stand.
dsl::Kernel refine_axes(dsl::Kernel kernel);

}  // namespace kiln::codegen

#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

// Described memory as pointers and masks. Index arithmetic is in i64.
//
//   %d = descriptor %P, %n {block = [64]}            %o64 = cast %o {to = i64}         (of an i32 offset %o)
//   %x = load_tile %d, %o                            %i = arange {start = 0, end = 64}, cast to i64
//                                               →    %at = add splat(%o64), %i
//                                                    %m = and (cmp ge %at, 0), (cmp lt %at, splat(cast %n))
//                                                    %x = load (addptr splat(%P), %at), %m
//
// store_tile becomes store, reduce_tile a relaxed atomic_rmw, gather_rows a load with the rows in place of the offset;
// fill = nan becomes the load's `other`. Offsets, extents and strides of u64 above what i64 holds stand for its end, as
// in docs/reference/ops.md no array reaches it. The lower bound is left out where the offset is at least 0 unless it
// wrapped, which an index is taken not to do. The descriptor op itself is dead then.
dsl::Kernel expand_descriptors(dsl::Kernel kernel);

}  // namespace kiln::codegen

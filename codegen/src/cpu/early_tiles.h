// Carried tiles that get their new elements before the loop's body ends: in the walk of a reduction that computes them
// anyway.
//
//   for … carry (%h = …)                     for each row:
//     %next = add (mul %h, %decay), %in        load a vector of h, compute next's, store it in h's place,
//     %y = reduce (mul %next, %from)           add its product to the row's sum
//     yield %next
#pragma once

#include "cpu/nest/materialise.h"

namespace kiln::codegen::cpu {

// Those of the loop whose body is being lowered, with their places: a walk over the operands of these reductions, which
// stand in the body and begin with the next op to be lowered, is to store them as it goes. Their new tiles are taken to
// be there from then on.
std::vector<TilePlace> take_early_tiles(Context& ctx, llvm::ArrayRef<const Op*> reductions);

// Stores the elements at these points of the current chunk.
Result<void> put_early_tiles(Nest& nest, llvm::ArrayRef<TilePlace> tiles, llvm::ArrayRef<Point> points);

}  // namespace kiln::codegen::cpu

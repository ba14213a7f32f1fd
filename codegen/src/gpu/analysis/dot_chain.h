// Products that follow one another, as in attention: the accumulators of one become, element by element, operand A of
// the next.
//
//   %s = dot %q, %k, %zero
//   %top = reduce %s {kind = max, axis = 1}
//   %p = exp(%s - %top)              ; and more of the kind
//   %o = dot cast(%p), %v, %sum
//
// There warps share rows alone: what goes along a row, and the row of the next product, stays in a warp. And the next
// product counts its inner axis in such an order that each lane has the elements of A where it had the accumulators.
// Where nothing is reduced along the rows this would cost more than it gains: each warp reads all of B. (Attention's
// gradient on an H200 by mma.sync is slower by 5 to 18 % that way; attention itself is as fast.)
#pragma once

#include "gpu/target_info.h"
#include "kiln/dsl/ir.h"

namespace kiln::codegen::gpu {

// The dot whose accumulators, reduced by rows too, operand A of this one is made of; null: it is made of something
// else.
const dsl::Op* dot_before(const dsl::Kernel& kernel, const dsl::Op& dot);
// Whether the accumulators of this dot are such.
bool has_dot_behind(const dsl::Kernel& kernel, const dsl::Op& dot);

// The same instruction with the inner axis of both operands in the order in which a lane has columns of `accumulators`;
// as it is where lanes do not have the rows of one in the other.
MatrixInstruction in_order_of(const Layout& accumulators, MatrixInstruction instruction);

}  // namespace kiln::codegen::gpu

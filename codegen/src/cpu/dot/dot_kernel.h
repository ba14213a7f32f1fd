// The micro-kernel of dot: a block of C stays in registers over the whole of K.
#pragma once

#include "cpu/dot/dot_plan.h"

namespace kiln::codegen::cpu {

// For one block of C,
//   void f(ptr a, i64 a_distance, ptr b, i64 b_row, ptr from, i64 from_row, ptr to, i64 to_row, ptr correction, i1
//   fresh, ptr ahead, i64 steps)
// Of kIterations: `a` is the list, `a_distance` where the block's rows stand in its order, `b_row` the number of the
// panel, `from` and `to` are those of row 0, `steps` is the number of iterations.
enum KernelArgument : unsigned {
  kA,
  kADistance,
  kB,
  kBRow,
  kFrom,
  kFromRow,
  kTo,
  kToRow,
  kCorrection,
  kFresh,
  kAhead,
  kStepCount
};
llvm::Function* declare_kernel(Context& ctx, const std::string& name);
// For the last panel, or for any other one.
llvm::Function* micro_kernel(Context& ctx, const DotBlocking& blocking, LayoutA layout, int rows, bool last);
// Of what is read soon.
enum class Into : uint8_t { kL2 = 2, kL1 = 3 };
void prefetch(Builder& ir, Value* pointer, Into into = Into::kL1);
// acc + a·b for vectors of units.
Value* step_forward(Context& ctx, Builder& ir, const DotForm& form, Value* x, Value* y, Value* acc);

}  // namespace kiln::codegen::cpu

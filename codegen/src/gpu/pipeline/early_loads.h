// What threads load for themselves in a pipelined loop, scalars and numbers for each row (row_operands.h), is loaded an
// iteration early:
//
//   for %j … {                                  %next = load f(first)
//     %p = dot …          ; staged              for %j … {
//     %s = load f(%j)                             begin %p = dot …
//     %sum' = fma %p, %s, %sum             →      %s = %next; %next = load f(%j + step)
//   }                                             wait for %p; %sum' = fma %p, %s, %sum
//                                               }
//
// The products of an iteration take less time than memory does where all multiprocessors ask it for their tiles: of f8
// with factors by blocks, 4096³ on an H100, threads waited for the factors for half of their time, and for products a
// fortieth.
#pragma once

#include <set>

#include "gpu/context.h"
#include "gpu/pipeline/pipeline.h"
#include "gpu/variables.h"

namespace kiln::codegen::gpu {

class EarlyLoads {
 public:
  // `guard` ends the block before the loop.
  EarlyLoads(Context& ctx, const Op& loop, const Pipeline& pipeline, const LoopRange& range, llvm::Instruction* guard);

  // What follows is of this iteration.
  void begin(Value* count) { count_ = count; }
  // Whether a load is one of them, and the builder stands where each iteration passes once.
  bool has(const Op& load) const;
  // What the iteration before has loaded, in a layout; loads for the next one. Once a layout.
  Result<Registers> take(const Op& load, const Layout& layout);

 private:
  Result<void> load_for(const Op& load, Value* count, const Variable& into);

  Context& ctx_;
  const dsl::Region& body_;
  const LoopRange range_;
  llvm::Instruction* guard_;
  Value* count_ = nullptr;
  std::map<const Op*, std::vector<const Op*>> slices_;  // what their addresses take, in program order
};

}  // namespace kiln::codegen::gpu

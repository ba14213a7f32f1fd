// Regions of scalars on registers.
#pragma once

#include <llvm/ADT/STLFunctionalExtras.h>

#include "elementwise/elementwise.h"

namespace kiln::codegen {

// What the ops of a region make of its arguments, one each: scalars, or vectors of equally many lanes, over which the
// values of `outer`, from around the region, are spread.
using Elements = llvm::SmallVector<Value*, 4>;
Result<Elements> emit_region(ElementContext& ctx, Builder& ir, const dsl::Region& region,
                             llvm::ArrayRef<Value*> arguments, llvm::function_ref<Value*(ValueId)> outer);

}  // namespace kiln::codegen

// Long elementwise ops by calls: a kernel of very many of them would have each one's code wherever it stands. All of a
// kind, on registers of one type, call the same function.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen {

// Whether a kernel is to call them. A tile counts once for so many elements as code stands for `together`: on CPUs that
// of a nest for all, on GPUs that of a few registers for those of all threads.
bool has_many_long_ops(const dsl::Kernel& kernel, int64_t together = INT64_MAX);

// An elementwise op of the kernel: a call where `ctx.calls_long_ops` and it is long, else inline.
Result<Value*> emit_op(ElementContext& ctx, Builder& ir, const Op& op, llvm::ArrayRef<Value*> operands);

}  // namespace kiln::codegen

// What loops and branches are made of: variables for the registers that they carry, ranges, blocks.
#pragma once

#include "elementwise/loop_range.h"
#include "gpu/context.h"

namespace kiln::codegen::gpu {

// Registers of carried values in memory of their own, which LLVM promotes.
struct Variable {
  Layout layout;
  llvm::Type* element;
  std::vector<llvm::AllocaInst*> places;  // null: of padding
};
Variable make_variable(Context& ctx, const dsl::Type& type, const Layout& layout);
// In their homes.
std::vector<Variable> make_variables(Context& ctx, llvm::ArrayRef<ValueId> ids);
Registers read(Context& ctx, const Variable& variable);
void write(Context& ctx, const Variable& variable, const Registers& registers);
// All values are read before any is written: they may be each other's.
Result<void> assign(Context& ctx, llvm::ArrayRef<ValueId> values, const std::vector<Variable>& variables);

LoopRange range_of(Context& ctx, const Op& loop);
llvm::BasicBlock* new_block(Context& ctx, const char* name);

}  // namespace kiln::codegen::gpu

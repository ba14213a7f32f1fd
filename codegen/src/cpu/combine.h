// What reductions and scans combine elements with: one of the kinds, or the region of `custom`.
#pragma once

#include "cpu/context.h"

namespace kiln::codegen::cpu {

using Registers = llvm::SmallVector<Value*, 4>;  // one per operand: scalars, or vectors of equally many lanes

dsl::ReduceKind reduce_kind(const Op& op);

// combine_kinds.cpp. Small floats accumulate in f32 and are rounded once.
ElementType accumulator_element(ElementType element);
llvm::Type* accumulator_type(Context& c, ElementType element);
Value* to_accumulator(Context& c, Builder& b, ElementType element, Value* x);
Value* from_accumulator(Context& c, Builder& b, dsl::ReduceKind kind, ElementType element, Value* x);
Value* combine(Builder& b, dsl::ReduceKind kind, ElementType element, Value* x, Value* y);
// Without the NaN rule of min and max, for inner loops that track NaN apart.
Value* combine_numbers(Builder& b, dsl::ReduceKind kind, ElementType element, Value* x, Value* y);
// Of the accumulator's type.
Value* identity(Context& c, dsl::ReduceKind kind, ElementType element);

// combine_region.cpp: the ops of a region of scalars, applied to registers; what it reads from outside is spread.
Result<Registers> apply_region(Context& c, const dsl::Region& region, llvm::ArrayRef<Value*> arguments);
// left ∘ right by the op's kind or region; the operands of a kind are accumulators.
Result<Registers> combine_operands(Context& c, const Op& op, const Registers& left, const Registers& right);

}  // namespace kiln::codegen::cpu

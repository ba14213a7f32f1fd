// The kinds of reductions and scans on registers, scalars and vectors alike.
#pragma once

#include "elementwise/elementwise.h"

namespace kiln::codegen {

dsl::ReduceKind reduce_kind(const Op& op);

// Small floats accumulate in f32 and are rounded once.
ElementType accumulator_element(ElementType element);
llvm::Type* accumulator_type(llvm::LLVMContext& context, ElementType element);
Value* to_accumulator(ElementContext& ctx, Builder& ir, ElementType element, Value* x);
Value* from_accumulator(ElementContext& ctx, Builder& ir, dsl::ReduceKind kind, ElementType element, Value* x);
Value* combine(Builder& ir, dsl::ReduceKind kind, ElementType element, Value* x, Value* y);
// Without the NaN rule of min and max, for inner loops that track NaN apart.
Value* combine_numbers(Builder& ir, dsl::ReduceKind kind, ElementType element, Value* x, Value* y);
// Of the accumulator's type.
Value* identity(Builder& ir, dsl::ReduceKind kind, ElementType element);

}  // namespace kiln::codegen

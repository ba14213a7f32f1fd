// How a reduce or scan combines elements, in ops of another place.
#pragma once

#include "kiln/dsl/op_builder.h"

namespace kiln::codegen {

inline dsl::ReduceKind reduce_kind(const dsl::Op& op) { return static_cast<dsl::ReduceKind>(int_attr(op, 0)); }
inline size_t reduced_axis(const dsl::Op& op) { return static_cast<size_t>(int_attr(op, 1)); }

// Sums and products of small floats are carried in f32 and rounded once, at the end.
bool is_widened(dsl::ReduceKind kind, dsl::ElementType element);
dsl::ValueId widen(dsl::OpBuilder& build, dsl::ReduceKind kind, dsl::ValueId x);

// left ∘ right, element by element, where the op (one with a region or of a kind, but no argmin or argmax) combines
// elements by ∘. Appends ops.
std::vector<dsl::ValueId> combine(dsl::Kernel& kernel, std::vector<dsl::Op>& out, const dsl::Op& op,
                                  const std::vector<dsl::ValueId>& left, const std::vector<dsl::ValueId>& right);

}  // namespace kiln::codegen

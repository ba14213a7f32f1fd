// What training and quantised inference need beside the ops of the table: functions that are made of these, and so are
// differentiated, planned and fused as they are. Numbers of fewer bits than f32 are computed in f32.
#pragma once

#include "kiln/graph/functions.h"

namespace kiln::graph {

// One step of Lion (Chen et al., arXiv 2302.06675), with the signs of a mean in place of it:
//   param·(1 - lr·weight_decay) - lr·sign(beta1·m + (1-beta1)·grad); the buffer is beta2·m + (1-beta2)·grad.
struct LionOptions {
  double beta1 = 0.9, beta2 = 0.99, weight_decay = 0;
};
BufferStep lion_step(Operand param, Operand grad, Operand m, Operand lr, LionOptions options = {});

// The Euclidean norm of all elements of all tensors, a scalar of f32, or f64 if one of them is.
Tensor global_norm(const std::vector<Tensor>& grads, SourceLocation loc = SourceLocation::current());
// Each times min(1, max_norm / (their norm + 1e-6)), of its own type.
std::vector<Tensor> clip_by_global_norm(const std::vector<Tensor>& grads, Operand max_norm);
// Whether no element of any is infinite or NaN, an i1 scalar: whether the gradients of a scaled loss can be used.
Tensor all_finite(const std::vector<Tensor>& xs, SourceLocation loc = SourceLocation::current());

// x […, K] in i8, with a scale for each of its rows: the largest magnitude over 127.
struct QuantisedRows {
  Tensor values, scale;  // […, K] and […, 1]
};
QuantisedRows quantise_rows(Operand x);
// x·wᵀ + bias of rows that are quantised now and weights w [N, K] of i8 with scales [N]; sums of products are exact. Of
// x's type.
Tensor dynamic_linear(Operand x, Operand w, Operand scale, Operand bias = {});

}  // namespace kiln::graph

// The table of decompositions: each a function of tensors that writes primitives, and maybe other composites, which are
// expanded in their turn.
//
// Numbers. Composites of floats below 32 bits compute in f32 and round once at their results, as elementwise ops do.
#pragma once

#include <vector>

#include "kiln/graph/functions.h"

namespace kiln::graph {

// One composite: its operands and attributes.
struct Composite {
  const AttrList& attrs;
  std::vector<Tensor> operands;

  bool has(size_t i) const { return i < operands.size() && operands[i].valid(); }
  const Tensor& operator[](size_t i) const { return operands[i]; }
  double number(size_t attr) const { return float_attr(attrs, attr); }
  int64_t integer(size_t attr) const { return int_attr(attrs, attr); }
  bool flag(size_t attr) const { return flag_attr(attrs, attr); }
};
using Decomposition = std::vector<Tensor> (*)(const Composite& composite);

// Null of primitives.
Decomposition decomposition_of(TensorOp op);

// f32 where the elements are smaller floats; as they are otherwise.
Tensor widened(const Tensor& x);
// The product of a tensor's extents along axes.
Dim size_along(const Tensor& x, const Axes& axes);
// The same as a scalar of an element type.
Tensor count_of(const Tensor& x, const Axes& axes, ElementType type);
// An attribute of axes.
Axes axes_of(const Composite& composite, size_t attr);
// All elements of x's type and shape are the number, rounded to the type; what is too large for it is infinite.
Tensor filled(const Tensor& x, double number);
// total / part, which the rules of types found to be exact.
Dim exact_part(const Dim& total, const Dim& part);
// Whether a = b, or a ≤ b, for all sizes of the dims.
bool always_equal(const Dim& a, const Dim& b);
bool always_at_most(const Dim& a, const Dim& b);
// A tensor [C] in the place of channels, axis 1, of one of so many axes.
Tensor by_channel(const Tensor& x, int rank);

#define KILN_DECOMPOSITION(name) std::vector<Tensor> decompose_##name(const Composite& c)
KILN_DECOMPOSITION(relu);
KILN_DECOMPOSITION(leaky_relu);
KILN_DECOMPOSITION(elu);
KILN_DECOMPOSITION(clamp);
KILN_DECOMPOSITION(sigmoid);
KILN_DECOMPOSITION(silu);
KILN_DECOMPOSITION(gelu);
KILN_DECOMPOSITION(softplus);
KILN_DECOMPOSITION(mish);
KILN_DECOMPOSITION(hard_sigmoid);
KILN_DECOMPOSITION(hard_swish);
KILN_DECOMPOSITION(mean);
KILN_DECOMPOSITION(variance);
KILN_DECOMPOSITION(logsumexp);
KILN_DECOMPOSITION(softmax);
KILN_DECOMPOSITION(log_softmax);
KILN_DECOMPOSITION(layer_norm);
KILN_DECOMPOSITION(rms_norm);
KILN_DECOMPOSITION(group_norm);
KILN_DECOMPOSITION(batch_norm);
KILN_DECOMPOSITION(batch_norm_training);
KILN_DECOMPOSITION(linear);
KILN_DECOMPOSITION(conv_bias);
KILN_DECOMPOSITION(max_pool);
KILN_DECOMPOSITION(avg_pool);
KILN_DECOMPOSITION(embedding);
KILN_DECOMPOSITION(embedding_bag);
KILN_DECOMPOSITION(attention);
KILN_DECOMPOSITION(paged_attention);
KILN_DECOMPOSITION(cross_entropy);
KILN_DECOMPOSITION(rope);
KILN_DECOMPOSITION(dropout);
KILN_DECOMPOSITION(interaction);
KILN_DECOMPOSITION(one_hot);
KILN_DECOMPOSITION(triangle);
KILN_DECOMPOSITION(quantise);
KILN_DECOMPOSITION(dequantise);
KILN_DECOMPOSITION(sgd_step);
KILN_DECOMPOSITION(momentum_step);
KILN_DECOMPOSITION(adam_step);
KILN_DECOMPOSITION(adagrad_step);
KILN_DECOMPOSITION(lamb_step);

}  // namespace kiln::graph

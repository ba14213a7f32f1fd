// The functions of graphs beyond one element at a time; what each computes is said by its row of tensor_ops.def. A
// negative axis counts from the end. Axes left empty are all axes.
#pragma once

#include <span>
#include <utility>

#include "kiln/graph/tensor.h"

namespace kiln::graph {

using Axes = std::vector<int>;
using Ints = std::vector<int64_t>;

// --- make ---
Tensor full(Shape shape, Operand value, ElementType type);
Tensor zeros(ElementType type, Shape shape, SourceLocation loc = SourceLocation::current());
Tensor ones(ElementType type, Shape shape, SourceLocation loc = SourceLocation::current());
Tensor zeros_like(Operand x);
Tensor ones_like(Operand x);
// Elements in row-major order, rounded to the type.
Tensor constant(ElementType type, Ints shape, const std::vector<double>& elements,
                SourceLocation loc = SourceLocation::current());
Tensor extent(Dim value, ElementType type = i64, SourceLocation loc = SourceLocation::current());
Tensor iota(ElementType type, Shape shape, int axis, SourceLocation loc = SourceLocation::current());
Tensor arange(Dim count, ElementType type = i64, SourceLocation loc = SourceLocation::current());
Tensor philox(Operand seed, Operand offset, Shape shape);
// f32 in [0, 1), of 24 bits of a philox word each; N(0, 1) of two (Box, Muller 1958).
Tensor uniform(Operand seed, Operand offset, Shape shape);
Tensor normal(Operand seed, Operand offset, Shape shape);

// --- views ---
Tensor reshape(Operand x, Shape shape);  // one extent may be -1: what is left
Tensor flatten(Operand x, int first = 0, int last = -1);
Tensor permute(Operand x, Axes order);
Tensor transpose(Operand x, int a = -2, int b = -1);
Tensor broadcast_to(Operand x, Shape shape);
Tensor expand_dims(Operand x, int axis);
Tensor squeeze(Operand x, Axes axes);
Tensor slice(Operand x, int axis, Dim start, Dim end, int64_t step = 1);
Tensor reverse(Operand x, Axes axes);
Tensor pad(Operand x, Shape low, Shape high, Operand value = 0, Ints inner = {});
Tensor cat(const std::vector<Tensor>& xs, int axis, SourceLocation loc = SourceLocation::current());
Tensor stack(const std::vector<Tensor>& xs, int axis = 0, SourceLocation loc = SourceLocation::current());
std::vector<Tensor> split(Operand x, int parts, int axis);  // of equal extents
Tensor repeat(Operand x, Ints times);                       // NumPy's tile

// --- index ---
Tensor gather(Operand x, Operand index, int axis);
Tensor take(Operand x, Operand index, int axis);  // index_select: the index's shape in place of the axis
Tensor scatter(Operand x, Operand index, Operand values, int axis, ScatterKind kind = ScatterKind::kSet);
Tensor index(Operand x, const std::vector<Tensor>& indices, Axes axes);
Tensor index_put(Operand x, const std::vector<Tensor>& indices, Axes axes, Operand values,
                 ScatterKind kind = ScatterKind::kSet);
Tensor one_hot(Operand ids, Dim classes, ElementType type = f32);

// --- reduce, scan, order ---
Tensor reduce(Operand x, ReduceKind kind, Axes axes = {}, bool keep = false);
Tensor sum(Operand x, Axes axes = {}, bool keep = false);
Tensor prod(Operand x, Axes axes = {}, bool keep = false);
Tensor reduce_max(Operand x, Axes axes = {}, bool keep = false);
Tensor reduce_min(Operand x, Axes axes = {}, bool keep = false);
Tensor any(Operand x, Axes axes = {}, bool keep = false);
Tensor every(Operand x, Axes axes = {}, bool keep = false);
Tensor argmax(Operand x, int axis, bool keep = false);
Tensor argmin(Operand x, int axis, bool keep = false);
Tensor mean(Operand x, Axes axes = {}, bool keep = false);
Tensor variance(Operand x, Axes axes = {}, int correction = 0, bool keep = false);
Tensor logsumexp(Operand x, Axes axes = {}, bool keep = false);
Tensor scan(Operand x, ReduceKind kind, int axis, bool reverse = false, bool exclusive = false);
Tensor cumsum(Operand x, int axis);
std::pair<Tensor, Tensor> sort(Operand x, int axis, bool descending = false);  // values, i64 indices
std::pair<Tensor, Tensor> topk(Operand x, Dim k, int axis, bool largest = true);
Tensor histogram(Operand x, Dim bins);

// --- contract ---
struct DotAxes {
  Axes batch_a = {}, batch_b = {}, contract_a = {}, contract_b = {};
};
// The result's type: absent, the operands' common one (f32 stays, ints give i32).
Tensor dot(Operand a, Operand b, DotAxes axes, std::optional<ElementType> type = {},
           Precision precision = Precision::kIeee);
Tensor matmul(Operand a, Operand b);  // NumPy's: batch axes broadcast, vectors allowed
Tensor linear(Operand x, Operand w, Operand bias = {});
struct ConvOptions {  // empty: 1s, or 0s of padding, for each spatial axis
  Ints strides = {}, low = {}, high = {}, dilation = {};
  int64_t groups = 1;
};
Tensor conv(Operand x, Operand w, ConvOptions options = {});
Tensor conv(Operand x, Operand w, Operand bias, ConvOptions options);
// PyTorch's transposed convolution: w [C, K/groups, window…], output extents (in-1)·stride - low - high +
// dilation·(window-1) + 1 + extra.
Tensor conv_transposed(Operand x, Operand w, ConvOptions options = {}, Ints extra = {});
struct WindowOptions {  // empty strides: as the size
  Ints size = {}, strides = {}, low = {}, high = {}, dilation = {};
};
Tensor window(Operand x, WindowKind kind, WindowOptions options);
Tensor max_pool(Operand x, WindowOptions options);  // sizes are by spatial axis of [N, C, …]
Tensor avg_pool(Operand x, WindowOptions options, bool count_padding = true);
Tensor resize(Operand x, Shape shape, ResizeMode mode, bool corners = false);

// Transposes of the above, which gradients are made of. conv in x, to spatial extents `shape`, and in w, of windows
// `window`; options as given to conv.
Tensor conv_input(Operand g, Operand w, Shape shape, ConvOptions options = {});
Tensor conv_weight(Operand x, Operand g, Shape window, ConvOptions options = {});
// window at x, for g of the windows' shape; and its gather: the elements of t at the places that max or min chose.
Tensor window_spread(Operand x, Operand g, WindowKind kind, WindowOptions options);
Tensor window_pick(Operand x, Operand t, PickKind kind, WindowOptions options);
// resize to the extents `shape` of the last axes.
Tensor resize_spread(Operand g, Shape shape, ResizeMode mode, bool corners = false);

// --- layers ---
Tensor relu(Operand x);
Tensor leaky_relu(Operand x, double slope = 0.01);
Tensor elu(Operand x, double alpha = 1);
Tensor clamp(Operand x, double low, double high);
Tensor sigmoid(Operand x);
Tensor silu(Operand x);
Tensor gelu(Operand x, GeluKind kind = GeluKind::kErf);
Tensor softplus(Operand x);
Tensor mish(Operand x);
Tensor hard_sigmoid(Operand x);
Tensor hard_swish(Operand x);
Tensor softmax(Operand x, int axis = -1);
Tensor log_softmax(Operand x, int axis = -1);
Tensor layer_norm(Operand x, Operand weight = {}, Operand bias = {}, double eps = 1e-5, int axes = 1);
Tensor rms_norm(Operand x, Operand weight = {}, double eps = 1e-6, int axes = 1);
Tensor group_norm(Operand x, int64_t groups, Operand weight = {}, Operand bias = {}, double eps = 1e-5);
Tensor batch_norm(Operand x, Operand mean, Operand variance, Operand weight = {}, Operand bias = {}, double eps = 1e-5);
struct BatchNormStep {
  Tensor y, mean, variance;  // the running ones, moved
};
BatchNormStep batch_norm_training(Operand x, Operand mean, Operand variance, Operand weight = {}, Operand bias = {},
                                  double eps = 1e-5, double momentum = 0.1);
Tensor embedding(Operand table, Operand ids);
Tensor embedding_bag(Operand table, Operand ids, Operand offsets, BagMode mode = BagMode::kSum, Operand weights = {});
struct AttentionOptions {
  bool causal = false;
  int64_t window = 0;
  double scale = 0;
};
Tensor attention(Operand q, Operand k, Operand v, AttentionOptions options = {}, Operand mask = {});
Tensor paged_attention(Operand q, Operand k_pages, Operand v_pages, Operand table, Operand lengths, double scale = 0);
Tensor cross_entropy(Operand logits, Operand targets, LossReduction reduction = LossReduction::kMean,
                     int64_t ignore = -100, double smoothing = 0);
Tensor rope(Operand x, Operand cos, Operand sin, bool interleaved = false);
Tensor dropout(Operand x, double p, Operand seed, Operand offset);
Tensor interaction(Operand dense, Operand features, bool diagonal = false);
Tensor tril(Operand x, int64_t diagonal = 0);
Tensor triu(Operand x, int64_t diagonal = 0);
Tensor quantise(Operand x, Operand scale, Operand zero = {}, ElementType type = i8, int axis = -1);
Tensor dequantise(Operand x, Operand scale, Operand zero = {}, ElementType type = f32, int axis = -1);

// --- optimiser steps ---
struct AdamOptions {
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = false;  // AdamW
};
struct MomentStep {
  Tensor param, m, v;
};
struct BufferStep {
  Tensor param, buffer;
};
Tensor sgd_step(Operand param, Operand grad, Operand lr, double weight_decay = 0);
struct MomentumOptions {
  double momentum = 0.9, dampening = 0;
  bool nesterov = false;
  double weight_decay = 0;
};
BufferStep momentum_step(Operand param, Operand grad, Operand buffer, Operand lr, MomentumOptions options = {});
MomentStep adam_step(Operand param, Operand grad, Operand m, Operand v, Operand lr, Operand step,
                     AdamOptions options = {});
BufferStep adagrad_step(Operand param, Operand grad, Operand sum, Operand lr, double eps = 1e-10,
                        double weight_decay = 0);
MomentStep lamb_step(Operand param, Operand grad, Operand m, Operand v, Operand lr, Operand step,
                     AdamOptions options = {0.9, 0.999, 1e-6, 0.01});

}  // namespace kiln::graph

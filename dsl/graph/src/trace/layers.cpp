// Composites: activations, norms, attention, losses. They stay one node; decompose.h expands them.
#include <cmath>

#include "trace/call.h"

namespace kiln::graph {
namespace {

// Weights and biases beside x: as they are, numbers of x's type.
std::vector<Tensor> beside(Call& call, const Tensor& x, std::initializer_list<const Operand*> others) {
  std::vector<Tensor> out = {x};
  for (const Operand* each : others) out.push_back(call.optional(*each, call.element(x)));
  return out;
}

Tensor along(TensorOp op, const char* what, const Operand& operand, int axis) {
  Call call(what, operand);
  const Tensor x = call.float_tensor(operand);
  const int64_t place = call.axis(axis, call.rank(x));
  return call.emit(op, {x}, {place});
}

Tensor triangle(const char* what, const Operand& operand, int64_t diagonal, bool upper) {
  Call call(what, operand);
  return call.emit(TensorOp::kTriangle, {call.tensor(operand)}, {diagonal, int64_t{upper}});
}

}  // namespace

// Ints stay ints where that is of use: the composites are of floats.
Tensor relu(Operand x) {
  if (x.is_tensor() && !dsl::is_float(x.tensor().element())) return max(x, Operand(0, x.loc()));
  return math(TensorOp::kRelu, {}, x);
}
Tensor leaky_relu(Operand x, double slope) { return math(TensorOp::kLeakyRelu, {slope}, x); }
Tensor elu(Operand x, double alpha) { return math(TensorOp::kElu, {alpha}, x); }
Tensor clamp(Operand x, double low, double high) {
  const auto as_int = [](double number) { return static_cast<int64_t>(number); };
  const bool whole =
      std::abs(low) < 0x1p53 && std::abs(high) < 0x1p53 && std::trunc(low) == low && std::trunc(high) == high;
  if (!whole || !x.is_tensor() || dsl::is_float(x.tensor().element())) return math(TensorOp::kClamp, {low, high}, x);
  return min(Operand(max(x, Operand(as_int(low), x.loc())), x.loc()), Operand(as_int(high), x.loc()));
}
Tensor sigmoid(Operand x) { return math(TensorOp::kSigmoid, {}, x); }
Tensor silu(Operand x) { return math(TensorOp::kSilu, {}, x); }
Tensor gelu(Operand x, GeluKind kind) { return math(TensorOp::kGelu, {number_of(kind)}, x); }
Tensor softplus(Operand x) { return math(TensorOp::kSoftplus, {}, x); }
Tensor mish(Operand x) { return math(TensorOp::kMish, {}, x); }
Tensor hard_sigmoid(Operand x) { return math(TensorOp::kHardSigmoid, {}, x); }
Tensor hard_swish(Operand x) { return math(TensorOp::kHardSwish, {}, x); }

Tensor softmax(Operand x, int axis) { return along(TensorOp::kSoftmax, "softmax", x, axis); }
Tensor log_softmax(Operand x, int axis) { return along(TensorOp::kLogSoftmax, "log_softmax", x, axis); }

Tensor layer_norm(Operand x, Operand weight, Operand bias, double eps, int axes) {
  Call call("layer_norm", x);
  const Tensor from = call.float_tensor(x);
  return call.emit(TensorOp::kLayerNorm, beside(call, from, {&weight, &bias}), {int64_t{axes}, eps});
}

Tensor rms_norm(Operand x, Operand weight, double eps, int axes) {
  Call call("rms_norm", x);
  const Tensor from = call.float_tensor(x);
  return call.emit(TensorOp::kRmsNorm, beside(call, from, {&weight}), {int64_t{axes}, eps});
}

Tensor group_norm(Operand x, int64_t groups, Operand weight, Operand bias, double eps) {
  Call call("group_norm", x);
  const Tensor from = call.float_tensor(x);
  return call.emit(TensorOp::kGroupNorm, beside(call, from, {&weight, &bias}), {groups, eps});
}

Tensor batch_norm(Operand x, Operand mean, Operand variance, Operand weight, Operand bias, double eps) {
  Call call("batch_norm", x);
  const Tensor from = call.float_tensor(x);
  std::vector<Tensor> operands = beside(call, from, {&mean, &variance, &weight, &bias});
  return call.emit(TensorOp::kBatchNorm, operands, {eps});
}

BatchNormStep batch_norm_training(Operand x, Operand mean, Operand variance, Operand weight, Operand bias, double eps,
                                  double momentum) {
  Call call("batch_norm_training", x);
  const Tensor from = call.float_tensor(x), center = call.tensor(mean), spread = call.tensor(variance);
  const ElementType type = call.element(from);
  const Tensor scale = call.optional(weight, type), shift = call.optional(bias, type);
  const auto [y, new_mean, new_variance] =
      call.emit_n<3>(TensorOp::kBatchNormTraining, {from, center, spread, scale, shift}, {eps, momentum});
  return {y, new_mean, new_variance};
}

Tensor embedding(Operand table, Operand ids) {
  Call call("embedding", table);
  const Tensor rows = call.tensor(table), places = call.tensor(ids);
  return call.emit(TensorOp::kEmbedding, {rows, places});
}

Tensor embedding_bag(Operand table, Operand ids, Operand offsets, BagMode mode, Operand weights) {
  Call call("embedding_bag", table);
  const Tensor rows = call.tensor(table), places = call.tensor(ids), bags = call.tensor(offsets);
  const Tensor factors = weights.present() ? call.tensor_as(weights, call.element(rows)) : Trace::absent();
  return call.emit(TensorOp::kEmbeddingBag, {rows, places, bags, factors}, {number_of(mode)});
}

Tensor attention(Operand q, Operand k, Operand v, AttentionOptions options, Operand mask) {
  Call call("attention", q);
  std::vector<Tensor> operands = call.promoted({&q, &k, &v}, true);
  if (!call.ok()) return {};
  Tensor seen = call.optional(mask, call.element(operands[0]));
  if (mask.present() && call.ok() && call.element(seen) != i1) seen = call.cast(seen, call.element(operands[0]));
  operands.push_back(seen);
  return call.emit(TensorOp::kAttention, operands, {int64_t{options.causal}, options.window, options.scale});
}

Tensor paged_attention(Operand q, Operand k_pages, Operand v_pages, Operand table, Operand lengths, double scale) {
  Call call("paged_attention", q);
  std::vector<Tensor> operands = call.promoted({&q, &k_pages, &v_pages}, true);
  operands.push_back(call.tensor(table));
  operands.push_back(call.tensor(lengths));
  return call.emit(TensorOp::kPagedAttention, operands, {scale});
}

Tensor cross_entropy(Operand logits, Operand targets, LossReduction reduction, int64_t ignore, double smoothing) {
  Call call("cross_entropy", logits);
  const Tensor scores = call.float_tensor(logits), classes = call.tensor(targets);
  return call.emit(TensorOp::kCrossEntropy, {scores, classes}, {number_of(reduction), ignore, smoothing});
}

Tensor rope(Operand x, Operand cos, Operand sin, bool interleaved) {
  Call call("rope", x);
  const Tensor from = call.float_tensor(x);
  const Tensor c = call.tensor_as(cos, call.element(from)), s = call.tensor_as(sin, call.element(from));
  return call.emit(TensorOp::kRope, {from, c, s}, {int64_t{interleaved}});
}

Tensor dropout(Operand x, double p, Operand seed, Operand offset) {
  Call call("dropout", x);
  const Tensor from = call.float_tensor(x), key = call.tensor_as(seed, u64), counter = call.tensor_as(offset, u64);
  return call.emit(TensorOp::kDropout, {from, key, counter}, {p});
}

Tensor interaction(Operand dense, Operand features, bool diagonal) {
  Call call("interaction", dense);
  return call.emit(TensorOp::kInteraction, call.promoted({&dense, &features}, true), {int64_t{diagonal}});
}

Tensor tril(Operand x, int64_t diagonal) { return triangle("tril", x, diagonal, false); }
Tensor triu(Operand x, int64_t diagonal) { return triangle("triu", x, diagonal, true); }

namespace {

// Scale in the float type, zero in the int type. Scalars are of no axis.
Tensor scaled(TensorOp op, Call& call, const Tensor& x, const Operand& scale, const Operand& zero, ElementType to,
              ElementType floats, ElementType ints, int axis) {
  const Tensor step = call.tensor_as(scale, floats);
  const Tensor origin = zero.present() ? call.tensor_as(zero, ints) : Trace::absent();
  const int64_t place = call.rank(step) == 0 ? -1 : call.axis(axis, call.rank(x));
  return call.emit(op, {x, step, origin}, {to, place});
}

}  // namespace

Tensor quantise(Operand x, Operand scale, Operand zero, ElementType type, int axis) {
  Call call("quantise", x);
  const Tensor from = call.float_tensor(x);
  return scaled(TensorOp::kQuantise, call, from, scale, zero, type, call.element(from), type, axis);
}

Tensor dequantise(Operand x, Operand scale, Operand zero, ElementType type, int axis) {
  Call call("dequantise", x);
  const Tensor from = call.tensor(x);
  return scaled(TensorOp::kDequantise, call, from, scale, zero, type, type, call.element(from), axis);
}

}  // namespace kiln::graph

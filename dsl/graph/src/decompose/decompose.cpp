// The driver: composites out, primitives in, bodies included.
#include "kiln/graph/decompose.h"

#include "decompose/decompositions.h"
#include "ir/rewrite.h"
#include "kiln/graph/extents.h"
#include "kiln/graph/verify.h"
#include "trace/trace.h"

namespace kiln::graph {
namespace {

// A decomposition may use composites, but no chain of them is longer.
constexpr int kMaxRounds = 8;

Result<std::optional<std::vector<ValueId>>> expand(GraphBuilder& builder, const Node& node,
                                                   std::span<const ValueId> operands, const AttrList& attrs,
                                                   Decomposition decomposition) {
  Trace trace(builder, node.loc);
  Composite composite{attrs, {}};
  for (const ValueId operand : operands) {
    composite.operands.push_back(operand == kNoValue ? Tensor() : trace.tensor(operand));
  }
  const std::vector<Tensor> results = decomposition(composite);
  if (trace.failed()) return trace.error();
  std::vector<ValueId> out;
  for (const Tensor& result : results) out.push_back(trace.resolve(result, SourceLocation::current()));
  if (trace.failed()) return trace.error();
  if (out.size() != node.result_count)
    return internal_error(info(node.op).name + ": its decomposition gives another number of results");
  return std::optional(std::move(out));
}

bool has_composite(const Graph& graph, const KeepComposite& keep) {
  for (const Body& body : graph.bodies) {
    for (const Node& node : body.nodes) {
      if (info(node.op).has(kComposite) && !(keep && keep(graph, body, node))) return true;
    }
  }
  return false;
}

}  // namespace

Result<Graph> decompose(const Graph& graph, const KeepComposite& keep) {
  if (auto sound = verify(graph); !sound) return sound.error();
  Graph out = graph;
  for (int round = 0; round < kMaxRounds && has_composite(out, keep); ++round) {
    auto next =
        rewrite(out,
                [&](GraphBuilder& builder, const Body& body, const Node& node, std::span<const ValueId> operands,
                    const AttrList& attrs) -> Result<std::optional<std::vector<ValueId>>> {
                  const Decomposition decomposition = decomposition_of(node.op);
                  if (!decomposition || (keep && keep(out, body, node))) return std::optional<std::vector<ValueId>>();
                  return expand(builder, node, operands, attrs, decomposition);
                });
    if (!next) return next.error();
    out = std::move(*next);
  }
  return out;
}

Decomposition decomposition_of(TensorOp op) {
  switch (op) {
#define KILN_CASE(id, name) \
  case TensorOp::id:        \
    return decompose_##name
    KILN_CASE(kRelu, relu);
    KILN_CASE(kLeakyRelu, leaky_relu);
    KILN_CASE(kElu, elu);
    KILN_CASE(kClamp, clamp);
    KILN_CASE(kSigmoid, sigmoid);
    KILN_CASE(kSilu, silu);
    KILN_CASE(kGelu, gelu);
    KILN_CASE(kSoftplus, softplus);
    KILN_CASE(kMish, mish);
    KILN_CASE(kHardSigmoid, hard_sigmoid);
    KILN_CASE(kHardSwish, hard_swish);
    KILN_CASE(kMean, mean);
    KILN_CASE(kVariance, variance);
    KILN_CASE(kLogsumexp, logsumexp);
    KILN_CASE(kSoftmax, softmax);
    KILN_CASE(kLogSoftmax, log_softmax);
    KILN_CASE(kLayerNorm, layer_norm);
    KILN_CASE(kRmsNorm, rms_norm);
    KILN_CASE(kGroupNorm, group_norm);
    KILN_CASE(kBatchNorm, batch_norm);
    KILN_CASE(kBatchNormTraining, batch_norm_training);
    KILN_CASE(kLinear, linear);
    KILN_CASE(kConvBias, conv_bias);
    KILN_CASE(kMaxPool, max_pool);
    KILN_CASE(kAvgPool, avg_pool);
    KILN_CASE(kEmbedding, embedding);
    KILN_CASE(kEmbeddingBag, embedding_bag);
    KILN_CASE(kAttention, attention);
    KILN_CASE(kPagedAttention, paged_attention);
    KILN_CASE(kCrossEntropy, cross_entropy);
    KILN_CASE(kRope, rope);
    KILN_CASE(kDropout, dropout);
    KILN_CASE(kInteraction, interaction);
    KILN_CASE(kOneHot, one_hot);
    KILN_CASE(kTriangle, triangle);
    KILN_CASE(kQuantise, quantise);
    KILN_CASE(kDequantise, dequantise);
    KILN_CASE(kSgdStep, sgd_step);
    KILN_CASE(kMomentumStep, momentum_step);
    KILN_CASE(kAdamStep, adam_step);
    KILN_CASE(kAdagradStep, adagrad_step);
    KILN_CASE(kLambStep, lamb_step);
#undef KILN_CASE
    default:
      return nullptr;  // a primitive; a test finds composites that are missing
  }
}

Tensor widened(const Tensor& x) { return dsl::is_small_float(x.element()) ? cast(x, f32) : x; }

Dim size_along(const Tensor& x, const Axes& axes) {
  Dim count(1);
  for (const int axis : axes) count = count * x.extent(axis);
  return count;
}

Tensor count_of(const Tensor& x, const Axes& axes, ElementType type) { return extent(size_along(x, axes), type); }

Tensor filled(const Tensor& x, double number) {
  const TensorType type = x.type();
  const Literal literal{dsl::bits_from_double(type.element, number)};
  return Trace::current()->emit(TensorOp::kFull, {}, {type.element, type.shape, literal}, SourceLocation::current());
}

namespace {

// The Exprs of two Dims over the dims of the graph at hand.
struct Pair {
  std::span<const DimInfo> dims;
  std::optional<Expr> a, b;

  Pair(const Dim& x, const Dim& y) {
    Trace& trace = *Trace::current();
    a = trace.expr(x, "extent", SourceLocation::current());
    b = trace.expr(y, "extent", SourceLocation::current());
    dims = trace.graph().dims;
  }
  bool known() const { return a && b; }
};

}  // namespace

Dim exact_part(const Dim& total, const Dim& part) {
  const Pair pair(total, part);
  const auto quotient = pair.known() ? exact_quotient(pair.dims, *pair.a, *pair.b) : std::nullopt;
  return quotient ? Trace::current()->dim(*quotient) : total / part;
}

bool always_equal(const Dim& a, const Dim& b) {
  const Pair pair(a, b);
  return pair.known() && equal(pair.dims, *pair.a, *pair.b) == Known::kYes;
}

bool always_at_most(const Dim& a, const Dim& b) {
  const Pair pair(a, b);
  return pair.known() && at_most(pair.dims, *pair.a, *pair.b) == Known::kYes;
}

Axes axes_of(const Composite& composite, size_t attr) {
  Axes out;
  for (const int64_t axis : ints_attr(composite.attrs, attr)) out.push_back(static_cast<int>(axis));
  return out;
}

Tensor by_channel(const Tensor& x, int rank) {
  Shape shape(static_cast<size_t>(rank), Dim(1));
  shape[1] = x.extent(0);
  return reshape(x, shape);
}

}  // namespace kiln::graph

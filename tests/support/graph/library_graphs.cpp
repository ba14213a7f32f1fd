#include "graph/library_graphs.h"

#include "kiln/graph/detection.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/images.h"
#include "kiln/graph/sequences.h"

namespace kiln::test {
namespace {

using namespace graph;

Dim n() { return dim("n", 2, 64); }
Dim m() { return dim("m", 2, 64); }

// Ints of [0, below), of random ones.
Tensor below(const Tensor& x, int64_t limit) { return abs(x) % limit; }

// The sum of squares of a function, and its gradients by all inputs.
template <class Function>
GraphDef with_gradients(const char* name, const std::vector<InputSpec>& inputs, const Function& function) {
  std::vector<std::string> wanted;
  for (const InputSpec& each : inputs) {
    if (dsl::is_float(each.element)) wanted.push_back(each.name);
  }
  return value_and_grad(
      trace(name, inputs, [&](Tensors x) { return Outputs{{"loss", mean(square(function(std::move(x))))}}; }), wanted);
}

GraphDef pools() {
  return with_gradients("pools", {input("x", f32, {2, 3, n() + 3, m() + 4})}, [](Tensors t) {
    const Pooled plain = max_pool_with_indices(t[0], {.size = {3, 2}, .strides = {2, 1}, .low = {1, 0}});
    const Pooled parts = adaptive_max_pool(t[0], {3, 2});
    const Tensor back = max_unpool(parts.values, parts.indices, {n() + 3, m() + 4});
    return sum(plain.values) + sum(parts.values * adaptive_avg_pool(t[0], {3, 2}), {2, 3}, true) +
           cast(reduce_max(plain.indices), f32) * 1e-3 + sum(back);
  });
}

GraphDef edges() {
  return with_gradients("edges", {input("x", f32, {2, 8, n() + 2, m() + 2})}, [](Tensors t) {
    const Tensor y = pad(pad(t[0], PadMode::kReflect, {2, 1}, {0, 3}), PadMode::kCircular, {1}, {2});
    return pixel_shuffle(channel_shuffle(pad(y, PadMode::kReplicate, {0, 2}, {1, 0}), 2), 2);
  });
}

GraphDef samples() {
  return with_gradients("samples", {input("x", f32, {2, 3, n() + 1, m()}), input("t", f32, {2, 2, 3})}, [](Tensors t) {
    const Tensor grid = affine_grid(t[1] * 0.3, {5, 3}), w = sum(t[1], {0, 1});
    return grid_sample(t[0], grid) + grid_sample(t[0], grid, {ResizeMode::kCubic, SampleEdges::kReflect}) +
           mean(instance_norm(t[0], w, w), {2, 3}, true);
  });
}

GraphDef heads() {
  return graph::graph(
      "heads", {input("q", f32, {2, 3, n(), 8}), input("k", f32, {2, 3, n() + m(), 8}), input("i", i64, {2})},
      [](Tensor q, Tensor k, Tensor i) {
        const Tensor turned = rope_partial(q, rope_tables(arange(n()), 6));
        const Tensor biased = attention(turned, k, k, {}, alibi(3, n(), n() + m()));
        const Tensor windowed = attention(q, k, k, {}, window_mask(n(), n() + m(), 3, 1));
        const Tensor cross = attention(q, k, k, {}, length_mask(below(i, 2) + 1, n() + m()));
        return biased + windowed + cross + attention_with_sinks(q, k, k, constant(f32, {3}, {0.5, -1, 2}));
      });
}

GraphDef losses() {
  return with_gradients(
      "losses",
      {input("x", f32, {n() * 3, 12}), input("w", f32, {24, 12}), input("v", f32, {31, 12}),
       input("i", i64, {n() * 3})},
      [](Tensors t) { return linear_cross_entropy(gated_linear(t[0], t[1]), t[2], below(t[3], 31), 16); });
}

GraphDef experts() {
  return with_gradients("experts",
                        {input("x", f32, {n() * 3, 12}), input("g", f32, {5, 12}), input("v", f32, {5, 12, 20}),
                         input("w", f32, {5, 10, 12})},
                        [](Tensors t) { return mixture_of_experts(t[0], t[1], t[2], t[3], 2); });
}

GraphDef scans() {
  return with_gradients(
      "scans", {input("x", f32, {2, n(), 6}), input("a", f32, {6, 4}), input("b", f32, {2, n(), 4})}, [](Tensors t) {
        const Tensor rate = abs(t[0]) * 0.5, keys = reshape(t[0], {2, 1, n(), 6});
        const Tensor mixed = linear_attention(keys, keys, keys, reshape(-rate(all, all, 0), {2, 1, n()}), 4);
        return selective_scan(t[0], rate, -abs(t[1]), t[2], t[2]).y + reshape(mixed, {2, n(), 6}) +
               wkv(t[0], t[0] * 2.0, sum(square(t[1]), {1}), sum(t[1], {1}));
      });
}

GraphDef caches() {
  return graph::graph("caches", {input("p", f32, {9, 2, 4, 8}), input("x", f32, {2, 2, 5, 8})}, [](Tensor p, Tensor x) {
    const Tensor table = reshape(arange(6) + 2, {2, 3}), lengths = constant(i32, {2}, {3, 7});
    const QuantisedPages small =
        append_pages(QuantisedPages{cast(p * 9.0, i8), ones(f32, {9, 2, 4})}, table, lengths, x);
    return Outputs{{"pages", append_pages(p, table, lengths, x)}, {"small", dequantise_pages(small)}};
  });
}

GraphDef choices() {
  return graph::graph("choices", {input("x", f32, {n(), 3, 37}), input("s", f32, {n(), 3})}, [](Tensor x, Tensor s) {
    const BeamStep step = beam_step(log_softmax(x), s, s > 0.0, 5);
    const Tensor kept = filter_logits(x(all, 0), {.temperature = 0.7, .top_k = 9});
    return Outputs{{"scores", step.scores}, {"beams", step.beams}, {"tokens", step.tokens}, {"kept", exp(kept)}};
  });
}

GraphDef boxes() {
  return graph::graph(
      "boxes", {input("x", f32, {2, 3, n() + 4, 9}), input("b", f32, {2, m() + 9, 4}), input("i", i64, {2, m() + 9})},
      [](Tensor x, Tensor b, Tensor i) {
        const Tensor corner = abs(b(rest, range(0, 2))) * 3.0;
        const Tensor all_boxes = cat({corner, corner + abs(b(rest, range(2, 4))) * 2.0 + 0.5}, -1);
        const Tensor scores = sigmoid(b(rest, 0) * 3.0 + b(rest, 1));
        const KeptBoxes kept = nms(all_boxes, scores, 5, 0.4, below(i, 2));
        const Tensor shown = roi_align(x, all_boxes(0), below(i(0), 2), {.height = 2, .width = 3, .aligned = false});
        return Outputs{{"kept", kept.indices}, {"count", kept.count}, {"shown", shown}};
      });
}

GraphDef selection() {
  const Dim n = dim("n", 2);  // of any size: bisection has as many steps
  return graph::graph("selection", {input("x", f32, {n * 7}), input("i", i32, {n, 7})}, [=](Tensor x, Tensor i) {
    const UniqueValues different = unique(i);
    const Selected chosen = masked_select(x, x > 0.3, -1.0), places = nonzero(below(i, 2));
    const Tensor edges = sort(slice(x, 0, 0, n + 1), 0).first;
    const Tensor sums = segment_reduce(x, arange(n + 1) * 5, SegmentKind::kMean);
    const Tensor most = scatter_reduce(zeros(f32, {4}), below(flatten(i), 4), x, 0, SegmentKind::kMax, false);
    return Outputs{{"values", different.values},
                   {"inverse", different.inverse},
                   {"counts", different.counts},
                   {"chosen", chosen.values},
                   {"found", chosen.count},
                   {"places", places.values},
                   {"at", bucketize(x, edges)},
                   {"sums", sums},
                   {"most", most}};
  });
}

}  // namespace

std::vector<LibraryGraph> library_graphs() {
  const std::vector<std::map<std::string, int64_t>> both = {{{"n", 5}, {"m", 3}}, {{"n", 2}, {"m", 9}}};
  const std::vector<std::map<std::string, int64_t>> one = {{{"n", 7}}, {{"n", 2}}};
  return {{"pools", pools(), both}, {"edges", edges(), both},       {"samples", samples(), both},
          {"heads", heads(), both}, {"losses", losses(), one},      {"experts", experts(), one},
          {"scans", scans(), one},  {"caches", caches(), {{}}},     {"choices", choices(), one},
          {"boxes", boxes(), both}, {"selection", selection(), one}};
}

}  // namespace kiln::test

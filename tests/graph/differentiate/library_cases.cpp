// Functions that are made of others: kiln/graph/images.h, sequences.h and detection.h.
#include "differentiate/differences.h"
#include "kiln/graph/detection.h"
#include "kiln/graph/images.h"
#include "kiln/graph/sequences.h"

namespace kiln::graph::test {
namespace {

std::vector<GradientCase> image_cases() {
  const Dim n = case_n(), m = case_m();
  const InputSpec image = input("x", f64, {2, 2, n + 2, m + 2});
  return {
      {"max_pool_with_indices",
       {image},
       [](Tensors t) {
         return Tensors{max_pool_with_indices(t[0], {.size = {2, 3}, .strides = {1, 2}, .low = {1, 0}}).values};
       },
       -2,
       2,
       0.01},
      {"max_unpool",
       {input("x", f64, {2, 2, 4, 4})},
       [](Tensors t) {
         const Pooled y = max_pool_with_indices(t[0], {.size = {2, 2}});
         return Tensors{sin(max_unpool(y.values, y.indices, {4, 4}))};
       },
       -2,
       2,
       0.01},
      {"adaptive_avg_pool", {image}, [](Tensors t) { return Tensors{sin(adaptive_avg_pool(t[0], {3, 2}))}; }},
      {"adaptive_max_pool",
       {image},
       [](Tensors t) { return Tensors{adaptive_max_pool(t[0], {2, 3}).values}; },
       -2,
       2,
       0.01},
      {"pad of edges",
       {image},
       [](Tensors t) {
         Tensors y;
         for (const PadMode mode : {PadMode::kReflect, PadMode::kReplicate, PadMode::kCircular}) {
           y.push_back(sin(pad(t[0], mode, {1, 0}, {0, 2})));
         }
         return y;
       }},
      {"shuffles",
       {input("x", f64, {n, 8, 2, 4})},
       [](Tensors t) {
         return Tensors{sin(pixel_shuffle(t[0], 2)), pixel_unshuffle(t[0], 2), channel_shuffle(t[0], 4)};
       }},
      {"grid_sample",
       {input("x", f64, {2, 2, 4, 3}), input("g", f64, {2, n, 2})},
       [](Tensors t) {
         return Tensors{grid_sample(t[0], t[1]), grid_sample(t[0], t[1], {.edges = SampleEdges::kReflect}),
                        grid_sample(t[0], t[1], {ResizeMode::kCubic, SampleEdges::kBorder, true})};
       },
       -0.6,
       0.6,
       0,
       true,
       1e-5},
      {"affine_grid", {input("t", f64, {n, 2, 3})}, [](Tensors t) { return Tensors{sin(affine_grid(t[0], {3, 2}))}; }},
      {"instance_norm",
       {image, input("w", f64, {2}), input("b", f64, {2})},
       [](Tensors t) { return Tensors{instance_norm(t[0], t[1], t[2], 0.1)}; }},
      {"fold_batch_norm",
       {input("w", f64, {2, 1, 2}), input("b", f64, {2}), input("m", f64, {2}), input("v", f64, {2}),
        input("s", f64, {2}), input("t", f64, {2})},
       [](Tensors t) {
         const FoldedConv y = fold_batch_norm(t[0], t[1], t[2], t[3], t[4], t[5]);
         return Tensors{y.w, y.bias};
       },
       0.3,
       2},
  };
}

std::vector<GradientCase> sequence_cases() {
  const Dim n = case_n(), m = case_m();
  return {
      {"rope_partial",
       {input("x", f64, {n, m, 6})},
       [](Tensors t) { return Tensors{sin(rope_partial(t[0], rope_tables(arange(case_m()), 4)))}; }},
      {"attention_with_sinks",
       {input("q", f64, {1, 2, n, 3}), input("k", f64, {1, 2, n, 3}), input("v", f64, {1, 2, n, 2}),
        input("s", f64, {2})},
       [](Tensors t) { return Tensors{attention_with_sinks(t[0], t[1], t[2], t[3])}; }},
      {"gated_linear",
       {input("x", f64, {n, 3}), input("w", f64, {4, 3}), input("b", f64, {4})},
       [](Tensors t) {
         return Tensors{gated_linear(t[0], t[1], GateKind::kSwiglu, t[2]), gated_linear(t[0], t[1], GateKind::kGeglu)};
       }},
      {"linear_cross_entropy",
       {input("x", f64, {n, 3}), input("w", f64, {4, 3}), input("i0_4", i64, {n})},
       [](Tensors t) { return Tensors{linear_cross_entropy(t[0], t[1], t[2], 2, 3)}; },
       -2,
       2,
       0,
       false},
      {"mixture_of_experts",
       {input("x", f64, {n, 3}), input("g", f64, {3, 3}), input("v", f64, {3, 3, 4}), input("w", f64, {3, 2, 3})},
       [](Tensors t) { return Tensors{mixture_of_experts(t[0], t[1], t[2], t[3], 2)}; },
       -1,
       1,
       0,
       false},
      {"selective_scan",
       {input("u", f64, {2, n, 2}), input("r", f64, {2, n, 2}), input("a", f64, {2, 3}), input("b", f64, {2, n, 3}),
        input("c", f64, {2, n, 3}), input("d", f64, {2}), input("h", f64, {2, 2, 3})},
       [](Tensors t) {
         const Scanned y = selective_scan(t[0], t[1], t[2], t[3], t[4], t[5], t[6]);
         return Tensors{y.y, y.state};
       },
       -1,
       1,
       0,
       false},
      {"linear_attention",
       {input("q", f64, {1, 2, n, 2}), input("k", f64, {1, 2, n, 2}), input("v", f64, {1, 2, n, 3}),
        input("g", f64, {1, 2, n})},
       [](Tensors t) { return Tensors{linear_attention(t[0], t[1], t[2], t[3], 2)}; },
       -1,
       1,
       0,
       false},
      {"wkv",
       {input("k", f64, {2, n, 2}), input("v", f64, {2, n, 2}), input("w", f64, {2}), input("u", f64, {2})},
       [](Tensors t) { return Tensors{wkv(t[0], t[1], t[2], t[3])}; },
       -1,
       1,
       0,
       false},
  };
}

std::vector<GradientCase> detection_cases() {
  const Dim n = case_n();
  return {
      {"box_iou",
       {input("a", f64, {n, 4}), input("b", f64, {3, 4})},
       [](Tensors t) {
         const auto boxes = [](const Tensor& x) { return cat({x(all, range(0, 2)), x(all, range(2, 4)) + 3.0}, 1); };
         return Tensors{box_iou(boxes(t[0]), boxes(t[1] + 0.005))};
       },
       0,
       2,
       0.01},
      {"roi_align",
       {input("x", f64, {2, 2, 4, 5}), input("b", f64, {n, 4}), input("i0_2", i64, {n})},
       [](Tensors t) {
         const Tensor boxes = t[1] + constant(f64, {4}, {0.6, 0.7, 2.9, 2.6});
         return Tensors{roi_align(t[0], boxes, t[2], {.height = 2, .width = 1})};
       },
       -0.2,
       0.2,
       0,
       true,
       1e-5},
      {"masked_select",
       {input("x", f64, {n, 3})},
       [](Tensors t) { return Tensors{sin(masked_select(t[0], t[0] > 0.3).values)}; },
       -2,
       2,
       0.01},
      {"unique", {input("x", f64, {5})}, [](Tensors t) { return Tensors{sin(unique(t[0]).values)}; }, -2, 2, 0.01},
      {"segment_reduce",
       {input("x", f64, {5, n})},
       [](Tensors t) {
         const Tensor offsets = constant(i64, {4}, {0, 2, 2, 4});
         return Tensors{segment_reduce(t[0], offsets, SegmentKind::kMean),
                        segment_reduce(t[0], offsets, SegmentKind::kMax),
                        sin(segment_reduce(t[0], offsets, SegmentKind::kSum))};
       },
       -2,
       2,
       0.01},
      {"scatter_reduce",
       {input("x", f64, {3, n}), input("v", f64, {4, n}), input("i0_3", i64, {4, n})},
       [](Tensors t) {
         return Tensors{scatter_reduce(t[0], t[2], t[1], 0, SegmentKind::kMean),
                        scatter_reduce(t[0], t[2], t[1], 0, SegmentKind::kMax, false)};
       },
       -2,
       2,
       0.01},
  };
}

}  // namespace

std::vector<GradientCase> library_cases() {
  std::vector<GradientCase> out = image_cases();
  for (const auto& more : {sequence_cases(), detection_cases()}) out.insert(out.end(), more.begin(), more.end());
  return out;
}

}  // namespace kiln::graph::test

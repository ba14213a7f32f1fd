// The code of docs/use/graph-functions.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kiln/graph/detection.h"
#include "kiln/graph/images.h"
#include "kiln/graph/sequences.h"
#include "trace/lines.h"

namespace kiln::graph {
namespace {

using ::testing::ElementsAre;

TEST(FunctionsGuide, FoldsALayer) {
  auto folded =
      graph("folded",
            {input("x", f32, {dim("n"), 64, 56, 56}), input("w", f32, {64, 64, 3, 3}), input("mean", f32, {64}),
             input("variance", f32, {64})},
            [](Tensor x, Tensor w, Tensor mean, Tensor variance) {
              const ConvOptions same{.low = {1, 1}, .high = {1, 1}};
              const FoldedConv one = fold_batch_norm(w, {}, mean, variance);
              const Tensor apart = batch_norm(conv(x, w, same), mean, variance);
              const Difference cost = difference(conv(x, one.w, one.bias, same), apart);
              return Outputs{{"w", one.w}, {"bias", one.bias}, {"largest", cost.largest}, {"relative", cost.relative}};
            });
  EXPECT_THAT(output_types(folded), ElementsAre("f32[64, 64, 3, 3]", "f32[64]", "f32[]", "f32[]"));
}

TEST(FunctionsGuide, AttendsAndRoutes) {
  auto layer = graph(
      "layer",
      {input("q", bf16, {1, 32, dim("m"), 128}), input("k", bf16, {1, 8, dim("n"), 128}),
       input("v", bf16, {1, 8, dim("n"), 128}), input("x", bf16, {dim("t"), 4096}), input("gate", bf16, {8, 4096}),
       input("up", bf16, {8, 4096, 28672}), input("down", bf16, {8, 14336, 4096})},
      [](Tensor q, Tensor k, Tensor v, Tensor x, Tensor gate, Tensor up, Tensor down) {
        const RopeTables tables = rope_tables(arange(q.extent(2)), 64);
        const Tensor seen = window_mask(q.extent(2), k.extent(2), 1024, 4);
        return Tensors{attention(rope_partial(q, tables), k, v, {}, seen), mixture_of_experts(x, gate, up, down, 2)};
      });
  EXPECT_THAT(output_types(layer), ElementsAre("bf16[1, 32, m, 128]", "bf16[t, 4096]"));
}

TEST(FunctionsGuide, Detects) {
  auto detect = graph("detect",
                      {input("features", f32, {1, 256, 50, 80}), input("boxes", f32, {1, dim("n"), 4}),
                       input("scores", f32, {1, dim("n")}), input("classes", i32, {1, dim("n")})},
                      [](Tensor features, Tensor boxes, Tensor scores, Tensor classes) {
                        const KeptBoxes kept = nms(boxes, scores, 100, 0.5, classes);
                        const Tensor best = boxes(0)(max(kept.indices(0), 0));
                        const Tensor shown = roi_align(features, best, zeros(i64, {100}), {.scale = 1.0 / 16});
                        return Outputs{{"kept", kept.indices}, {"count", kept.count}, {"shown", shown}};
                      });
  EXPECT_THAT(output_types(detect), ElementsAre("i64[1, 100]", "i64[1]", "f32[100, 256, 7, 7]"));
}

}  // namespace
}  // namespace kiln::graph

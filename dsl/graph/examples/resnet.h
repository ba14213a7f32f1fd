// A block of ResNet (He and others 2016): two convolutions with batch norm, and what came in added. In training the
// norms use the batch's statistics and move the running ones, which are states; in inference they use the running ones.
#pragma once

#include "kiln/graph/graph.h"

namespace kiln::graph::examples {

inline const ConvOptions kSame = {.low = {1, 1}, .high = {1, 1}};  // a window of 3 keeps the extents

inline std::vector<InputSpec> resnet_inputs(int64_t channels, bool training) {
  const Dim batch = dim("batch", 1, 256), height = dim("height", 4, 512), width = dim("width", 4, 512);
  std::vector<InputSpec> out = {input("x", f32, {batch, channels, height, width})};
  for (const std::string layer : {"1", "2"}) {
    out.push_back(input("conv" + layer, f32, {channels, channels, 3, 3}));
    out.push_back(input("weight" + layer, f32, {channels}));
    out.push_back(input("bias" + layer, f32, {channels}));
    for (const std::string name : {"mean", "variance"}) {
      out.push_back(training ? donated(name + layer, f32, {channels}, "new_" + name + layer)
                             : input(name + layer, f32, {channels}));
    }
  }
  return out;
}

inline GraphDef resnet_training(int64_t channels = 16) {
  return graph("resnet_training", resnet_inputs(channels, true),
               [](Tensor x, Tensor conv1, Tensor weight1, Tensor bias1, Tensor mean1, Tensor variance1, Tensor conv2,
                  Tensor weight2, Tensor bias2, Tensor mean2, Tensor variance2) {
                 const auto a = batch_norm_training(conv(x, conv1, kSame), mean1, variance1, weight1, bias1);
                 const auto b = batch_norm_training(conv(relu(a.y), conv2, kSame), mean2, variance2, weight2, bias2);
                 return Outputs{{"y", relu(b.y + x)},
                                {"new_mean1", a.mean},
                                {"new_variance1", a.variance},
                                {"new_mean2", b.mean},
                                {"new_variance2", b.variance}};
               });
}

inline GraphDef resnet_inference(int64_t channels = 16) {
  return graph("resnet_inference", resnet_inputs(channels, false),
               [](Tensor x, Tensor conv1, Tensor weight1, Tensor bias1, Tensor mean1, Tensor variance1, Tensor conv2,
                  Tensor weight2, Tensor bias2, Tensor mean2, Tensor variance2) {
                 const Tensor a = batch_norm(conv(x, conv1, kSame), mean1, variance1, weight1, bias1);
                 const Tensor b = batch_norm(conv(relu(a), conv2, kSame), mean2, variance2, weight2, bias2);
                 return relu(b + x);
               });
}

}  // namespace kiln::graph::examples

#include "graph/convolutions.h"

namespace kiln::test {

using graph::Dim;
using graph::GraphDef;
using graph::input;
using graph::Shape;
using graph::Tensor;

std::span<const Convolution> convolutions() {
  static const Convolution kConvolutions[] = {
      {"Plain", {2, 18, 5, 6}, {17, 18, 3, 3}},
      {"Padded", {2, 18, 5, 6}, {17, 18, 3, 3}, {.low = {1, 1}, .high = {1, 1}}},
      {"PaddedUnevenly", {1, 17, 4, 5}, {16, 17, 2, 3}, {.low = {0, 2}, .high = {1, 0}}},
      {"Strided", {2, 16, 7, 9}, {18, 16, 3, 3}, {.strides = {2, 2}, .low = {1, 1}, .high = {1, 1}}},
      {"Dilated", {1, 16, 8, 7}, {16, 16, 3, 2}, {.low = {2, 1}, .high = {2, 0}, .dilation = {2, 3}}},
      {"WithoutWindows", {3, 20, 5, 4}, {24, 20, 1, 1}},
      {"WithoutWindowsStrided", {2, 20, 5, 6}, {24, 20, 1, 1}, {.strides = {2, 3}}},
      {"OfFewChannels", {2, 3, 9, 8}, {20, 3, 5, 5}, {.strides = {2, 2}, .low = {2, 2}, .high = {2, 2}}},
      {"OfFewChannelsWrittenOut", {2, 3, 6, 5}, {18, 3, 3, 3}, {.low = {1, 1}, .high = {1, 1}}},
      {"ByChannel", {2, 19, 6, 5}, {19, 1, 3, 3}, {.low = {1, 1}, .high = {1, 1}, .groups = 19}},
      {"ByChannelStrided",
       {2, 19, 7, 8},
       {19, 1, 3, 2},
       {.strides = {2, 3}, .low = {1, 0}, .high = {1, 1}, .groups = 19}},
      {"InGroups", {2, 34, 5, 4}, {36, 17, 3, 3}, {.low = {1, 1}, .high = {1, 1}, .groups = 2}},
      {"OfLines", {2, 16, 11}, {18, 16, 4}, {.strides = {3}, .low = {2}, .high = {1}}},
      {"OfVolumes", {1, 16, 3, 4, 3}, {16, 16, 2, 3, 2}, {.low = {1, 1, 0}, .high = {0, 1, 1}}},
      {"Cropped", {1, 16, 7, 8}, {16, 16, 2, 2}, {.low = {-1, 0}, .high = {0, -2}}},
  };
  return kConvolutions;
}

GraphDef network(const Convolution& of, Dim batch, dsl::ElementType type) {
  Shape x = of.x;
  x[0] = std::move(batch);
  return graph::graph(
      "network",
      {input("x", type, x), input("w", type, of.w), input("scale", type, {of.x[1]}), input("bias", type, {of.w[0]})},
      [&](Tensor x, Tensor w, Tensor scale, Tensor bias) {
        Shape channels(of.x.size(), Dim(1));
        channels[1] = of.x[1];
        const Tensor before = x * reshape(scale, channels) + tanh(x);
        const Tensor y = conv(before, w, bias, of.options);
        return mean(square(y * 0.25)) + sum(y) * 0.01;
      });
}

}  // namespace kiln::test

// A step of sampling by diffusion: a small U-Net guesses the noise in an image, and DDIM (Song and others 2021) takes
// some of it away. Down once, attention over all places, up again, with what was before joined to it.
#pragma once

#include "kiln/graph/graph.h"

namespace kiln::graph::examples {

// Two convolutions with group norm and silu, the time added between them.
inline Tensor unet_block(const Tensor& x, const Tensor& time, const Tensor* w) {
  const ConvOptions same = {.low = {1, 1}, .high = {1, 1}};
  Tensor y = conv(silu(group_norm(x, 4)), w[0], same);
  y = y + linear(silu(time), w[1])(all, all, none, none);
  return conv(silu(group_norm(y, 4)), w[2], same);
}

// The sinusoids of a step's number: [batch, width].
inline Tensor time_embedding(const Tensor& step, int64_t width) {
  const Tensor rates = exp(arange(width / 2, f32) * (-9.2103404 / static_cast<double>(width / 2)));  // to 1/10000
  const Tensor angles = step(all, none) * rates;
  return cat({sin(angles), cos(angles)}, -1);
}

inline GraphDef diffusion_step(int64_t channels = 8, int64_t width = 32) {
  const Dim batch = dim("batch", 1, 64), size = dim("size", 8, 128, 2);  // even: halved and doubled again
  const auto window = [](std::string name, int64_t to, int64_t from) {
    return input(std::move(name), f32, {to, from, 3, 3});
  };
  const int64_t c = channels;
  return graph("diffusion_step",
               {input("image", f32, {batch, 3, size, size}), input("step", f32, {batch}), input("alpha", f32, {batch}),
                input("next_alpha", f32, {batch}), window("in", c, 3), window("down1", c, c),
                input("down_time", f32, {c, width}), window("down2", c, c), window("up1", 2 * c, 2 * c),
                input("up_time", f32, {2 * c, width}), window("up2", c, 2 * c), window("out", 3, c)},
               [&](Tensors in) {
                 const ConvOptions same = {.low = {1, 1}, .high = {1, 1}};
                 const Tensor image = in[0], time = time_embedding(in[1], width);
                 const Tensor x = conv(image, in[4], same);
                 const Tensor down = unet_block(max_pool(x, {.size = {2, 2}}), time, &in[5]);
                 const Tensor places = transpose(flatten(down, 2))(all, none);  // [b, 1, places, channels]: one head
                 const Tensor mixed = down + reshape(transpose(attention(places, places, places)), down.shape());
                 const Tensor up = cat({x, resize(mixed, {size, size}, ResizeMode::kNearest)}, 1);
                 const Tensor noise = conv(silu(unet_block(up, time, &in[8])), in[11], same);
                 const Tensor alpha = in[2](all, none, none, none), next = in[3](all, none, none, none);
                 const Tensor clean = clamp((image - sqrt(1 - alpha) * noise) / sqrt(alpha), -1, 1);
                 return Outputs{{"next_image", sqrt(next) * clean + sqrt(1 - next) * noise}};
               });
}

}  // namespace kiln::graph::examples

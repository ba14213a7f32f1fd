// The selective state space of Mamba (Gu, Dao 2023): a state of each channel that forgets and takes in by what it sees,
// place after place: a loop over the places.
#pragma once

#include "kiln/graph/graph.h"

namespace kiln::graph::examples {

struct MambaConfig {
  int64_t width = 32, states = 8, window = 4;
};

// A convolution along places that sees no later one: [b, n, width].
inline Tensor causal_conv(const Tensor& x, const Tensor& w, const MambaConfig& c) {
  const Tensor y = conv(transpose(x), w, {.low = {c.window - 1}, .high = {0}, .groups = c.width});
  return transpose(y);
}

inline GraphDef mamba_block(const MambaConfig& c = {}) {
  const Dim batch = dim("batch", 1, 64), places = dim("places", 1, 8192);
  return graph("mamba_block",
               {input("x", f32, {batch, places, c.width}), input("norm", f32, {c.width}),
                input("in_proj", f32, {2 * c.width, c.width}), input("window", f32, {c.width, 1, c.window}),
                input("to_b", f32, {c.states, c.width}), input("to_c", f32, {c.states, c.width}),
                input("to_rate", f32, {c.width, c.width}), input("rate_bias", f32, {c.width}),
                input("log_a", f32, {c.width, c.states}), input("skip", f32, {c.width}),
                input("out_proj", f32, {c.width, c.width})},
               [&](Tensor x, Tensor norm, Tensor in_proj, Tensor window, Tensor to_b, Tensor to_c, Tensor to_rate,
                   Tensor rate_bias, Tensor log_a, Tensor skip, Tensor out_proj) {
                 const std::vector<Tensor> parts = split(linear(rms_norm(x, norm), in_proj), 2, -1);
                 const Tensor u = silu(causal_conv(parts[0], window, c));
                 const Tensor rate = softplus(linear(u, to_rate, rate_bias));
                 const auto by_place = [](const Tensor& t) { return permute(t, {1, 0, 2}); };  // places first
                 const LoopStep scanned = loop(
                     places, {zeros(f32, {batch, c.width, c.states})},
                     {by_place(u), by_place(rate), by_place(linear(u, to_b)), by_place(linear(u, to_c))},
                     [&](Tensors carried, Tensors at) {
                       const Tensor u_t = at[0], rate_t = at[1](all, all, none), b = at[2](all, none), c_t = at[3];
                       const Tensor state = carried[0] * exp(rate_t * -exp(log_a)) + rate_t * b * u_t(all, all, none);
                       return LoopStep{{state}, {sum(state * c_t(all, none), {-1}) + skip * u_t}};
                     });
                 const Tensor y = permute(scanned.stacked[0], {1, 0, 2});
                 return x + linear(y * silu(parts[1]), out_proj);
               });
}

}  // namespace kiln::graph::examples

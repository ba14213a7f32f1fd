// Convolutions of images, channels last.
#pragma once

#include "kiln/dsl/kernels/blocks.h"
#include "kiln/dsl/kernels/matmul.h"

namespace kiln::dsl::lang::kernels {

// For GPUs, like those of matrix products.
template <class T>
ConstexprValues convolution_blocks() {
  if (std::is_same_v<T, f32>) return {{"BM", 64}, {"BN", 64}, {"BK", 16}};
  return {{"BM", 128}, {"BN", 64}, {"BK", 64}, {"num_warps", 8}};
}

// Of f32 where nothing is known of the arrays, addresses of deeper blocks do not fit into NVIDIA's registers.
template <class T>
ConstexprValues cuda_convolution_blocks() {
  ConstexprValues out = convolution_blocks<T>();
  if (std::is_same_v<T, f32>) out["BK"] = 8;
  return out;
}

// Pixels of y, and what their filters see of x from where on: a line and a column, which may lie outside, and where in
// memory that is.
struct ConvolvedPixels {
  Value valid;  // the pixel is one of y
  Value top, left;
  Value begin;  // i64, elements
};
inline ConvolvedPixels convolved_pixels(const Value& pixel, const Value& count, const Value& lines,
                                        const Value& columns, const Value& stride, const Value& pad, const Value& H,
                                        const Value& W, const Value& C) {
  const Value line = pixel / columns, image = line / lines;
  const Value top = (line - image * lines) * stride - pad, left = (pixel - line * columns) * stride - pad;
  return {pixel < count, top, left, ((cast(image, i64_t) * H + top) * W + left) * C};
}

struct ImageShape {
  Value lines, columns, channels;
};

// The sums of a block of pixels and output channels: `weights(r, k)` are those of line r of the filters, elements k on
// of `depth`, [block.k, block.n]. `outside` of x is 0 unless given; what of it meets no weight meets a 0.
inline Value convolved_block(const Value& x, const ConvolvedPixels& at, const ImageShape& image, const Value& R,
                             const Value& depth, const MatmulBlock& block,
                             const std::function<Value(const Value&, const Value&)>& weights,
                             const Operand& outside = {}) {
  const auto& [H, W, C] = image;
  Var acc = zeros(is_float(x.element()) ? f32_t : i32_t, {block.m, block.n});
  for (Value r : range(0, R)) {
    const Value h = at.top + r;
    const Value inside = at.valid & (h >= 0) & (h < H);
    const Value row = x + expand_dims(at.begin + cast(r, i64_t) * (W * C), 1);
    for (Value k : range(0, depth, block.k)) {
      const Value lane = expand_dims(k + arange(0, block.k), 0);
      const Value place = expand_dims(at.left * C, 1) + lane;  // within the row of x
      const Value mask = expand_dims(inside, 1) & (place >= 0) & (place < W * C) & (lane < depth);
      acc = dot(load(row + lane, {.mask = mask, .other = outside}), weights(r, k), acc);
    }
  }
  return acc;
}

// What describes a convolution: the parameters of conv2d, below.
struct Convolution {
  Value N, H, W, C, K, R, S, stride, pad;
};

// A block of an output [pixels, K] of a convolution: its sums, and where it begins.
struct ConvolvedBlock {
  Value pixels, m, n, sums;
};

// The block of this program, of a grid of as many programs as there are blocks.
inline ConvolvedBlock convolve(const Value& x, const Value& w, const Convolution& v, const MatmulBlock& block,
                               const Const& GROUP, const Operand& outside = {}) {
  const Value P = (v.H + 2 * v.pad - v.R) / v.stride + 1, Q = (v.W + 2 * v.pad - v.S) / v.stride + 1;
  const Value pixels = v.N * P * Q, depth = v.S * v.C;
  grid(cdiv(pixels, block.m) * cdiv(v.K, block.n));
  const auto [m, n] = block_origin(pixels, v.K, block.m, block.n, GROUP);
  const ConvolvedPixels at = convolved_pixels(m + arange(0, block.m), pixels, P, Q, v.stride, v.pad, v.H, v.W, v.C);
  const Value sums = convolved_block(
      x, at, {v.H, v.W, v.C}, v.R, depth, block,
      [&](const Value& r, const Value& k) {
        return trans(tile(w + r * depth, {v.K, depth}, {v.R * depth, 1}).load({n, k}, {block.n, block.k}));
      },
      outside);
  return {pixels, m, n, sums};
}

// What the convolutions here have in common: the tuner's space, the sizes of arrays, GPUs' blocks.
inline constexpr const char* kPixelsTimesChannels =
    "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*K";
// A stride of 0, or a filter that is larger than the image and what is around it, has no pixels.
template <class Def>
Def convolution_conditions(Def def, const std::string& lines = "R", const std::string& columns = "S") {
  return std::move(def)
      .where("le(1, stride)")
      .where("le(" + lines + ", H + 2*pad)")
      .where("le(" + columns + ", W + 2*pad)");
}
template <class T, class Def>
Def convolution_hints(Def def) {
  return convolution_conditions(std::move(def))
      .space({{"BM", {32, 64, 128, 256}},
              {"BN", {32, 64, 128, 256}},
              {"BK", {24, 64, 128, 192, 256, 384}},
              {"num_warps", {4, 8}}})
      .space("cpu", {{"BM", {32, 64, 128, 196, 256, 512}}, {"GROUP", {1, 8, 64}}})
      .array("x", "N*H*W*C")
      .array("w", "K*R*S*C")
      .array("y", kPixelsTimesChannels)
      .defaults("amd", convolution_blocks<T>())
      .defaults("cuda", cuda_convolution_blocks<T>());
}

// y[n, p, q, k] = Σ over r, s, c of x[n, p·stride - pad + r, q·stride - pad + s, c] · w[k, r, s, c], 0 outside of x. x
// is [N, H, W, C], w [K, R, S, C], y [N, P, Q, K] with P = (H + 2·pad - R)/stride + 1 and Q likewise.
//
// An implicit matrix product: a row is a pixel of y, a column an output channel. For one r, what a pixel sees of x, by
// s and c, lies side by side in memory, as do the weights: the product runs over S·C elements, in blocks of BK. On GPUs
// a block much longer than S·C is wasted work.
template <class T = f32>
const auto& conv2d() {
  static const Kept def = convolution_hints<T>(kernel(
      "conv2d",
      {"x", "w", "y", "N", "H", "W", "C", "K", "R", "S", "stride", "pad", "BM=128", "BN=64", "BK=192", "GROUP=8"},
      [](Ptr<const T> x, Ptr<const T> w, Ptr<ProductOf<T>> y, i32 N, i32 H, i32 W, i32 C, i32 K, i32 R, i32 S,
         i32 stride, i32 pad, Const BM, Const BN, Const BK, Const GROUP) {
        const auto [pixels, m, n, sums] = convolve(x, w, {N, H, W, C, K, R, S, stride, pad}, {BM, BN, BK}, GROUP);
        tile(y, {pixels, K}).store({m, n}, cast(sums, element_v<ProductOf<T>>));
      }));
  return *def;
}

// y = max(conv2d(x, w) + bias, 0), bias [K] by channel: a layer whose normalisation went into its weights.
template <class T = f32>
const auto& conv2d_bias_relu() {
  static const Kept def =
      convolution_hints<T>(
          kernel("conv2d_bias_relu",
                 {"x", "w", "bias", "y", "N", "H", "W", "C", "K", "R", "S", "stride", "pad", "BM=128", "BN=64",
                  "BK=192", "GROUP=8"},
                 [](Ptr<const T> x, Ptr<const T> w, Ptr<const T> bias, Ptr<T> y, i32 N, i32 H, i32 W, i32 C, i32 K,
                    i32 R, i32 S, i32 stride, i32 pad, Const BM, Const BN, Const BK, Const GROUP) {
                   const auto [pixels, m, n, sums] =
                       convolve(x, w, {N, H, W, C, K, R, S, stride, pad}, {BM, BN, BK}, GROUP);
                   const Value biased = sums + load_f32(tile(bias, {K}), {n}, {BN});
                   tile(y, {pixels, K}).store({m, n}, cast(relu(biased), element_v<T>));
                 }))
          .array("bias", "K");
  return *def;
}

// y = max(conv2d(x, w) + bias + residual, 0), residual [N, P, Q, K]: the last layer of a residual block.
template <class T = f32>
const auto& conv2d_bias_residual_relu() {
  static const Kept def =
      convolution_hints<T>(
          kernel("conv2d_bias_residual_relu",
                 {"x", "w", "bias", "residual", "y", "N", "H", "W", "C", "K", "R", "S", "stride", "pad", "BM=128",
                  "BN=64", "BK=192", "GROUP=8"},
                 [](Ptr<const T> x, Ptr<const T> w, Ptr<const T> bias, Ptr<const T> residual, Ptr<T> y, i32 N, i32 H,
                    i32 W, i32 C, i32 K, i32 R, i32 S, i32 stride, i32 pad, Const BM, Const BN, Const BK, Const GROUP) {
                   const auto [pixels, m, n, sums] =
                       convolve(x, w, {N, H, W, C, K, R, S, stride, pad}, {BM, BN, BK}, GROUP);
                   const Value biased = sums + load_f32(tile(bias, {K}), {n}, {BN});
                   const Value total = biased + load_f32(tile(residual, {pixels, K}), {m, n}, {BM, BN});
                   tile(y, {pixels, K}).store({m, n}, cast(relu(total), element_v<T>));
                 }))
          .array("bias", "K")
          .array("residual", kPixelsTimesChannels);
  return *def;
}

// The same in groups: C/groups channels of x make K/groups of y, by filters w [K, R, S, C/groups].
template <class T = f32>
const auto& conv2d_grouped() {
  static const Kept def =
      convolution_conditions(
          kernel(
              "conv2d_grouped",
              {"x", "w", "y", "N", "H", "W", "C", "K", "R", "S", "stride", "pad", "groups", "BM=128", "BN=64", "BK=64"},
              [](Ptr<const T> x, Ptr<const T> w, Ptr<ProductOf<T>> y, i32 N, i32 H, i32 W, i32 C, i32 K, i32 R, i32 S,
                 i32 stride, i32 pad, i32 groups, Const BM, Const BN, Const BK) {
                const Value P = (H + 2 * pad - R) / stride + 1, Q = (W + 2 * pad - S) / stride + 1;
                const Value pixels = N * P * Q, depth = C / groups, width = K / groups;
                grid(cdiv(pixels, BM) * cdiv(width, BN), groups);
                const auto [m, n] = block_origin(pixels, width, BM, BN);
                const Value first = program_id(1) * width;  // channel of y
                const auto [valid, top, left, begin] =
                    convolved_pixels(m + arange(0, BM), pixels, P, Q, stride, pad, H, W, C);
                Var acc = zeros(accumulator_v<T>, {BM, BN});
                for (Value r : range(0, R)) {
                  for (Value s : range(0, S)) {
                    const Value h = top + r, v = left + s;
                    const Value inside = valid & (h >= 0) & (h < H) & (v >= 0) & (v < W);
                    const Value at = begin + (cast(r, i64_t) * W + s) * C + program_id(1) * depth;
                    const Value filter = w + cast(first, i64_t) * (R * S * depth) + (r * S + s) * depth;
                    for (Value k : range(0, depth, BK)) {
                      const Value lane = expand_dims(k + arange(0, BK), 0);
                      const Value a =
                          load(x + expand_dims(at, 1) + lane, {.mask = expand_dims(inside, 1) & (lane < depth)});
                      const Value b = tile(filter, {width, depth}, {R * S * depth, 1}).load({n, k}, {BN, BK});
                      acc = dot(a, trans(b), acc);
                    }
                  }
                }
                tile(y + first, {pixels, width}, {K, 1}).store({m, n}, cast(acc, element_v<ProductOf<T>>));
              }))
          .where("eq(rem(C, groups), 0)")
          .where("eq(rem(K, groups), 0)")
          .space({{"BM", {32, 64, 128, 256}},
                  {"BN", {32, 64, 128}},
                  {"BK", {16, 32, 64, 128, 256}},
                  {"num_warps", {4, 8}}})
          .array("x", "N*H*W*C")
          .array("w", "K*R*S*div(C, groups)")
          .array("y", "N*(div(H + 2*pad - R, stride) + 1)*(div(W + 2*pad - S, stride) + 1)*K")
          .defaults("amd", {{"BM", 32}, {"BN", 32}, {"BK", std::is_same_v<T, f32> ? 8 : 32}})
          .defaults("cuda", cuda_convolution_blocks<T>());
  return *def;
}

// The sums of a block of pixels and channels, [BM, BC], where channels come in groups of DEPTH, each of which makes as
// many of y: x of w [FILTER, FILTER, DEPTH, C].
template <class T, int FILTER, int DEPTH>
Value sums_by_channel(const Value& x, const Value& w, const ConvolvedPixels& at, const ImageShape& image,
                      const Value& first, Const BM, Const BC) {
  const auto& [H, W, C] = image;
  const Value lane = arange(0, BC), channel = expand_dims(first + lane, 0);
  const Value group = DEPTH == 1 ? channel : expand_dims(first + lane / DEPTH * DEPTH, 0);
  // One for each channel of a group: additions need not wait for each other.
  std::vector<Value> sums(DEPTH, zeros(f32_t, {BM, BC}));
  for (int r = 0; r < FILTER; ++r) {
    for (int s = 0; s < FILTER; ++s) {
      const Value h = at.top + r, v = at.left + s;
      const Value inside = at.valid & (h >= 0) & (h < H) & (v >= 0) & (v < W);
      const Value begin = at.begin + (r * cast(W, i64_t) + s) * C;
      const Value mask = expand_dims(inside, 1) & (channel < C);
      for (int c = 0; c < DEPTH; ++c) {
        const Value a = load(x + expand_dims(begin, 1) + (c == 0 ? group : group + c), {.mask = mask});
        const Value b = load(w + ((r * FILTER + s) * DEPTH + c) * C + channel, {.mask = channel < C});
        Value& sum = sums[static_cast<size_t>(c)];
        sum = sum + cast(a, f32_t) * cast(b, f32_t);
      }
    }
  }
  for (size_t step = 1; step < sums.size(); step *= 2) {
    for (size_t c = 0; c + step < sums.size(); c += 2 * step) sums[c] = sums[c] + sums[c + step];
  }
  return sums[0];
}

template <class T, int FILTER, int DEPTH>
auto convolution_by_channel(const char* name) {
  const std::string filter = std::to_string(FILTER), numbers = std::to_string(FILTER * FILTER * DEPTH);
  return convolution_conditions(
             kernel(name, {"x", "w", "y", "N", "H", "W", "C", "stride", "pad", "BM=32", "BC=128"},
                    [](Ptr<const T> x, Ptr<const T> w, Ptr<T> y, i32 N, i32 H, i32 W, i32 C, i32 stride, i32 pad,
                       Const BM, Const BC) {
                      if (DEPTH > 1) require(BC % DEPTH == 0, "BC is no multiple of the channels of a group");
                      const Value P = (H + 2 * pad - FILTER) / stride + 1, Q = (W + 2 * pad - FILTER) / stride + 1;
                      const Value pixels = N * P * Q;
                      grid(cdiv(pixels, BM), cdiv(C, BC));
                      const Value m = program_id(0) * BM, first = program_id(1) * BC;
                      const auto at = convolved_pixels(m + arange(0, BM), pixels, P, Q, stride, pad, H, W, C);
                      const Value sum = sums_by_channel<T, FILTER, DEPTH>(x, w, at, {H, W, C}, first, BM, BC);
                      tile(y, {pixels, C}).store({m, first}, cast(sum, element_v<T>));
                    }),
             filter, filter)
      .space({{"BM", {8, 16, 32, 64}}, {"BC", {32, 64, 128, 256}}, {"num_warps", {2, 4, 8}}})
      .array("x", "N*H*W*C")
      .array("w", numbers + "*C")
      .array("y", "N*(div(H + 2*pad - " + filter + ", stride) + 1)*(div(W + 2*pad - " + filter + ", stride) + 1)*C")
      .defaults("amd", {{"BM", 8}, {"BC", DEPTH == 1 ? 128 : 64}, {"num_warps", 8}});
}

// Each channel by a filter of its own: y[n, p, q, c] = Σ over r, s of x[n, p·stride - pad + r, q·stride - pad + s, c] ·
// w[r, s, c], of filters FILTER × FILTER; w is [FILTER, FILTER, C]. No matrix product: a column of one would be all
// there is. Sums are f32.
template <class T = f32, int FILTER = 3>
const auto& conv2d_depthwise() {
  // On CPUs all channels of a pixel in turn, as they lie in memory.
  static const Kept def = convolution_by_channel<T, FILTER, 1>("conv2d_depthwise").defaults("cpu", {{"BC", 1024}});
  return *def;
}

// In groups of DEPTH channels, too narrow for matrix products: each makes as many channels of y. y[n, p, q, k] = Σ over
// r, s, c < DEPTH of x[n, p·stride - pad + r, q·stride - pad + s, k - k mod DEPTH + c] · w[r, s, c, k], of filters
// FILTER × FILTER; w is [FILTER, FILTER, DEPTH, C], C a multiple of DEPTH. Sums are f32.
template <class T = f32, int DEPTH = 4, int FILTER = 3>
const auto& conv2d_narrow() {
  static const Kept def = convolution_by_channel<T, FILTER, DEPTH>("conv2d_narrow")
                              .where("eq(rem(C, " + std::to_string(DEPTH) + "), 0)")
                              .defaults("cuda", {{"BM", 4}, {"BC", 64}, {"num_warps", 8}});
  return *def;
}

}  // namespace kiln::dsl::lang::kernels

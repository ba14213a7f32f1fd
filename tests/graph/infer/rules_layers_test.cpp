// The rules of windows, norms, optimiser steps, bodies and kernels: each error that they can give, its text exactly.
#include <limits>

#include "infer/application.h"

namespace kiln::graph::inferring {
namespace {

using enum TensorOp;

constexpr ElementType kF32 = ElementType::kF32, kI32 = ElementType::kI32, kI1 = ElementType::kI1;

struct Row {
  TensorOp op;
  std::vector<std::string> operands;
  AttrList attrs;
  std::string message;
};

void expect(const std::vector<Row>& rows) {
  for (const Row& row : rows) EXPECT_EQ(results(row.op, row.operands, row.attrs), row.message);
}

AttrList slide(int64_t groups, int64_t stride = 1, int64_t low = 0, int64_t high = 0, int64_t dilation = 1) {
  return {Ints{stride}, Ints{low}, Ints{high}, Ints{dilation}, groups};
}
AttrList behind(Attr first, AttrList rest) {
  rest.insert(rest.begin(), std::move(first));
  return rest;
}

TEST(RulesOfLayers, Windows) {
  expect({
      {kConv,
       {"f32[n, 4]", "f32[8, 4]"},
       slide(1),
       "conv: x is f32[n, 4], and must have 1 to 3 axes behind batch and channels"},
      {kConv, {"f32[n, 4, 9]", "f32[8, 4]"}, slide(1), "conv: w is f32[8, 4], and must have 3 axes"},
      {kConv, {"i1[n, 4, 9]", "i1[8, 4, 3]"}, slide(1), "conv: i1 has no products; cast it"},
      {kConv, {"f32[n, 4, 9]", "f64[8, 4, 3]"}, slide(1), "conv: w is f64[8, 4, 3], and must be of f32"},
      {kConv, {"f32[n, 4, 9]", "f32[8, 4, 3]"}, slide(0), "conv: groups is 0; it may be 1 to 1099511627776"},
      {kConv, {"f32[n, 4, 9]", "f32[8, 4, 3]"}, slide(3), "conv: 4 channels are no multiple of 3 groups"},
      {kConv, {"f32[n, 4, 9]", "f32[8, 3, 3]"}, slide(1), "conv: the channels of x and groups of w differ: 4 and 3"},
      {kConv, {"f32[n, 4, 9]", "f32[8, 4, 3]"}, slide(1, 0), "conv: strides has 0; it may be 1 to 2^31"},
      {kConv, {"f32[n, 4, 9]", "f32[8, 4, 3]"}, slide(1, 1, 0, 0, 0), "conv: dilation has 0; it may be 1 to 2^31"},
      {kConv,
       {"f32[n, 4, 2]", "f32[8, 4, 3]"},
       slide(1),
       "conv: the window on axis 2 does not fit: its span and the padded extent: 3 <= 2 does not hold"},
      {kConv,
       {"f32[n, 4, m]", "f32[8, 4, 3]"},
       slide(1),
       "conv: the window on axis 2 does not fit: its span and the padded extent: 3 <= m is not known for all sizes; "
       "give the "
       "dims bounds"},
      {kConv,
       {"f32[n, 4, 9]", "f32[8, 4, z]"},
       slide(1),
       "conv: the window's extent on axis 2: 1 <= z is not known for all sizes; give the dims bounds"},
      {kConv, {"f32[n, 4, 2*k + 1]", "f32[8, 4, 3]"}, slide(1, 2, 1, 1), "f32[n, 8, k + 1]"},
      {kConvBias,
       {"f32[n, 4, 9]", "f32[8, 4, 3]", "f64[8]"},
       slide(1),
       "conv_bias: bias is f64[8], and must be of f32"},
      {kConvBias,
       {"f32[n, 4, 9]", "f32[8, 4, 3]", "f32[7]"},
       slide(1),
       "conv_bias: the filters of w and bias differ: 8 and 7"},
      {kConvInput,
       {"f32[n, 8, 7]", "f32[8, 4, 3]"},
       behind(exprs("9, 9"), slide(1)),
       "conv_input: shape has 2 extents, for 1 axes"},
      {kConvInput,
       {"f32[n, 6, 7]", "f32[8, 4, 3]"},
       behind(exprs("9"), slide(1)),
       "conv_input: the filters of g and w differ: 6 and 8"},
      {kConvInput,
       {"f32[n, 8, 7]", "f32[8, 4, 3]"},
       behind(exprs("8"), slide(1)),
       "conv_input: the places on axis 2 and g's extent differ: 6 and 7"},
      {kConvWeight,
       {"f32[n, 4, 9]", "f32[n, 8, 7]"},
       behind(exprs("3, 3"), slide(1)),
       "conv_weight: window has 2 extents, for 1 axes"},
      {kConvWeight,
       {"f32[2, 4, 9]", "f32[3, 8, 7]"},
       behind(exprs("3"), slide(1)),
       "conv_weight: the batches of x and g differ: 2 and 3"},
      {kConvWeight,
       {"f32[n, 4, 9]", "f32[n, 8, 7]"},
       behind(exprs("4"), slide(1)),
       "conv_weight: the places on axis 2 and g's extent differ: 6 and 7"},
      {kWindow,
       {"i1[n]"},
       {int64_t{0}, Ints{1}, Ints{1}, Ints{0}, Ints{0}, Ints{1}},
       "window: i1 has no order and no sums; cast it"},
      {kWindow,
       {"f32[n]"},
       {int64_t{0}, Ints{0}, Ints{1}, Ints{0}, Ints{0}, Ints{1}},
       "window: size has 0; it may be 1 to 2^31"},
      {kWindow,
       {"f32[n]"},
       {int64_t{0}, Ints{1}, Ints{1}, Ints{-1}, Ints{0}, Ints{1}},
       "window: low has -1; it may be 0 to 2^31"},
      {kWindowSpread,
       {"f32[4]", "f64[4]"},
       {int64_t{0}, Ints{1}, Ints{1}, Ints{0}, Ints{0}, Ints{1}},
       "window_spread: g is f64[4], and must be of f32"},
      {kWindowSpread,
       {"f32[4]", "f32[5]"},
       {int64_t{0}, Ints{1}, Ints{1}, Ints{0}, Ints{0}, Ints{1}},
       "window_spread: extents of axis 0 of the windows and g differ: 4 and 5"},
      {kWindowPick,
       {"f32[4]", "f32[5]"},
       {int64_t{0}, Ints{1}, Ints{1}, Ints{0}, Ints{0}, Ints{1}},
       "window_pick: extents of axis 0 of x and t differ: 4 and 5"},
      {kMaxPool,
       {"f32[n]"},
       {Ints{}, Ints{}, Ints{}, Ints{}, Ints{}},
       "max_pool: x is f32[n], and must have axes behind batch and channels"},
      {kAvgPool,
       {"i32[n, 4, 8]"},
       {Ints{2}, Ints{2}, Ints{0}, Ints{0}},
       "avg_pool: x is i32[n, 4, 8], and must be of floats"},
      {kResize, {"i32[n]"}, {exprs("4"), int64_t{0}}, "resize: x is i32[n], and must be of floats"},
      {kResize, {"f32[n]"}, {exprs(""), int64_t{0}}, "resize: shape has 0 extents, for axes of f32[n]"},
      {kResize, {"f32[n]"}, {exprs("0"), int64_t{0}}, "resize: the extent of a resized axis: 1 <= 0 does not hold"},
      {kResizeSpread,
       {"f32[z]"},
       {exprs("4"), int64_t{0}},
       "resize_spread: the extent of a resized axis: 1 <= z is not known for all sizes; give the dims bounds"},
  });
}

TEST(RulesOfLayers, Norms) {
  expect({
      {kSoftmax, {"i32[n]"}, {int64_t{0}}, "softmax: x is i32[n], and must be of floats"},
      {kSoftmax, {"f32[n]"}, {int64_t{-1}}, "softmax: axis -1 of f32[n]; there are 0 to 0"},
      {kLayerNorm, {"f32[n]"}, {int64_t{2}}, "layer_norm: 2 axes of f32[n]"},
      {kLayerNorm, {"f32[n, 4]", "i32[4]"}, {}, "layer_norm: weight is i32[4], and must be of floats"},
      {kLayerNorm,
       {"f32[n, 4]", "-", "f32[5]"},
       {},
       "layer_norm: extents of axis 0 of the normalised axes of x and bias differ: 4 and 5"},
      {kGroupNorm, {"f32[n]"}, {int64_t{2}}, "group_norm: x is f32[n], and must have channels on axis 1"},
      {kGroupNorm, {"f32[n, 3]"}, {int64_t{2}}, "group_norm: 3 channels are no multiple of 2 groups"},
      {kGroupNorm, {"f32[n, 4]", "f32[2, 2]"}, {int64_t{2}}, "group_norm: weight is f32[2, 2], and must have 1 axis"},
      {kBatchNorm, {"f32[n, 4]", "f32[5]", "f32[4]"}, {}, "batch_norm: the channels of x and mean differ: 4 and 5"},
      {kRope, {"f32[8]", "f32[n, 4]", "f32[n, 4]"}, {}, "rope: x is f32[8], and must have places and a last axis"},
      {kRope, {"f32[n, 8]", "f64[n, 4]", "f32[n, 4]"}, {}, "rope: cos is f64[n, 4], and must be of f32"},
      {kRope, {"f32[n, 8]", "f32[n, 4]", "f32[n, 5]"}, {}, "rope: extents of axis 1 of cos and sin differ: 4 and 5"},
      {kRope, {"f32[n, 8]", "f32[n + 1, 4]", "f32[n + 1, 4]"}, {}, "rope: the places of x and cos differ: n and n + 1"},
      {kRope,
       {"f32[n, 8]", "f32[n, 5]", "f32[n, 5]"},
       {},
       "rope: the last axis of x and twice that of cos differ: 8 and 10"},
      {kTriangle, {"f32[n]"}, {}, "triangle: x is f32[n], and must have two axes"},
      {kTriangle,
       {"f32[n, n]"},
       {std::numeric_limits<int64_t>::max()},
       "triangle: diagonal is 9223372036854775807; it may be -1099511627776 to 1099511627776"},
      {kDropout, {"f32[n]", "u64[]", "u64[]"}, {1.0}, "dropout: p is 0 or more, and below 1"},
      {kDropout, {"f32[n]", "u32[]", "u64[]"}, {0.5}, "dropout: seed is u32[], and must be of u64"},
      {kQuantise, {"f32[n]", "f32[]"}, {kF32}, "quantise: from f32 to f32; it is between floats and ints"},
      {kQuantise, {"f32[n]", "f64[]"}, {ElementType::kI8}, "quantise: scale is f64[], and must be of f32"},
      {kQuantise, {"f32[n]", "f32[]", "i32[]"}, {ElementType::kI8}, "quantise: zero is i32[], and must be of i8"},
      {kQuantise, {"f32[n]", "f32[n]"}, {ElementType::kI8}, "quantise: scale is f32[n], and must have 0 axes"},
      {kQuantise,
       {"f32[n, 4]", "f32[5]"},
       {ElementType::kI8, int64_t{1}},
       "quantise: extents of the axis and scale differ: 4 and 5"},
      {kQuantise, {"f32[n]", "f32[]"}, {ElementType::kI8, int64_t{2}}, "quantise: axis 2 of f32[n]; there are 0 to 0"},
      {kDequantise, {"i1[n]", "f32[]"}, {kF32}, "dequantise: from i1 to f32; it is between floats and ints"},
      {kSgdStep, {"i32[n]", "f32[n]", "f32[]"}, {}, "sgd_step: param is i32[n], and must be of floats"},
      {kSgdStep, {"f32[n]", "f32[n, 4]", "f32[]"}, {}, "sgd_step: param and grad have shapes [n] and [n, 4]"},
      {kSgdStep, {"f32[n]", "f32[n]", "f32[1]"}, {}, "sgd_step: lr is f32[1], and must have 0 axes"},
  });
}

AttrList loop(int64_t body, int64_t carried, int64_t scanned, const std::string& length) {
  return {body, carried, scanned, expr(length)};
}

TEST(RulesOfLayers, Control) {
  const int64_t pair = kPairBody;
  expect({
      {kLoop, {"f32[n]", "f32[4]"}, loop(pair, 1, 0, "m"), "f32[n], f32[m, 4]"},
      {kLoop, {"f32[n]", "f32[4]"}, loop(9, 1, 0, "m"), "loop: body 9 is no body of the graph"},
      {kLoop, {"f32[n]", "f32[4]"}, loop(0, 1, 0, "m"), "loop: body 0 is no body of the graph"},
      {kLoop, {"f32[n]", "f32[4]"}, loop(pair, 2, 1, "m"), "loop: 2 carried and 1 scanned of 2 operands"},
      {kLoop, {"f32[n]", "f32[4]"}, loop(pair, -1, 0, "m"), "loop: -1 carried and 0 scanned of 2 operands"},
      {kLoop,
       {"f32[n]", "f32[4]"},
       loop(pair, 1, 0, "n - 2"),
       "loop: length: 0 <= n - 2 is not known for all sizes; give the dims bounds"},
      {kLoop, {"f32[n]"}, loop(pair, 1, 0, "m"), "loop: @pair takes 2 inputs, not 1"},
      {kLoop, {"f32[n]", "f32[]"}, loop(pair, 1, 1, "m"), "loop: a scanned tensor of no axes"},
      {kLoop,
       {"f32[n]", "f32[m + 1, 4]"},
       loop(pair, 1, 1, "m"),
       "loop: the first axis of a scanned tensor and length differ: m + 1 and m"},
      {kLoop,
       {"f32[m]", "f32[4]"},
       loop(pair, 1, 0, "m"),
       "loop: extents of axis 0 of input x of @pair and its operand are not known to be equal: n and m; use one dim "
       "for both, or "
       "say how one follows from the other"},
      {kLoop,
       {"f64[n]", "f32[4]"},
       loop(pair, 1, 0, "m"),
       "loop: input x of @pair and its operand have types f32[n] and f64[n]"},
      {kLoop, {}, loop(kNothingBody, 0, 0, "m"), "loop: @nothing gives nothing"},
      {kCond, {"f32[]", "f32[n]", "f32[4]"}, {pair, pair}, "cond: pred is f32[], and must be of i1"},
      {kCond, {"i1[1]", "f32[n]", "f32[4]"}, {pair, pair}, "cond: pred is i1[1], and must have 0 axes"},
      {kCond, {"i1[]", "f32[n]"}, {pair, pair}, "cond: @pair takes 2 inputs, not 1"},
      {kCond, {"i1[]", "f32[n]", "f32[4]"}, {pair, int64_t{9}}, "cond: otherwise 9 is no body of the graph"},
      {kCall, {"f32[n]"}, {pair}, "call: @pair takes 2 inputs, not 1"},
      {kCall,
       {"f32[n]", "f32[5]"},
       {pair},
       "call: extents of axis 0 of input w of @pair and its operand differ: 4 and 5"},
      {kKernel, {"f32[n]"}, {int64_t{1}}, "kernel: kernel 1 is none of the graph's"},
      {kKernel, {}, {int64_t{0}}, "kernel: @twice takes 1 operands, not 0"},
      {kKernel, {"f64[n]"}, {int64_t{0}}, "kernel: operand 0 of @twice and what is given have types f32[n] and f64[n]"},
      {kKernel, {"f32[n]"}, {int64_t{0}}, "f32[n]"},
  });
}

}  // namespace
}  // namespace kiln::graph::inferring

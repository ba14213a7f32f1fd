// oneDNN's primitives, by its C++ interface of version 2.
#include "peers.h"

#if KILN_HAVE_DNNL
#include <oneapi/dnnl/dnnl.hpp>
#endif

#if KILN_HAVE_DNNL && DNNL_VERSION_MAJOR == 2

#include <algorithm>
#include <cstring>
#include <map>
#include <unordered_map>

#include "quickstart/case_makers.h"

namespace kiln::bench {
namespace {

using dnnl::algorithm, dnnl::memory, dnnl::primitive_attr, dnnl::prop_kind;
using Shape = std::vector<int64_t>;
using Tag = memory::format_tag;

const dnnl::engine& engine() {
  static const dnnl::engine one(dnnl::engine::kind::cpu, 0);
  return one;
}
dnnl::stream& stream() {
  static dnnl::stream one(engine());
  return one;
}

using Type = memory::data_type;

memory::desc desc(const Shape& dims, Tag tag, Type type = Type::f32) { return {dims, type, tag}; }
memory::desc flat(int64_t n) { return desc({n}, Tag::a); }
memory::desc matrix(int64_t rows, int64_t cols) { return desc({rows, cols}, Tag::ab); }

// Normal numbers in a layout; of bf16 zeros, which take as long.
memory random(const memory::desc& of) {
  memory out(of, engine());
  if (of.data_type() != Type::f32) {
    std::memset(out.get_data_handle(), 0, of.get_size());
    return out;
  }
  const size_t count = of.get_size() / sizeof(float);
  const auto values = quickstart::normals(count, 1);
  std::copy_n(values.get(), count, static_cast<float*>(out.get_data_handle()));
  return out;
}

// Primitives, one after the other, with their operands.
struct Step {
  dnnl::primitive primitive;
  std::unordered_map<int, memory> operands;
};
Peer peer(std::string name, std::vector<Step> steps) {
  return {std::move(name), [steps = std::move(steps)] {
            for (const Step& step : steps) step.primitive.execute(stream(), step.operands);
            stream().wait();
          }};
}

primitive_attr followed_by(algorithm activation) {
  dnnl::post_ops ops;
  ops.append_eltwise(1, activation, 0, 0);
  primitive_attr attr;
  attr.set_post_ops(ops);
  return attr;
}

Step eltwise(algorithm function, const memory& from, const memory& to) {
  const dnnl::eltwise_forward::desc op(prop_kind::forward_inference, function, from.get_desc(), 0, 0);
  return {dnnl::eltwise_forward({op, engine()}), {{DNNL_ARG_SRC, from}, {DNNL_ARG_DST, to}}};
}

Step add(const memory& a, const memory& b, const memory& to, const primitive_attr& attr = {}) {
  const dnnl::binary::desc op(algorithm::binary_add, a.get_desc(), b.get_desc(), to.get_desc());
  return {dnnl::binary({op, attr, engine()}), {{DNNL_ARG_SRC_0, a}, {DNNL_ARG_SRC_1, b}, {DNNL_ARG_DST, to}}};
}

Step layer_norm(const memory& from, const memory& to, int64_t cols) {
  using Flags = dnnl::normalization_flags;
  const dnnl::layer_normalization_forward::desc op(prop_kind::forward_inference, from.get_desc(), 1e-5f,
                                                   Flags::use_scale | Flags::use_shift);
  return {dnnl::layer_normalization_forward({op, engine()}),
          {{DNNL_ARG_SRC, from},
           {DNNL_ARG_SCALE, random(flat(cols))},
           {DNNL_ARG_SHIFT, random(flat(cols))},
           {DNNL_ARG_DST, to}}};
}

std::vector<Peer> vector_add(const Shape& s) {
  return {peer("onednn", {add(random(flat(s[0])), random(flat(s[0])), random(flat(s[0])))})};
}

std::vector<Peer> gelu(const Shape& s) {
  return {peer("onednn", {eltwise(algorithm::eltwise_gelu_erf, random(flat(s[0])), random(flat(s[0])))})};
}

std::vector<Peer> bias_gelu(const Shape& s) {
  const memory x = random(matrix(s[0], s[1])), bias = random(matrix(1, s[1])), y = random(matrix(s[0], s[1]));
  return {peer("onednn", {add(x, bias, y), eltwise(algorithm::eltwise_gelu_tanh, y, y)}),
          peer("onednn fused", {add(x, bias, y, followed_by(algorithm::eltwise_gelu_tanh))})};
}

std::vector<Peer> softmax(const Shape& s) {
  const memory x = random(matrix(s[0], s[1])), y = random(matrix(s[0], s[1]));
  const dnnl::softmax_forward::desc op(prop_kind::forward_inference, x.get_desc(), 1);
  return {peer("onednn", {{dnnl::softmax_forward({op, engine()}), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}}}})};
}

std::vector<Peer> log_softmax(const Shape& s) {
  const memory x = random(matrix(s[0], s[1])), y = random(matrix(s[0], s[1]));
  const dnnl::logsoftmax_forward::desc op(prop_kind::forward_inference, x.get_desc(), 1);
  return {peer("onednn", {{dnnl::logsoftmax_forward({op, engine()}), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}}}})};
}

std::vector<Peer> layer_norm_rows(const Shape& s) {
  return {peer("onednn", {layer_norm(random(matrix(s[0], s[1])), random(matrix(s[0], s[1])), s[1])})};
}

std::vector<Peer> residual_layer_norm(const Shape& s) {
  const memory x = random(matrix(s[0], s[1])), y = random(matrix(s[0], s[1])), sum = random(matrix(s[0], s[1]));
  return {peer("onednn", {add(x, y, sum), layer_norm(sum, y, s[1])})};
}

std::vector<Peer> sum_to(const Shape& s, int64_t rows, int64_t cols) {
  const memory x = random(matrix(s[0], s[1])), y = random(matrix(rows, cols));
  const dnnl::reduction::desc op(algorithm::reduction_sum, x.get_desc(), y.get_desc(), 0, 0);
  return {peer("onednn", {{dnnl::reduction({op, engine()}), {{DNNL_ARG_SRC, x}, {DNNL_ARG_DST, y}}}})};
}
std::vector<Peer> row_sum(const Shape& s) { return sum_to(s, s[0], 1); }
std::vector<Peer> column_sum(const Shape& s) { return sum_to(s, 1, s[1]); }

std::vector<Peer> transpose(const Shape& s) {
  const memory x = random(matrix(s[0], s[1])), y = random(desc({s[0], s[1]}, Tag::ba));
  return {peer("onednn", {{dnnl::reorder(x, y), {{DNNL_ARG_FROM, x}, {DNNL_ARG_TO, y}}}})};
}

// C = A·B, plain layouts, + bias and activation. `packed`: B in the layout that oneDNN likes, ahead of time.
std::vector<Peer> layer(const Shape& s, algorithm activation, bool packed = false) {
  const memory a = random(matrix(s[0], s[2])), bias = random(matrix(1, s[1])), c = random(matrix(s[0], s[1]));
  const dnnl::matmul::desc op(a.get_desc(), desc({s[2], s[1]}, packed ? Tag::any : Tag::ab), bias.get_desc(),
                              c.get_desc());
  const dnnl::matmul::primitive_desc plan(op, followed_by(activation), engine());
  const memory b = random(plan.weights_desc());
  return {peer("onednn", {{dnnl::matmul(plan),
                           {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_BIAS, bias}, {DNNL_ARG_DST, c}}}})};
}
std::vector<Peer> layer_relu(const Shape& s) { return layer(s, algorithm::eltwise_relu); }
std::vector<Peer> layer_gelu(const Shape& s) { return layer(s, algorithm::eltwise_gelu_tanh); }
std::vector<Peer> layer_gelu_packed(const Shape& s) { return layer(s, algorithm::eltwise_gelu_tanh, true); }

std::vector<Peer> batched_matmul(const Shape& s) {
  const memory a = random(desc({s[0], s[1], s[3]}, Tag::abc)), b = random(desc({s[0], s[3], s[2]}, Tag::abc)),
               c = random(desc({s[0], s[1], s[2]}, Tag::abc));
  const dnnl::matmul::desc op(a.get_desc(), b.get_desc(), c.get_desc());
  return {
      peer("onednn", {{dnnl::matmul({op, engine()}), {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}}}})};
}

// Images and results channels last; the weights in the layout that oneDNN likes, ahead of time. `more` is done to the
// sums, with a bias before that; a sum among it adds what y held.
std::vector<Peer> convolution(const Shape& s, Type type, const dnnl::post_ops* more = nullptr) {
  const int64_t n = s[0], size = s[1], c = s[2], k = s[3], filter = s[4], stride = s[5], pad = filter / 2;
  const int64_t out = (size + 2 * pad - filter) / stride + 1, groups = s.size() > 6 ? s[6] : 1;
  const memory x = random(desc({n, c, size, size}, Tag::nhwc, type)),
               y = random(desc({n, k, out, out}, Tag::nhwc, type));
  Shape weights = {k / groups, c / groups, filter, filter};
  if (groups > 1) weights.insert(weights.begin(), groups);
  using Forward = dnnl::convolution_forward;
  const memory bias = random(desc({k}, Tag::a, type));
  const Forward::desc op =
      more ? Forward::desc(prop_kind::forward_inference, algorithm::convolution_auto, x.get_desc(),
                           desc(weights, Tag::any, type), bias.get_desc(), y.get_desc(), {stride, stride}, {pad, pad},
                           {pad, pad})
           : Forward::desc(prop_kind::forward_inference, algorithm::convolution_auto, x.get_desc(),
                           desc(weights, Tag::any, type), y.get_desc(), {stride, stride}, {pad, pad}, {pad, pad});
  dnnl::primitive_attr attributes;
  if (more) attributes.set_post_ops(*more);
  const Forward::primitive_desc plan(op, attributes, engine());
  std::unordered_map<int, memory> arguments = {
      {DNNL_ARG_SRC, x}, {DNNL_ARG_WEIGHTS, random(plan.weights_desc())}, {DNNL_ARG_DST, y}};
  if (more) arguments.insert({DNNL_ARG_BIAS, bias});
  return {peer("onednn", {{Forward(plan), arguments}})};
}

std::vector<Peer> conv2d(const Shape& s) { return convolution(s, Type::f32); }
std::vector<Peer> conv2d_bf16(const Shape& s) { return convolution(s, Type::bf16); }
std::vector<Peer> conv2d_relu(const Shape& s) {
  dnnl::post_ops more;
  more.append_eltwise(1, algorithm::eltwise_relu, 0, 0);
  return convolution(s, Type::f32, &more);
}
std::vector<Peer> conv2d_residual_relu(const Shape& s) {
  dnnl::post_ops more;
  more.append_sum(1);
  more.append_eltwise(1, algorithm::eltwise_relu, 0, 0);
  return convolution(s, Type::f32, &more);
}

}  // namespace

std::vector<Peer> onednn_peers(const quickstart::Case& test) {
  static const std::map<std::string, std::vector<Peer> (*)(const Shape&)> makers = {
      {"vector_add", vector_add},
      {"gelu", gelu},
      {"bias_gelu", bias_gelu},
      {"softmax", softmax},
      {"softmax_long", softmax},
      {"log_softmax", log_softmax},
      {"softmax_narrow", softmax},
      {"layer_norm", layer_norm_rows},
      {"layer_norm_narrow", layer_norm_rows},
      {"layer_norm_long", layer_norm_rows},
      {"residual_layer_norm", residual_layer_norm},
      {"row_sum", row_sum},
      {"column_sum", column_sum},
      {"transpose", transpose},
      {"matmul_bias_relu", layer_relu},
      {"matmul_bias_act", layer_gelu},
      {"matmul_bias_act_packed", layer_gelu_packed},
      {"batched_matmul", batched_matmul},
      {"conv2d", conv2d},
      {"conv2d bf16", conv2d_bf16},
      {"conv2d_bias_relu", conv2d_relu},
      {"conv2d_bias_residual_relu", conv2d_residual_relu},
      {"conv2d_depthwise", conv2d},
      {"conv2d_grouped", conv2d},
      {"conv2d_narrow", conv2d},
      {"conv2d_packed", conv2d},
  };
  const bool bf16 = test.shape.ends_with(" bf16");
  const auto maker = makers.find(test.kernel + (bf16 ? " bf16" : ""));
  if (maker == makers.end()) return {};
  try {
    return maker->second(numbers_in(test.shape));
  } catch (const dnnl::error& failure) {
    std::printf("# SKIPPED oneDNN for %s %s: %s\n", test.kernel.c_str(), test.shape.c_str(), failure.what());
    return {};
  }
}

std::string onednn_version() {
  const dnnl_version_t* version = dnnl_version();
  return "oneDNN " + std::to_string(version->major) + "." + std::to_string(version->minor) + "." +
         std::to_string(version->patch);
}

}  // namespace kiln::bench

#else

namespace kiln::bench {

std::vector<Peer> onednn_peers(const quickstart::Case&) { return {}; }
std::string onednn_version() { return "no oneDNN: no headers of its version 2 when this was built"; }

}  // namespace kiln::bench

#endif

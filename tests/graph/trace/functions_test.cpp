// Each function of tensors with the nodes that it makes: golden lines. And all of them make all ops of the table.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "trace/lines.h"

namespace kiln::graph {
namespace {

using ::testing::ElementsAre;

const Dim n = dim("n", 1, 1024);

Result<dsl::Kernel> scale_kernel() {
  namespace lang = dsl::lang;
  return lang::kernel("scale", {"x", "y", "n", "BLOCK=256"},
                      [](lang::Ptr<const lang::f32> x, lang::Ptr<lang::f32> y, lang::i32 count, lang::Const BLOCK) {
                        lang::grid(lang::cdiv(count, BLOCK));
                        const lang::Value start = lang::program_id(0) * BLOCK;
                        const lang::Value part = lang::tile(x, {count}).load({start}, {BLOCK});
                        lang::tile(y, {count}).store({start}, part * 2);
                      })
      .ir();
}

// x: f32[n, 4], w: f32[8, 4], ids: i32[n], seed: i64[], image: f32[n, 4, 8, 8], filter: f32[8, 4, 3, 3],
// heads: f32[2, 4, n, 8].
struct In {
  Tensor x, w, ids, seed, image, filter, heads;
};
struct Row {
  const char* text;
  Tensor (*function)(const In&);
};
#define KILN_ROW(...)                                                           \
  {#__VA_ARGS__, []([[maybe_unused]] const In& in) -> Tensor {                  \
     [[maybe_unused]] const auto& [x, w, ids, seed, image, filter, heads] = in; \
     return __VA_ARGS__;                                                        \
   }}
// clang-format off
const Row kRows[] = {
    // make
    KILN_ROW(full({n, 2}, 1.5, f32)),
    KILN_ROW(full({n}, sum(x), f16)),
    KILN_ROW(zeros(i32, {3})),
    KILN_ROW(ones_like(x)),
    KILN_ROW(zeros_like(ids)),
    KILN_ROW(constant(bf16, {2}, {1, -2})),
    KILN_ROW(extent(n * 2, f32)),
    KILN_ROW(iota(i32, {n, 4}, -1)),
    KILN_ROW(arange(n)),
    KILN_ROW(philox(1, 2, {n})),
    KILN_ROW(uniform(seed, seed, {n})),
    KILN_ROW(normal(1, seed, {n, 2})),
    // arithmetic
    KILN_ROW(x + x),
    KILN_ROW(x - 1),
    KILN_ROW(2 * x),
    KILN_ROW(x / x),
    KILN_ROW(ids % 3),
    KILN_ROW(mulhi(ids, ids)),
    KILN_ROW(fma(x, x, 1)),
    KILN_ROW(min(x, 0)),
    KILN_ROW(max(x, x)),
    KILN_ROW(-x),
    KILN_ROW(abs(x)),
    KILN_ROW(sign(x)),
    KILN_ROW(square(x)),
    KILN_ROW(reciprocal(x)),
    KILN_ROW(ids & 1),
    KILN_ROW(ids | ids),
    KILN_ROW(ids ^ ids),
    KILN_ROW(~(x > 0)),
    KILN_ROW(ids << 2),
    KILN_ROW(ids >> ids),
    KILN_ROW(x == x),
    KILN_ROW(x != 0),
    KILN_ROW(x < x),
    KILN_ROW(x <= x),
    KILN_ROW(x > x),
    KILN_ROW(x >= x),
    KILN_ROW(where(x > 0, x, 0)),
    // functions of floats
    KILN_ROW(exp(x)),
    KILN_ROW(exp2(x)),
    KILN_ROW(expm1(x)),
    KILN_ROW(log(x)),
    KILN_ROW(log2(x)),
    KILN_ROW(log10(x)),
    KILN_ROW(log1p(x)),
    KILN_ROW(sin(x)),
    KILN_ROW(cos(x)),
    KILN_ROW(tan(x)),
    KILN_ROW(asin(x)),
    KILN_ROW(acos(x)),
    KILN_ROW(atan(x)),
    KILN_ROW(atan2(x, x)),
    KILN_ROW(sinh(x)),
    KILN_ROW(cosh(x)),
    KILN_ROW(tanh(x)),
    KILN_ROW(erf(x)),
    KILN_ROW(erfc(x)),
    KILN_ROW(sqrt(x)),
    KILN_ROW(rsqrt(ids)),
    KILN_ROW(pow(x, 2)),
    KILN_ROW(hypot(x, x)),
    KILN_ROW(copysign(x, x)),
    KILN_ROW(floor(x)),
    KILN_ROW(ceil(x)),
    KILN_ROW(round(x)),
    KILN_ROW(trunc(x)),
    KILN_ROW(signbit(x)),
    KILN_ROW(isnan(x)),
    KILN_ROW(isinf(x)),
    // convert
    KILN_ROW(cast(x, f16)),
    KILN_ROW(cast(x, f32)),
    KILN_ROW(bitcast(x, i32)),
    KILN_ROW(stop_gradient(x)),
    // views
    KILN_ROW(reshape(x, {2, -1})),
    KILN_ROW(flatten(x)),
    KILN_ROW(flatten(image, 1)),
    KILN_ROW(permute(image, {0, 2, -1, 1})),
    KILN_ROW(transpose(x)),
    KILN_ROW(transpose(image, 1, -1)),
    KILN_ROW(broadcast_to(w, {n, 8, 4})),
    KILN_ROW(expand_dims(x, -1)),
    KILN_ROW(squeeze(expand_dims(x, 0), {0})),
    KILN_ROW(slice(x, 1, 0, 4, 2)),
    KILN_ROW(reverse(x, {1})),
    KILN_ROW(reverse(x, {})),
    KILN_ROW(pad(x, {0, 1}, {0, 2})),
    KILN_ROW(pad(x, {1, 0}, {0, 0}, 0.5, {0, 1})),
    KILN_ROW(cat({x, x}, 1)),
    KILN_ROW(cat({x, cast(x, f64)}, 0)),
    KILN_ROW(stack({x, x}, -1)),
    KILN_ROW(split(x, 2, 1)[1]),
    KILN_ROW(repeat(w, {2})),
    // index
    KILN_ROW(gather(x, cast(x, i32), 0)),
    KILN_ROW(take(x, ids, 1)),
    KILN_ROW(take(x, ids, 0)),
    KILN_ROW(scatter(x, cast(x, i64), 1, 0, ScatterKind::kAdd)),
    KILN_ROW(index(x, {ids, ids}, {0, 1})),
    KILN_ROW(index_put(x, {ids}, {0}, 0.5)),
    KILN_ROW(index_put(x, {ids}, {1}, 1, ScatterKind::kMax)),
    KILN_ROW(one_hot(ids, 10)),
    // reduce, scan, order
    KILN_ROW(reduce(x, ReduceKind::kMin, {-1}, true)),
    KILN_ROW(sum(x)),
    KILN_ROW(sum(x > 0, {1})),
    KILN_ROW(prod(x, {0})),
    KILN_ROW(reduce_max(x, {0, 1})),
    KILN_ROW(reduce_min(x, {1})),
    KILN_ROW(any(x > 0)),
    KILN_ROW(every(ids)),
    KILN_ROW(argmax(x, -1)),
    KILN_ROW(argmin(x, 0, true)),
    KILN_ROW(mean(x, {0})),
    KILN_ROW(mean(ids)),
    KILN_ROW(variance(x, {-1}, 1, true)),
    KILN_ROW(logsumexp(x, {1})),
    KILN_ROW(scan(x, ReduceKind::kProd, 0, true, true)),
    KILN_ROW(cumsum(x, -1)),
    KILN_ROW(sort(x, 0, true).second),
    KILN_ROW(topk(x, 2, -1).first),
    KILN_ROW(histogram(ids, 16)),
    // contract
    KILN_ROW(dot(x, w, {{}, {}, {1}, {-1}})),
    KILN_ROW(dot(ids, ids, {{}, {}, {0}, {0}})),
    KILN_ROW(dot(cast(x, bf16), cast(w, bf16), {{}, {}, {1}, {1}}, f32, Precision::kTf32)),
    KILN_ROW(matmul(x, transpose(w))),
    KILN_ROW(matmul(w(0), transpose(w))),
    KILN_ROW(matmul(x, w(0))),
    KILN_ROW(matmul(w(0), w(1))),
    KILN_ROW(matmul(x, zeros(f32, {5, 4, 3}))),
    KILN_ROW(matmul(zeros(f32, {6, 1, 2, 4}), zeros(f32, {5, 4, 3}))),
    KILN_ROW(matmul(w(0), zeros(f32, {5, 4, 3}))),
    KILN_ROW(linear(x, w)),
    KILN_ROW(linear(x, w, zeros(f32, {8}))),
    KILN_ROW(conv(image, filter)),
    KILN_ROW(conv(image, filter, zeros(f32, {8}), {.strides = {2, 1}, .low = {1, 1}, .high = {1, 1}})),
    KILN_ROW(conv(image, ones(f32, {4, 1, 3, 3}), {.groups = 4})),
    KILN_ROW(conv_transposed(image, ones(f32, {4, 2, 3, 3}), {.strides = {2, 2}, .low = {1, 1}, .high = {1, 1}}, {1, 1})),
    KILN_ROW(conv_input(ones(f32, {n, 8, 6, 6}), filter, {8, 8})),
    KILN_ROW(conv_weight(image, ones(f32, {n, 8, 6, 6}), {3, 3})),
    KILN_ROW(window(x, WindowKind::kSum, {.size = {1, 2}})),
    KILN_ROW(window_spread(x, ones(f32, {n, 2}), WindowKind::kMax, {.size = {1, 2}})),
    KILN_ROW(window_pick(x, x, PickKind::kMin, {.size = {1, 2}})),
    KILN_ROW(max_pool(image, {.size = {2, 2}})),
    KILN_ROW(avg_pool(image, {.size = {3, 3}, .strides = {1, 1}, .low = {1, 1}, .high = {1, 1}}, false)),
    KILN_ROW(resize(image, {16, 16}, ResizeMode::kLinear, true)),
    KILN_ROW(resize_spread(image, {4, 4}, ResizeMode::kNearest)),
    // layers
    KILN_ROW(relu(x)),
    KILN_ROW(relu(ids)),
    KILN_ROW(leaky_relu(x)),
    KILN_ROW(elu(x, 0.5)),
    KILN_ROW(clamp(x, 0, 6)),
    KILN_ROW(clamp(ids, 0, 6)),
    KILN_ROW(sigmoid(x)),
    KILN_ROW(silu(x)),
    KILN_ROW(gelu(x)),
    KILN_ROW(gelu(x, GeluKind::kTanh)),
    KILN_ROW(softplus(x)),
    KILN_ROW(mish(x)),
    KILN_ROW(hard_sigmoid(x)),
    KILN_ROW(hard_swish(x)),
    KILN_ROW(softmax(x)),
    KILN_ROW(log_softmax(x, 0)),
    KILN_ROW(layer_norm(x, w(0))),
    KILN_ROW(layer_norm(x, {}, {}, 1e-6, 2)),
    KILN_ROW(rms_norm(x, w(0))),
    KILN_ROW(group_norm(image, 2)),
    KILN_ROW(batch_norm(image, w(0), w(1))),
    KILN_ROW(batch_norm_training(image, w(0), w(1), w(2), w(3)).mean),
    KILN_ROW(embedding(w, ids)),
    KILN_ROW(embedding_bag(w, ids, arange(5))),
    KILN_ROW(attention(heads, heads, heads)),
    KILN_ROW(attention(heads, heads, heads, {.causal = true, .window = 16}, tril(ones(f32, {n, n})) > 0)),
    KILN_ROW(paged_attention(zeros(f32, {2, 4, 8}), zeros(f32, {9, 2, 16, 8}), zeros(f32, {9, 2, 16, 8}), zeros(i32, {2, 3}), zeros(i32, {2}))),
    KILN_ROW(cross_entropy(x, ids)),
    KILN_ROW(rope(heads, zeros(f32, {n, 4}), zeros(f32, {n, 4}))),
    KILN_ROW(dropout(x, 0.1, seed, 0)),
    KILN_ROW(interaction(x, ones(f32, {n, 3, 4}))),
    KILN_ROW(tril(heads)),
    KILN_ROW(triu(heads, 1)),
    KILN_ROW(quantise(x, 0.05)),
    KILN_ROW(quantise(x, abs(w(0)), zeros(i8, {4}))),
    KILN_ROW(dequantise(cast(x, i8), 0.05, 3)),
    // optimiser steps
    KILN_ROW(sgd_step(x, x, 0.1)),
    KILN_ROW(momentum_step(x, x, x, 0.1, {.nesterov = true}).buffer),
    KILN_ROW(adam_step(x, x, x, x, 0.001, 1, {.weight_decay = 0.01, .decoupled = true}).param),
    KILN_ROW(adam_step(cast(x, bf16), x, x, x, 0.001, seed).v),
    KILN_ROW(adagrad_step(x, x, x, 0.1).param),
    KILN_ROW(lamb_step(x, x, x, x, 0.001, 3).m),
    // bodies
    KILN_ROW(loop(n, {w}, {x}, [](Tensors c, Tensors s) { return LoopStep{{c[0] + s[0]}, {sum(c[0])}}; }).stacked[0]),
    KILN_ROW(cond(sum(x) > 0, [&] { return x; }, [&] { return x * 2; })),
    KILN_ROW(call("twice", {x}, [](Tensors a) { return Tensors{a[0] * 2}; })[0]),
    KILN_ROW(checkpoint({x}, [](Tensors a) { return Tensors{exp(a[0])}; })[0]),
    KILN_ROW(reduce({x, x}, {sum(x), sum(x)}, {-1}, [](Tensors l, Tensors r) { return Tensors{max(l[0], r[0]), l[1] + r[1]}; })[1]),
    KILN_ROW(scan({x}, 0, [](Tensors l, Tensors r) { return Tensors{l[0] * r[0]}; })[0]),
    KILN_ROW(kernel(scale_kernel(), {KernelArgument::in(x), KernelArgument::out(f32, {n, 4}), KernelArgument::number(n * 4)})[0]),
};
// clang-format on

GraphDef make(const Row& row) {
  return graph(
      "g",
      {input("x", f32, {n, 4}), input("w", f32, {8, 4}), input("ids", i32, {n}), input("seed", i64, {}),
       input("image", f32, {n, 4, 8, 8}), input("filter", f32, {8, 4, 3, 3}), input("heads", f32, {2, 4, n, 8})},
      [&](Tensors in) { return row.function({in[0], in[1], in[2], in[3], in[4], in[5], in[6]}); });
}

std::string golden_text() {
  std::string out;
  for (const Row& row : kRows) {
    const auto def = make(row);
    out += std::string(row.text) + "\n";
    for (const std::string& line : node_lines(def)) out += "  " + line + "\n";
    for (size_t i = 1; def.ir() && i < def.ir()->bodies.size(); ++i) {
      out += "  @" + def.ir()->bodies[i].name + "\n";
      for (const std::string& line : node_lines(*def.ir(), def.ir()->bodies[i])) out += "    " + line + "\n";
    }
  }
  return out;
}

// KILN_UPDATE_GOLDEN=1 writes the file anew.
TEST(Functions, MakeTheseNodes) {
  const std::string path = KILN_SOURCE_DIR "/tests/graph/trace/functions.golden";
  const std::string now = golden_text();
  if (std::getenv("KILN_UPDATE_GOLDEN")) std::ofstream(path) << now;
  std::ifstream file(path);
  const std::string before((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(now, before);
}

TEST(Functions, MakeSoundGraphs) {
  for (const Row& row : kRows) EXPECT_EQ(error_text(make(row)), "") << row.text;
}

TEST(Functions, MakeEveryOpOfTheTable) {
  std::set<TensorOp> made;
  for (const Row& row : kRows) {
    const auto def = make(row);
    ASSERT_TRUE(def.ir().ok()) << row.text;
    for (const Body& body : def.ir()->bodies) {
      for (const Node& node : body.nodes) made.insert(node.op);
    }
  }
  for (const OpInfo& op : op_table()) EXPECT_TRUE(made.contains(op.op)) << "no function makes " << op.name;
}

// A node that is there already is not made again.
TEST(Functions, EqualNodesAreOne) {
  const auto def = graph("g", {input("x", f32, {n})}, [](Tensor x) {
    const Tensor a = exp(x), b = exp(x);
    EXPECT_EQ(a.id(), b.id());
    const Tensor c = exp(x * 1);
    return a * b + c;
  });
  EXPECT_THAT(node_lines(def), ElementsAre("exp f32[n] -> f32[n]", "full {type=f32, shape=[n], value=1} -> f32[n]",
                                           "mul f32[n], f32[n] -> f32[n]", "exp f32[n] -> f32[n]",
                                           "mul f32[n], f32[n] -> f32[n]", "add f32[n], f32[n] -> f32[n]"));
}

}  // namespace
}  // namespace kiln::graph

// attention and its gradient against softmax(q·kᵀ)·v with all scores at hand.
#include "check.h"
#include "cuda_device.h"
#include "sampled.h"

namespace kiln::test {
namespace {

using Reals = std::vector<double>;

struct Attention {
  int64_t batch, heads, kv_heads, seq, width;
  bool causal;
  std::vector<int32_t> lengths;
  int64_t window = 0;
  int64_t together = 0;

  size_t rows() const { return static_cast<size_t>(batch * heads * seq); }
  size_t count() const { return rows() * static_cast<size_t>(width); }
  size_t kv_count() const { return static_cast<size_t>(batch * kv_heads * seq * width); }
  float scale() const { return static_cast<float>(1 / std::sqrt(static_cast<double>(width))); }
};

double inner(const Reals& x, size_t at, const Reals& y, size_t from, int64_t width) {
  double sum = 0;
  for (size_t l = 0; l < static_cast<size_t>(width); ++l) sum += x[at + l] * y[from + l];
  return sum;
}

// One query: where its row and its sequence's keys lie, and the weights of the keys from `begin` on.
struct Query {
  size_t at, keys;
  int64_t begin;
  Reals weights;
  double lse;
};

// f(query, row) for each row inside of its sequence.
template <class F>
void for_each_query(const Attention& a, const Reals& q, const Reals& k, F f) {
  for (size_t i = 0; i < a.rows(); ++i) {
    const auto index = static_cast<int64_t>(i);
    const int64_t row = index % a.seq, head = index / a.seq % a.heads, b = index / a.seq / a.heads;
    const int64_t length = a.lengths[static_cast<size_t>(b)];
    if (row >= length) continue;
    const int64_t from = (b * a.kv_heads + head / (a.heads / a.kv_heads)) * a.seq;
    Query out = {i * static_cast<size_t>(a.width), static_cast<size_t>(from * a.width), 0, {}, 0};
    if (a.window) out.begin = std::max<int64_t>(0, row - a.window + 1);
    const int64_t end = a.causal ? row + 1 : a.window ? std::min(length, row + a.window) : length;
    double top = -1e300, total = 0;
    for (int64_t j = out.begin; j < end; ++j) {
      const auto key = out.keys + static_cast<size_t>(j * a.width);
      out.weights.push_back(inner(q, out.at, k, key, a.width) * static_cast<double>(a.scale()));
      top = std::max(top, out.weights.back());
    }
    for (const double weight : out.weights) total += std::exp(weight - top);
    out.lse = top + std::log(total);
    for (double& weight : out.weights) weight = std::exp(weight - out.lse);
    f(out, i);
  }
}

struct Attended {
  Reals out, lse;
};
Attended attend(const Attention& a, const Reals& q, const Reals& k, const Reals& v) {
  Attended result = {Reals(a.count()), Reals(a.rows())};
  const auto d = static_cast<size_t>(a.width);
  for_each_query(a, q, k, [&](const Query& query, size_t row) {
    result.lse[row] = query.lse;
    size_t value = query.keys + static_cast<size_t>(query.begin) * d;
    for (const double weight : query.weights) {
      for (size_t l = 0; l < d; ++l) result.out[query.at + l] += weight * v[value + l];
      value += d;
    }
  });
  return result;
}

struct Gradient {
  Reals dq, dk, dv;
};
Gradient gradient(const Attention& a, const Reals& q, const Reals& k, const Reals& v, const Reals& out,
                  const Reals& dout) {
  Gradient result = {Reals(a.count()), Reals(a.kv_count()), Reals(a.kv_count())};
  const auto d = static_cast<size_t>(a.width);
  for_each_query(a, q, k, [&](const Query& query, size_t) {
    const double delta = inner(out, query.at, dout, query.at, a.width);
    size_t key = query.keys + static_cast<size_t>(query.begin) * d;
    for (const double weight : query.weights) {
      const double slope = weight * (inner(dout, query.at, v, key, a.width) - delta) * static_cast<double>(a.scale());
      for (size_t l = 0; l < d; ++l) {
        result.dv[key + l] += weight * dout[query.at + l];
        result.dk[key + l] += slope * q[query.at + l];
        result.dq[query.at + l] += slope * k[key + l];
      }
      key += d;
    }
  });
  return result;
}

// The CPU's tiles of f32 do not fit in a GPU's shared memory: there the kernel's own are taken.
dsl::ConstexprValues config_of(const Attention& a, bool wide, int64_t bm, int64_t bn) {
  dsl::ConstexprValues out = {{"D", a.width}, {"CAUSAL", a.causal}, {"WINDOW", a.window}};
  if (!wide || !on_cuda()) out.merge(dsl::ConstexprValues{{"BM", bm}, {"BN", bn}});
  return out;
}

// The config of the forward pass, whose blocks have an order.
dsl::ConstexprValues forward_config(const Attention& a, bool wide, int64_t bm, int64_t bn) {
  dsl::ConstexprValues out = config_of(a, wide, bm, bn);
  out["TOGETHER"] = a.together;
  return out;
}

Arguments with_sizes(const Attention& a, Arguments arrays) {
  arrays.push_back(buffer(a.lengths));
  for (const int64_t size : {a.batch, a.heads, a.kv_heads, a.seq}) arrays.push_back(int_of(size));
  arrays.push_back(float_of(a.scale()));
  return arrays;
}

// Of [batch, heads, seq, width], with any number of heads: rows behind a sequence's end are 0.
template <class T>
void expect_rows(const Attention& a, const TestArgument& out, const Reals& expected, size_t depth) {
  expect_product<T>(out, expected, depth);
  const Reals result = reals<T>(out);
  const size_t sequence = result.size() / a.lengths.size();
  size_t left = 0;
  for (size_t i = 0; i < result.size(); ++i) {
    const auto row = static_cast<int64_t>(i) / a.width % a.seq;
    left += row >= a.lengths[i / sequence] && result[i] != 0;
  }
  EXPECT_EQ(left, 0u);
}

template <class T, class Run>
void check_attention(const Attention& a, int64_t bm, int64_t bn, Run run) {
  const auto q = normals_of<T>(a.count(), 1), k = normals_of<T>(a.kv_count(), 2), v = normals_of<T>(a.kv_count(), 3);
  const Attended expected = attend(a, reals(q), reals(k), reals(v));
  run(kernels::attention<T>().ir(), forward_config(a, std::is_same_v<T, lang::f32> && a.width >= 64, bm, bn),
      with_sizes(a, {buffer(q), buffer(k), buffer(v), empty<Memory<T>>(a.count())}),
      [&](const Arguments& out) { expect_rows<T>(a, out[3], expected.out, static_cast<size_t>(a.seq)); });
}

struct InBlocks {
  Attention a;
  int64_t bm, bn;
};

TEST(AttentionKernel, CausalRaggedAndGrouped) {
  for_floats([]<class T>() {
    for (bool causal : {false, true}) {
      for (const auto& [a, bm, bn] : {InBlocks{{2, 2, 1, 21, 6, causal, {21, 9}}, 8, 4},
                                      {{1, 4, 2, 16, 8, causal, {16}}, 8, 8},
                                      {{3, 1, 1, 5, 3, causal, {0, 1, 5}}, 2, 16}}) {
        if (is_sampled(4)) check_attention<T>(a, bm, bn, check_both);
      }
    }
  });
}

// Windows below, of and above a block's width, and above the sequence's.
TEST(AttentionKernel, Windows) {
  for_floats([]<class T>() {
    for (bool causal : {false, true}) {
      for (const auto& [a, bm, bn] : {InBlocks{{2, 2, 1, 37, 6, causal, {37, 18}, 3}, 8, 4},
                                      {{1, 1, 1, 33, 8, causal, {33}, 8}, 4, 8},
                                      {{2, 1, 1, 30, 4, causal, {30, 0}, 13}, 8, 4},
                                      {{1, 1, 1, 9, 4, causal, {9}, 100}, 4, 4}}) {
        if (is_sampled(3)) check_attention<T>(a, bm, bn, check_both);
      }
    }
  });
  check_attention<lang::bf16>({1, 1, 1, 21, 8, true, {21}, 1}, 8, 4, check_both);
}

// All heads, two of three, and one at a time.
TEST(AttentionKernel, CausalBlocksOfHeadsTogether) {
  check_attention<lang::bf16>({2, 4, 2, 21, 6, true, {21, 9}, 0, 1}, 8, 4, check_both);
  check_attention<lang::f32>({1, 3, 3, 500, 128, true, {500}, 0, 1}, 64, 128, check_compiled);
  check_attention<lang::f32>({1, 2, 1, 700, 128, true, {650}, 0, 1}, 64, 128, check_compiled);
}

TEST(AttentionKernel, RealShapes) {
  check_attention<lang::f32>({1, 2, 2, 512, 64, false, {512}}, 64, 128, check_compiled);
  check_attention<lang::f32>({2, 2, 1, 300, 128, true, {300, 177}}, 64, 128, check_compiled);
  check_attention<lang::bf16>({1, 1, 1, 256, 64, true, {256}}, 64, 64, check_compiled);
  check_attention<lang::bf16>({1, 1, 1, 384, 64, true, {370}, 100}, 64, 64, check_compiled);
  if (!full()) return;
  for (int32_t seq : {512, 1024, 4096}) {
    for (int64_t width : {64, 128}) {
      for (bool causal : {false, true}) {
        check_attention<lang::f32>({2, 2, 1, seq, width, causal, {seq, seq - 333}}, 64, 128, check_compiled);
      }
    }
  }
}

// Heads that are no power of two wide, and those whose blocks of keys and values take most of a GPU's shared memory.
TEST(AttentionKernel, WideHeads) {
  for (const bool causal : {false, true}) {
    check_attention<lang::bf16>({1, 2, 2, 70, 96, causal, {70}}, 64, 32, check_compiled);
    check_attention<lang::bf16>({2, 4, 2, 70, 256, causal, {70, 37}}, 64, 32, check_compiled);
  }
  check_attention<lang::bf16>({2, 2, 1, 90, 96, true, {90, 11}, 40}, 32, 32, check_compiled);
  check_attention<lang::f16>({1, 2, 1, 40, 256, true, {33}}, 32, 16, check_compiled);
  if (!full()) return;
  for (const int64_t width : {96, 256}) {
    for (const bool causal : {false, true}) {
      check_attention<lang::bf16>({2, 4, 2, 1024, width, causal, {1024, 691}}, 64, 64, check_compiled);
    }
  }
}

// ---- f8 ----

// v as the kernel takes it, keys the fastest axis.
template <class M>
std::vector<M> keys_last(const Attention& a, const std::vector<M>& v) {
  std::vector<M> out(v.size());
  const auto seq = static_cast<size_t>(a.seq), width = static_cast<size_t>(a.width);
  for (size_t i = 0; i < v.size(); ++i) {
    const size_t column = i % width, key = i / width % seq, head = i / (width * seq);
    out[(head * width + column) * seq + key] = v[i];
  }
  return out;
}

Reals scaled(const Reals& x, const std::vector<float>& scales) {
  Reals out = x;
  for (size_t i = 0; i < x.size(); ++i) out[i] *= static_cast<double>(scales[i * scales.size() / x.size()]);
  return out;
}

// By head, from 2^-2 to 2.
std::vector<float> scales_of(int64_t heads, float first) {
  std::vector<float> out(static_cast<size_t>(heads));
  for (size_t i = 0; i < out.size(); ++i) out[i] = first * static_cast<float>(1 << i % 3);
  return out;
}

// A weight of e4m3 is up to 2^-4 of itself away from the right one, 2.6 % on average: so is a row whose values have
// random signs.
template <class Out, class Run>
void check_f8(const Attention& a, int64_t bm, int64_t bn, Run run) {
  using F8 = lang::f8e4m3;
  const auto q = normals_of<F8>(a.count(), 1), k = normals_of<F8>(a.kv_count(), 2), v = normals_of<F8>(a.kv_count(), 3);
  const auto q_scale = scales_of(a.batch * a.heads, 0.25F), k_scale = scales_of(a.batch * a.kv_heads, 0.5F),
             v_scale = scales_of(a.batch * a.kv_heads, 0.5F);
  const Attended expected = attend(a, scaled(reals(q), q_scale), scaled(reals(k), k_scale), scaled(reals(v), v_scale));
  run(kernels::attention_f8<Out>().ir(), forward_config(a, false, bm, bn),
      with_sizes(a, {buffer(q), buffer(k), buffer(keys_last(a, v)), buffer(q_scale), buffer(k_scale), buffer(v_scale),
                     empty<Memory<Out>>(a.count())}),
      [&](const Arguments& out) { expect_norm(reals<Out>(out[6]), expected.out, 4e-2); });
}

TEST(AttentionF8Kernel, CausalRaggedAndGrouped) {
  for_floats([]<class T>() {
    for (bool causal : {false, true}) {
      for (const auto& [a, bm, bn] : {InBlocks{{2, 2, 1, 21, 6, causal, {21, 9}}, 8, 4},
                                      {{1, 4, 2, 16, 8, causal, {16}}, 8, 8},
                                      {{3, 1, 1, 5, 3, causal, {0, 1, 5}}, 2, 16}}) {
        if (is_sampled(4)) check_f8<T>(a, bm, bn, check_both);
      }
    }
  });
  check_f8<lang::bf16>({1, 1, 1, 33, 8, true, {33}, 8}, 4, 8, check_both);
}

TEST(AttentionF8Kernel, RealShapes) {
  check_f8<lang::bf16>({1, 2, 1, 512, 128, false, {512}}, 128, 128, check_compiled);
  check_f8<lang::bf16>({2, 2, 1, 320, 64, true, {320, 177}}, 64, 64, check_compiled);
  check_f8<lang::f16>({1, 1, 1, 300, 128, true, {270}}, 64, 128, check_compiled);
  if (!full()) return;
  for (int64_t width : {64, 128, 256}) {
    for (bool causal : {false, true}) {
      check_f8<lang::bf16>({2, 4, 2, 1024, width, causal, {1024, 691}}, 128, 128, check_compiled);
      check_f8<lang::bf16>({1, 2, 1, 1024, width, causal, {1024}, 200}, 128, 64, check_compiled);
    }
  }
}

// ---- the gradient ----

std::vector<float> narrow(const Reals& values) { return {values.begin(), values.end()}; }

// Each kernel on what float64 says of the one before.
template <class T, class Run>
void check_gradient(const Attention& a, int64_t bm, int64_t bn, Run run) {
  const auto q = normals_of<T>(a.count(), 1), k = normals_of<T>(a.kv_count(), 2), v = normals_of<T>(a.kv_count(), 3),
             dout = normals_of<T>(a.count(), 4);
  const Attended forward = attend(a, reals(q), reals(k), reals(v));
  const Gradient expected = gradient(a, reals(q), reals(k), reals(v), forward.out, reals(dout));
  const auto config = config_of(a, false, bm, bn);
  const auto depth = 4 * static_cast<size_t>(a.seq);  // of products one after the other, errors add up
  run(kernels::attention_with_lse<T>().ir(), config,
      with_sizes(a, {buffer(q), buffer(k), buffer(v), empty<Memory<T>>(a.count()), empty<float>(a.rows())}),
      [&](const Arguments& out) {
        expect_rows<T>(a, out[3], forward.out, depth);
        expect_close<lang::f32>(out[4], forward.lse);
      });

  Reals delta(a.rows());
  const Reals slopes = reals(dout);
  for (size_t i = 0; i < delta.size(); ++i) {
    const size_t at = i * static_cast<size_t>(a.width);
    delta[i] = inner(forward.out, at, slopes, at, a.width);
  }
  const TestArgument lse = buffer(narrow(forward.lse)), deltas = buffer(narrow(delta));
  run(kernels::attention_backward_keys<T>().ir(), config,
      with_sizes(a, {buffer(q), buffer(k), buffer(v), buffer(dout), lse, deltas, empty<Memory<T>>(a.kv_count()),
                     empty<Memory<T>>(a.kv_count())}),
      [&](const Arguments& out) {
        expect_rows<T>(a, out[6], expected.dk, depth);
        expect_rows<T>(a, out[7], expected.dv, depth);
      });
  run(kernels::attention_backward_queries<T>().ir(), config,
      with_sizes(a, {buffer(q), buffer(k), buffer(v), buffer(dout), lse, deltas, empty<Memory<T>>(a.count())}),
      [&](const Arguments& out) { expect_rows<T>(a, out[6], expected.dq, depth); });
}

TEST(AttentionGradientKernels, CausalRaggedAndGrouped) {
  for_floats([]<class T>() { check_gradient<T>({2, 4, 2, 21, 6, true, {21, 9}}, 8, 4, check_both); });
  check_gradient<lang::f32>({1, 2, 1, 16, 8, false, {16}}, 4, 8, check_both);
  check_gradient<lang::bf16>({3, 1, 1, 5, 3, false, {0, 1, 5}}, 2, 16, check_both);
}

TEST(AttentionGradientKernels, Windows) {
  check_gradient<lang::f32>({2, 2, 1, 37, 6, true, {37, 18}, 3}, 8, 4, check_both);
  check_gradient<lang::bf16>({1, 1, 1, 33, 8, false, {33}, 8}, 4, 8, check_both);
  check_gradient<lang::f32>({1, 1, 1, 30, 4, false, {29}, 13}, 4, 8, check_both);
}

TEST(AttentionGradientKernels, Delta) {
  for_floats([]<class T>() {
    const size_t rows = 37, width = 6;
    const auto out = normals_of<T>(rows * width, 1), dout = normals_of<T>(rows * width, 2);
    Reals expected(rows), magnitude(rows, 10);
    for (size_t i = 0; i < rows; ++i) expected[i] = inner(reals(out), i * width, reals(dout), i * width, width);
    check_both(kernels::attention_delta<T>().ir(), {{"D", width}, {"BM", 8}},
               {buffer(out), buffer(dout), empty<float>(rows), int_of(rows)},
               [&](const Arguments& result) { expect_close<lang::f32>(result[2], expected, magnitude); });
  });
}

TEST(AttentionGradientKernels, RealShapes) {
  check_gradient<lang::bf16>({1, 2, 1, 200, 64, true, {190}}, 64, 64, check_compiled);
  check_gradient<lang::bf16>({1, 1, 1, 192, 128, false, {192}}, 64, 64, check_compiled);
  check_gradient<lang::f32>({1, 1, 1, 100, 64, true, {100}}, 32, 32, check_compiled);
  if (!full()) return;
  for (int64_t width : {64, 128}) {
    for (bool causal : {false, true}) {
      check_gradient<lang::bf16>({2, 4, 2, 1024, width, causal, {1024, 691}}, 64, 64, check_compiled);
      check_gradient<lang::f16>({1, 2, 1, 1000, width, causal, {1000}, 200}, 64, 64, check_compiled);
    }
  }
}

}  // namespace
}  // namespace kiln::test

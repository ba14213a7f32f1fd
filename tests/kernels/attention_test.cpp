// attention against softmax(q·kᵀ)·v with all scores at hand.
#include "check.h"
#include "cuda_device.h"

namespace kiln::test {
namespace {

struct Attention {
  int64_t batch, heads, kv_heads, seq, width;
  bool causal;
  std::vector<int32_t> lengths;
};

std::vector<double> attend(const Attention& a, const std::vector<double>& q, const std::vector<double>& k,
                           const std::vector<double>& v, double scale) {
  std::vector<double> out(q.size());
  std::vector<double> weights(static_cast<size_t>(a.seq));
  const int64_t d = a.width;
  for (int64_t i = 0; i < a.batch * a.heads * a.seq; ++i) {
    const int64_t row = i % a.seq, head = i / a.seq % a.heads, b = i / a.seq / a.heads;
    const int64_t length = a.lengths[static_cast<size_t>(b)];
    if (row >= length) continue;
    const int64_t from = (b * a.kv_heads + head / (a.heads / a.kv_heads)) * a.seq;
    const int64_t end = a.causal ? row + 1 : length;
    double top = -1e300, total = 0;
    for (int64_t j = 0; j < end; ++j) {
      double score = 0;
      for (int64_t l = 0; l < d; ++l) {
        score += q[static_cast<size_t>(i * d + l)] * k[static_cast<size_t>((from + j) * d + l)];
      }
      weights[static_cast<size_t>(j)] = score * scale;
      top = std::max(top, score * scale);
    }
    for (int64_t j = 0; j < end; ++j)
      total += weights[static_cast<size_t>(j)] = std::exp(weights[static_cast<size_t>(j)] - top);
    for (int64_t j = 0; j < end; ++j) {
      const double weight = weights[static_cast<size_t>(j)] / total;
      for (int64_t l = 0; l < d; ++l) {
        out[static_cast<size_t>(i * d + l)] += weight * v[static_cast<size_t>((from + j) * d + l)];
      }
    }
  }
  return out;
}

// The CPU's tiles of f32 do not fit in a GPU's shared memory: there the kernel's own are taken.
dsl::ConstexprValues config_of(const Attention& a, bool wide, int64_t bm, int64_t bn) {
  dsl::ConstexprValues out = {{"D", a.width}, {"CAUSAL", a.causal}};
  if (!wide || !on_cuda()) out.merge(dsl::ConstexprValues{{"BM", bm}, {"BN", bn}});
  return out;
}

template <class T, class Run>
void check_attention(const Attention& a, int64_t bm, int64_t bn, Run run) {
  const auto count = static_cast<size_t>(a.batch * a.heads * a.seq * a.width);
  const auto kv_count = static_cast<size_t>(a.batch * a.kv_heads * a.seq * a.width);
  const auto q = normals_of<T>(count, 1), k = normals_of<T>(kv_count, 2), v = normals_of<T>(kv_count, 3);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(a.width)));
  const auto expected = attend(a, reals(q), reals(k), reals(v), scale);
  run(kernels::attention<T>().ir(), config_of(a, std::is_same_v<T, lang::f32> && a.width >= 64, bm, bn),
      Arguments{buffer(q), buffer(k), buffer(v), empty<Memory<T>>(count), buffer(a.lengths), int_of(a.batch),
                int_of(a.heads), int_of(a.kv_heads), int_of(a.seq), float_of(scale)},
      [&](const Arguments& out) {
        expect_product<T>(out[3], expected, static_cast<size_t>(a.seq));
        // Beyond a sequence's end.
        const auto result = reals<T>(out[3]);
        size_t left = 0;
        for (size_t i = 0; i < count; ++i) left += expected[i] == 0 && result[i] != 0;
        EXPECT_EQ(left, 0u);
      });
}

TEST(AttentionKernel, CausalRaggedAndGrouped) {
  for_floats([]<class T>() {
    for (bool causal : {false, true}) {
      check_attention<T>({2, 2, 1, 21, 6, causal, {21, 9}}, 8, 4, check_both);
      check_attention<T>({1, 4, 2, 16, 8, causal, {16}}, 8, 8, check_both);
      check_attention<T>({3, 1, 1, 5, 3, causal, {0, 1, 5}}, 2, 16, check_both);
    }
  });
}

TEST(AttentionKernel, RealShapes) {
  check_attention<lang::f32>({1, 2, 2, 512, 64, false, {512}}, 64, 128, check_compiled);
  check_attention<lang::f32>({2, 2, 1, 300, 128, true, {300, 177}}, 64, 128, check_compiled);
  check_attention<lang::bf16>({1, 1, 1, 256, 64, true, {256}}, 64, 64, check_compiled);
  if (!full()) return;
  for (int32_t seq : {512, 1024, 4096}) {
    for (int64_t width : {64, 128}) {
      for (bool causal : {false, true}) {
        check_attention<lang::f32>({2, 2, 1, seq, width, causal, {seq, seq - 333}}, 64, 128, check_compiled);
      }
    }
  }
}

}  // namespace
}  // namespace kiln::test

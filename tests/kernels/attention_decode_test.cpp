// attention_decode and attention_combine against softmax(q·kᵀ)·v over the cache, gathered.
#include <algorithm>
#include <numeric>

#include "check.h"

namespace kiln::test {
namespace {

struct Decode {
  int64_t tokens, heads, kv_heads, width, page, splits;
  std::vector<int32_t> lengths;

  int64_t batch() const { return static_cast<int64_t>(lengths.size()); }
  int64_t max_pages() const { return *std::max_element(lengths.begin(), lengths.end()) / page + 1; }
  int64_t rows() const { return batch() * tokens * heads; }
};

// The pages of all sequences in an order without pattern; what lies behind a sequence's end is no page.
std::vector<int32_t> page_table(const Decode& d) {
  const auto max_pages = static_cast<size_t>(d.max_pages());
  std::vector<int32_t> out(d.lengths.size() * max_pages);
  std::iota(out.begin(), out.end(), 0);
  for (size_t i = out.size(); i > 1; --i) std::swap(out[i - 1], out[i * 7919 % i + (i * 31 + 5) % i / 2]);
  for (size_t i = 0; i < out.size(); ++i) {
    const auto used = static_cast<size_t>((d.lengths[i / max_pages] + d.page - 1) / d.page);
    if (i % max_pages >= used) out[i] = 1 << 30;
  }
  return out;
}

std::vector<double> attend(const Decode& d, const std::vector<double>& q, const std::vector<double>& k,
                           const std::vector<double>& v, const std::vector<int32_t>& table, double scale) {
  std::vector<double> out(q.size()), weights;
  for (int64_t row = 0; row < d.rows(); ++row) {
    const int64_t head = row % d.heads, token = row / d.heads % d.tokens, b = row / d.heads / d.tokens;
    const int64_t seen = d.lengths[static_cast<size_t>(b)] - d.tokens + token + 1;
    const auto key_at = [&](int64_t key) {
      const int64_t page = table[static_cast<size_t>(b * d.max_pages() + key / d.page)];
      return ((page * d.page + key % d.page) * d.kv_heads + head / (d.heads / d.kv_heads)) * d.width;
    };
    const auto product = [&](int64_t key) {
      double score = 0;
      for (int64_t l = 0; l < d.width; ++l) {
        score += q[static_cast<size_t>(row * d.width + l)] * k[static_cast<size_t>(key_at(key) + l)];
      }
      return score * scale;
    };
    weights.clear();
    for (int64_t key = 0; key < seen; ++key) weights.push_back(product(key));
    const double top = weights.empty() ? 0 : *std::max_element(weights.begin(), weights.end());
    double total = 0;
    for (double& weight : weights) total += weight = std::exp(weight - top);
    for (int64_t key = 0; key < seen; ++key) {
      for (int64_t l = 0; l < d.width; ++l) {
        out[static_cast<size_t>(row * d.width + l)] +=
            weights[static_cast<size_t>(key)] / total * v[static_cast<size_t>(key_at(key) + l)];
      }
    }
  }
  return out;
}

template <class T, class Run>
void check_decode(const Decode& d, int64_t rows, int64_t block, Run run) {
  const auto count = static_cast<size_t>(d.rows() * d.width);
  const auto cached = static_cast<size_t>(d.batch() * d.max_pages() * d.page * d.kv_heads * d.width);
  const auto q = normals_of<T>(count, 1), k = normals_of<T>(cached, 2), v = normals_of<T>(cached, 3);
  const std::vector<int32_t> table = page_table(d);
  const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(d.width)));
  const auto expected = attend(d, reals(q), reals(k), reals(v), table, scale);
  const auto parts = static_cast<size_t>(d.rows() * d.splits);
  const auto depth = static_cast<size_t>(d.max_pages() * d.page);
  run(kernels::attention_decode<T>().ir(), {{"D", d.width}, {"PAGE", d.page}, {"ROWS", rows}, {"BN", block}},
      Arguments{buffer(q), buffer(k), buffer(v), buffer(table), buffer(d.lengths),
                empty<float>(parts * static_cast<size_t>(d.width)), empty<float>(parts), int_of(d.batch()),
                int_of(d.tokens), int_of(d.heads), int_of(d.kv_heads), int_of(d.max_pages()), int_of(d.splits),
                float_of(scale)},
      [&](const Arguments& decoded) {
        run(kernels::attention_combine<T>().ir(), {{"D", d.width}, {"BLOCK", 2}},
            Arguments{decoded[5], decoded[6], empty<Memory<T>>(count), int_of(d.rows()), int_of(d.splits)},
            [&](const Arguments& out) { expect_product<T>(out[2], expected, depth); });
      });
}

TEST(AttentionDecodeKernel, RaggedGroupedAndSplit) {
  for_floats([]<class T>() {
    check_decode<T>({1, 4, 2, 6, 4, 3, {21, 9, 1}}, 2, 8, check_both);
    // Lengths that are multiples of pages and blocks; more splits than blocks.
    check_decode<T>({1, 3, 3, 8, 8, 5, {16, 24}}, 2, 8, check_both);
    // A block within a page, and groups in two blocks of rows.
    check_decode<T>({1, 6, 2, 3, 16, 1, {33}}, 2, 4, check_both);
  });
}

TEST(AttentionDecodeKernel, SequencesWithoutKeys) {
  check_decode<lang::f32>({1, 2, 1, 8, 4, 2, {0, 5, 0}}, 2, 4, check_both);
}

TEST(AttentionDecodeKernel, SeveralTokensSeeTheKeysUpToTheirOwn) {
  for_floats([]<class T>() {
    check_decode<T>({3, 4, 2, 8, 4, 2, {21, 3}}, 8, 4, check_both);
    // The last split of the second sequence has keys that the first tokens do not see; the third is all new.
    check_decode<T>({4, 2, 1, 8, 2, 4, {16, 7, 4}}, 4, 2, check_both);
  });
}

TEST(AttentionDecodeKernel, RealShapes) {
  check_decode<lang::bf16>({1, 8, 2, 128, 16, 3, {300, 177}}, 16, 64, check_compiled);
  check_decode<lang::bf16>({2, 4, 2, 96, 16, 2, {130, 64}}, 16, 32, check_compiled);
  check_decode<lang::f32>({1, 4, 1, 64, 64, 2, {200}}, 16, 16, check_compiled);
  if (!full()) return;
  for (int64_t width : {64, 96, 128}) {
    check_decode<lang::bf16>({1, 32, 8, width, 16, 8, {4000, 1, 0, 2048}}, 16, 64, check_compiled);
    check_decode<lang::f16>({4, 32, 8, width, 64, 4, {1000, 4}}, 16, 64, check_compiled);
  }
}

}  // namespace
}  // namespace kiln::test

// Attention.
#include "case_makers.h"

namespace kiln::quickstart {
namespace {

struct Heads {
  int32_t batch, heads, kv_heads, seq, width;
  bool causal = false, ragged = false;
};

// Row `i` of all queries: what it gets of the values, element `at`.
double one_output(const Heads& a, const float* q, const float* k, const float* v, int64_t length, size_t i, size_t at) {
  const auto d = static_cast<size_t>(a.width), seq = static_cast<size_t>(a.seq);
  const size_t row = i % seq, head = i / seq % static_cast<size_t>(a.heads), b = i / seq / static_cast<size_t>(a.heads);
  if (static_cast<int64_t>(row) >= length) return 0;
  const auto group = static_cast<size_t>(a.heads / a.kv_heads);
  const size_t from = (b * static_cast<size_t>(a.kv_heads) + head / group) * seq;
  const size_t end = a.causal ? row + 1 : static_cast<size_t>(length);
  std::vector<double> scores(end);
  double top = -1e300, total = 0, out = 0;
  for (size_t j = 0; j < end; ++j) {
    for (size_t l = 0; l < d; ++l) scores[j] += double{q[i * d + l]} * k[(from + j) * d + l];
    scores[j] /= std::sqrt(static_cast<double>(d));
    top = std::max(top, scores[j]);
  }
  for (size_t j = 0; j < end; ++j) {
    const double weight = std::exp(scores[j] - top);
    total += weight;
    out += weight * v[(from + j) * d + at];
  }
  return out / total;
}

Case attention(Heads a) {
  const dsl::ConstexprValues config = {{"D", a.width}, {"CAUSAL", a.causal}, {"BM", 64}, {"BN", 128}};
  const std::string text = shape_text({a.batch, a.heads, a.seq, a.width}) + (a.causal ? " causal" : "") +
                           (a.ragged ? " ragged" : "") + (a.kv_heads < a.heads ? " grouped" : "");
  auto lengths = allocate<int32_t>(static_cast<size_t>(a.batch));
  double pairs = 0;  // of queries and keys
  for (int32_t b = 0; b < a.batch; ++b) {
    lengths[b] = a.ragged ? a.seq - a.seq * b / (2 * a.batch) : a.seq;
    pairs += 1.0 * a.heads * lengths[b] * lengths[b] * (a.causal ? 0.5 : 1);
  }
  return make_case(kernels::attention(), text, config, computes(4 * pairs * a.width), [=] {
    const auto rows = static_cast<size_t>(a.batch * a.heads * a.seq), d = static_cast<size_t>(a.width);
    const auto kv_rows = static_cast<size_t>(a.batch * a.kv_heads * a.seq);
    auto q = normals(rows * d, 1), k = normals(kv_rows * d, 2), v = normals(kv_rows * d, 3),
         y = allocate<float>(rows * d);
    auto check = [=] {
      return compare_norm(y.get(), 500, dot_bound(static_cast<size_t>(a.seq)), [&](size_t sample) {
        const size_t i = place(sample, 1, rows), at = place(sample, 2, d);
        const int64_t length = lengths[i / static_cast<size_t>(a.heads * a.seq)];
        return Expected{i * d + at, one_output(a, q.get(), k.get(), v.get(), length, i, at)};
      });
    };
    const float scale = 1 / std::sqrt(static_cast<float>(a.width));
    return launch(check, q, k, v, y, lengths, a.batch, a.heads, a.kv_heads, a.seq, scale);
  });
}

}  // namespace

std::vector<Case> attention_cases(Size size) {
  if (size == Size::kSmall) return {attention({2, 2, 1, 150, 64, true, true}), attention({1, 2, 2, 100, 32})};
  if (size == Size::kInCache) return {attention({1, 2, 2, 256, 64})};
  return {attention({1, 12, 12, 512, 64}), attention({1, 8, 8, 2048, 128, true}),
          attention({4, 8, 2, 1024, 128, true, true}), attention({1, 4, 4, 4096, 64})};
}

}  // namespace kiln::quickstart

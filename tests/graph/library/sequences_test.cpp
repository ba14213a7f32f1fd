// Functions of sequences beside loops in float64.
#include "kiln/graph/sequences.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <numeric>

#include "kiln/graph/differentiate.h"
#include "library/numbers.h"

namespace kiln::graph::test {
namespace {

using testing::HasSubstr;

TEST(Sequences, RopeOfSomeFeatures) {
  const Numbers x = random_numbers({2, 3, 10}, 1), positions({3}, 0);
  Numbers at = positions;
  at(0) = 0, at(1) = 5, at(2) = 17;
  const auto out = computed({x, at}, [](Tensors t) {
    const RopeTables tables = rope_tables(t[1], 6, 100);
    return Tensors{rope_partial(t[0], tables), rope_partial(t[0], tables, true),
                   rope_partial(t[0](all, all, range(0, 6)), tables)};
  });
  ASSERT_EQ(out.size(), 3u);
  Numbers halves = x, pairs = x, whole({2, 3, 6});
  for (int b = 0; b < 2; ++b) {
    for (int n = 0; n < 3; ++n) {
      for (int i = 0; i < 3; ++i) {
        const double angle = at(n) * std::pow(100, -2.0 * i / 6), c = std::cos(angle), s = std::sin(angle);
        halves(b, n, i) = x(b, n, i) * c - x(b, n, i + 3) * s;
        halves(b, n, i + 3) = x(b, n, i + 3) * c + x(b, n, i) * s;
        pairs(b, n, 2 * i) = x(b, n, 2 * i) * c - x(b, n, 2 * i + 1) * s;
        pairs(b, n, 2 * i + 1) = x(b, n, 2 * i + 1) * c + x(b, n, 2 * i) * s;
      }
      for (int i = 0; i < 6; ++i) whole(b, n, i) = halves(b, n, i);
    }
  }
  expect_numbers("halves", out[0], halves);
  expect_numbers("pairs", out[1], pairs);
  expect_numbers("all features", out[2], whole);
}

// softmax over the keys that are seen, plus a score of the sink's.
Numbers attended(const Numbers& q, const Numbers& k, const Numbers& v,
                 const std::function<double(int, int, int, int)>& more, const Numbers* sinks = nullptr) {
  Numbers out({q.shape[0], q.shape[1], q.shape[2], v.shape[3]});
  for (int b = 0; b < q.shape[0]; ++b) {
    for (int h = 0; h < q.shape[1]; ++h) {
      for (int m = 0; m < q.shape[2]; ++m) {
        double total = sinks ? std::exp((*sinks)(h)) : 0;
        for (int n = 0; n < k.shape[2]; ++n) {
          double score = 0;
          for (int d = 0; d < q.shape[3]; ++d) score += q(b, h, m, d) * k(b, h, n, d);
          const double weight = std::exp(score / std::sqrt(static_cast<double>(q.shape[3])) + more(b, h, m, n));
          total += weight;
          for (int e = 0; e < v.shape[3]; ++e) out(b, h, m, e) += weight * v(b, h, n, e);
        }
        for (int e = 0; e < v.shape[3]; ++e) out(b, h, m, e) /= total;
      }
    }
  }
  return out;
}

TEST(Sequences, MasksOfAttention) {
  const Numbers q = random_numbers({2, 3, 4, 5}, 2), k = random_numbers({2, 3, 7, 5}, 3);
  const Numbers v = random_numbers({2, 3, 7, 6}, 4), sinks = random_numbers({3}, 5);
  Numbers lengths({2}, 0, i64);
  lengths(0) = 7, lengths(1) = 2;
  const auto out = computed({q, k, v, lengths, sinks}, [](Tensors t) {
    return Tensors{attention(t[0], t[1], t[2], {}, alibi(3, 4, 7, f64)),
                   attention(t[0], t[1], t[2], {}, window_mask(4, 7, 2, 1)),
                   attention(t[0], t[1], t[2], {}, length_mask(t[3], 7)), attention_with_sinks(t[0], t[1], t[2], t[4]),
                   attention_with_sinks(t[0], t[1], t[2], t[4], false)};
  });
  ASSERT_EQ(out.size(), 5u);
  const double slopes[3] = {1.0 / 16, 1.0 / 256, 1.0 / 4};  // as of 2 heads, then the first of 4
  const auto when = [](bool seen) { return seen ? 0 : -INFINITY; };
  expect_numbers("alibi", out[0],
                 attended(q, k, v, [&](int, int h, int m, int n) { return -slopes[h] * std::abs(m + 3 - n); }));
  expect_numbers("window and sink", out[1], attended(q, k, v, [&](int, int, int m, int n) {
                   return when(n <= m + 3 && (m + 3 - n < 2 || n < 1));
                 }));
  expect_numbers("lengths", out[2], attended(q, k, v, [&](int b, int, int, int n) { return when(n < lengths(b)); }));
  expect_numbers("sink scores", out[3],
                 attended(q, k, v, [&](int, int, int m, int n) { return when(n <= m + 3); }, &sinks));
  expect_numbers("sink scores, all seen", out[4], attended(q, k, v, [&](int, int, int, int) { return 0; }, &sinks));
  EXPECT_EQ(alibi_slopes(8), (std::vector<double>{0.5, 0.25, 0.125, 0.0625, 0.03125, 0.015625, 0.0078125, 0.00390625}));
}

TEST(Sequences, GatedLinear) {
  const Numbers x = random_numbers({3, 5}, 6), w = random_numbers({8, 5}, 7), b = random_numbers({8}, 8);
  const auto out = computed({x, w, b}, [](Tensors t) {
    Tensors y;
    for (const GateKind kind : {GateKind::kSwiglu, GateKind::kGeglu, GateKind::kReglu, GateKind::kGlu}) {
      y.push_back(gated_linear(t[0], t[1], kind, t[2]));
    }
    return y;
  });
  ASSERT_EQ(out.size(), 4u);
  const std::function<double(double)> gates[] = {
      [](double g) { return g / (1 + std::exp(-g)); }, [](double g) { return g / 2 * std::erfc(-g / std::sqrt(2)); },
      [](double g) { return std::max(g, 0.0); }, [](double g) { return 1 / (1 + std::exp(-g)); }};
  for (size_t kind = 0; kind < 4; ++kind) {
    Numbers expected({3, 4});
    for (int r = 0; r < 3; ++r) {
      for (int f = 0; f < 4; ++f) {
        double gate = b(f), value = b(f + 4);
        for (int i = 0; i < 5; ++i) gate += x(r, i) * w(f, i), value += x(r, i) * w(f + 4, i);
        expected(r, f) = gates[kind](gate) * value;
      }
    }
    expect_numbers("gate", out[kind], expected);
  }
}

// Of rows that are no multiple of the chunk, some of them ignored.
TEST(Sequences, LinearCrossEntropy) {
  const Numbers x = random_numbers({7, 4}, 9), w = random_numbers({5, 4}, 10);
  Numbers targets = random_numbers({7}, 11, 0, 5, i64);
  targets(2) = targets(6) = -100;
  const auto out = computed({x, w, targets}, [](Tensors t) {
    return Tensors{linear_cross_entropy(t[0], t[1], t[2], 3), linear_cross_entropy(t[0], t[1], t[2], 64),
                   linear_cross_entropy(t[0], t[1], full({7}, -100, i64), 3)};
  });
  ASSERT_EQ(out.size(), 3u);
  double loss = 0;
  for (int r = 0; r < 7; ++r) {
    if (targets(r) < 0) continue;
    double total = 0, own = 0;
    for (int c = 0; c < 5; ++c) {
      double logit = 0;
      for (int d = 0; d < 4; ++d) logit += x(r, d) * w(c, d);
      total += std::exp(logit);
      if (c == static_cast<int>(targets(r))) own = logit;
    }
    loss += std::log(total) - own;
  }
  EXPECT_NEAR(out[0].all[0], loss / 5, 1e-12);
  EXPECT_NEAR(out[1].all[0], loss / 5, 1e-12);
  EXPECT_EQ(out[2].all[0], 0);
}

// The f32 kernel, and what other types have.
TEST(Sequences, MixtureOfExperts) {
  for (const ElementType type : {f64, f32}) {
    const double tolerance = type == f64 ? 1e-12 : 2e-6;
    Numbers x = random_numbers({5, 6}, 12, -1, 1, type), gate = random_numbers({4, 6}, 13, -1, 1, type);
    Numbers in = random_numbers({4, 6, 10}, 14, -1, 1, type), out_w = random_numbers({4, 5, 6}, 15, -1, 1, type);
    for (Numbers* each : {&x, &gate, &in, &out_w}) {
      for (double& number : each->all) number = static_cast<double>(static_cast<float>(number));
    }
    const auto out = computed({x, gate, in, out_w}, [](Tensors t) {
      const Routes to = route(linear(t[0], t[1]), 2);
      const Dispatch rows = dispatch(to.experts, 4);
      return Tensors{mixture_of_experts(t[0], t[1], t[2], t[3], 2), to.experts, rows.sizes};
    });
    ASSERT_EQ(out.size(), 3u);
    Numbers expected({5, 6}, 0, type), sizes({4});
    for (int t = 0; t < 5; ++t) {
      std::vector<double> scores(4);
      for (int e = 0; e < 4; ++e) {
        for (int d = 0; d < 6; ++d) scores[static_cast<size_t>(e)] += x(t, d) * gate(e, d);
      }
      std::vector<int> order = {0, 1, 2, 3};
      std::ranges::sort(order,
                        [&](int a, int b) { return scores[static_cast<size_t>(a)] > scores[static_cast<size_t>(b)]; });
      const double first = std::exp(scores[static_cast<size_t>(order[0])]),
                   second = std::exp(scores[static_cast<size_t>(order[1])]);
      for (int slot = 0; slot < 2; ++slot) {
        const int e = order[static_cast<size_t>(slot)];
        EXPECT_EQ(out[1](t, slot), e);
        sizes(e) += 1;
        for (int f = 0; f < 5; ++f) {
          double g = 0, value = 0;
          for (int d = 0; d < 6; ++d) g += x(t, d) * in(e, d, f), value += x(t, d) * in(e, d, f + 5);
          const double hidden = g / (1 + std::exp(-g)) * value * (slot == 0 ? first : second) / (first + second);
          for (int d = 0; d < 6; ++d) expected(t, d) += hidden * out_w(e, f, d);
        }
      }
    }
    expect_numbers("mixture", out[0], expected, tolerance);
    expect_numbers("sizes", out[2], sizes);
  }
}

// The kernels that gradients are made of, beside what f64 has.
TEST(Sequences, GroupedLinearHasTheSameGradients) {
  const auto loss = [](ElementType type) {
    return trace("loss", {input("x", type, {9, 5}), input("w", type, {3, 5, 4}), input("sizes", i32, {3})},
                 [](Tensors t) { return Outputs{{"y", sum(square(grouped_linear(t[0], t[1], t[2])))}}; });
  };
  const Numbers x = random_numbers({9, 5}, 40), w = random_numbers({3, 5, 4}, 41);
  Numbers sizes({3}, 0, i32);
  sizes(0) = 3, sizes(2) = 5;
  const GraphDef wide = grad(loss(f64), {"x", "w"}), narrow = grad(loss(f32), {"x", "w"});
  const auto out = computed({x, w, sizes}, [&](Tensors t) {
    Tensors both = inline_graph(wide, t);
    for (const Tensor& each : inline_graph(narrow, {cast(t[0], f32), cast(t[1], f32), t[2]})) both.push_back(each);
    return both;
  });
  ASSERT_EQ(out.size(), 4u);
  expect_numbers("x", out[2], out[0], 1e-5);
  expect_numbers("w", out[3], out[1], 1e-5);
}

TEST(Sequences, GroupedLinearOfRowsWithoutGroup) {
  for (const ElementType type : {f64, f32}) {
    const Numbers x = random_numbers({6, 2}, 16, -1, 1, type), w = random_numbers({3, 2, 4}, 17, -1, 1, type);
    Numbers sizes({3}, 0, i32);
    sizes(0) = 2, sizes(2) = 3;
    const auto out = computed({x, w, sizes}, [](Tensors t) { return Tensors{grouped_linear(t[0], t[1], t[2])}; });
    ASSERT_EQ(out.size(), 1u);
    Numbers expected({6, 4});
    for (int r = 0; r < 5; ++r) {
      for (int o = 0; o < 4; ++o) {
        for (int i = 0; i < 2; ++i) expected(r, o) += x(r, i) * w(r < 2 ? 0 : 2, i, o);
      }
    }
    expect_numbers("rows", out[0], expected, type == f64 ? 1e-12 : 1e-6);
  }
}

TEST(Sequences, PagesOfACache) {
  const Numbers pages = random_numbers({5, 2, 3, 4}, 18), tokens = random_numbers({2, 2, 4, 4}, 19);
  Numbers table({2, 2}, 0, i32), lengths({2}, 0, i32), codes({5, 2, 3, 4}, 7, i8), scales({5, 2, 3}, 1, f32);
  table(0, 0) = 4, table(0, 1) = 1, table(1, 0) = 0, table(1, 1) = 3;
  lengths(0) = 1, lengths(1) = 2;
  const auto out = computed({pages, table, lengths, tokens, codes, scales}, [](Tensors t) {
    const QuantisedPages small = append_pages({t[4], t[5]}, t[1], t[2], t[3]);
    const QuantisedPages f8 = append_pages({cast(t[4], f8e4m3), t[5]}, t[1], t[2], t[3]);
    return Tensors{append_pages(t[0], t[1], t[2], t[3]), dequantise_pages(small, f64), dequantise_pages(f8, f64)};
  });
  ASSERT_EQ(out.size(), 3u);
  Numbers expected = pages, quantised({5, 2, 3, 4}, 7);
  for (int b = 0; b < 2; ++b) {
    for (int m = 0; m < 4; ++m) {
      const int place = static_cast<int>(lengths(b)) + m, page = static_cast<int>(table(b, place / 3));
      for (int g = 0; g < 2; ++g) {
        for (int d = 0; d < 4; ++d) {
          expected(page, g, place % 3, d) = quantised(page, g, place % 3, d) = tokens(b, g, m, d);
        }
      }
    }
  }
  expect_numbers("appended", out[0], expected);
  for (size_t i = 0; i < quantised.all.size(); ++i) {
    EXPECT_NEAR(out[1].all[i], quantised.all[i], 2.0 / 254 + 1e-6);  // half a step of the largest
    EXPECT_NEAR(out[2].all[i], quantised.all[i], 2.0 / 16 + 1e-6);
  }
}

TEST(Sequences, SelectiveScan) {
  const Numbers u = random_numbers({2, 5, 3}, 20), rate = random_numbers({2, 5, 3}, 21, 0.1, 1);
  const Numbers a = random_numbers({3, 4}, 22, -2, -0.1), b = random_numbers({2, 5, 4}, 23);
  const Numbers c = random_numbers({2, 5, 4}, 24), skip = random_numbers({3}, 25),
                first = random_numbers({2, 3, 4}, 26);
  const auto out = computed({u, rate, a, b, c, skip, first}, [](Tensors t) {
    const Scanned y = selective_scan(t[0], t[1], t[2], t[3], t[4], t[5], t[6]);
    const Scanned plain = selective_scan(t[0], t[1], t[2], t[3], t[4]);
    return Tensors{y.y, y.state, plain.y + t[0] * t[5]};
  });
  ASSERT_EQ(out.size(), 3u);
  Numbers y({2, 5, 3}), from_zero = y, state = first, other({2, 3, 4});
  for (int n = 0; n < 2; ++n) {
    for (int l = 0; l < 5; ++l) {
      for (int d = 0; d < 3; ++d) {
        y(n, l, d) = from_zero(n, l, d) = skip(d) * u(n, l, d);
        for (int s = 0; s < 4; ++s) {
          const double decay = std::exp(rate(n, l, d) * a(d, s)), more = rate(n, l, d) * b(n, l, s) * u(n, l, d);
          state(n, d, s) = decay * state(n, d, s) + more;
          other(n, d, s) = decay * other(n, d, s) + more;
          y(n, l, d) += c(n, l, s) * state(n, d, s);
          from_zero(n, l, d) += c(n, l, s) * other(n, d, s);
        }
      }
    }
  }
  expect_numbers("y", out[0], y);
  expect_numbers("state", out[1], state);
  expect_numbers("from zero", out[2], from_zero);
}

TEST(Sequences, LinearAttentionInChunks) {
  const Numbers q = random_numbers({2, 2, 7, 3}, 27), k = random_numbers({2, 2, 7, 3}, 28);
  const Numbers v = random_numbers({2, 2, 7, 4}, 29), g = random_numbers({2, 2, 7}, 30, -1, 0);
  const auto out = computed({q, k, v, g}, [](Tensors t) {
    return Tensors{linear_attention(t[0], t[1], t[2], t[3], 3), linear_attention(t[0], t[1], t[2], t[3], 16),
                   linear_attention(t[0], t[1], t[2], {}, 4)};
  });
  ASSERT_EQ(out.size(), 3u);
  Numbers decayed({2, 2, 7, 4}), plain = decayed;
  for (int b = 0; b < 2; ++b) {
    for (int h = 0; h < 2; ++h) {
      for (int t = 0; t < 7; ++t) {
        for (int s = 0; s <= t; ++s) {
          double product = 0, decay = 0;
          for (int d = 0; d < 3; ++d) product += q(b, h, t, d) * k(b, h, s, d);
          for (int i = s + 1; i <= t; ++i) decay += g(b, h, i);
          for (int e = 0; e < 4; ++e) {
            decayed(b, h, t, e) += std::exp(decay) * product * v(b, h, s, e);
            plain(b, h, t, e) += product * v(b, h, s, e);
          }
        }
      }
    }
  }
  expect_numbers("chunks of 3", out[0], decayed);
  expect_numbers("one chunk", out[1], decayed);
  expect_numbers("without decay", out[2], plain);
}

TEST(Sequences, Wkv) {
  const Numbers k = random_numbers({2, 6, 3}, 31, -40, 40), v = random_numbers({2, 6, 3}, 32);
  const Numbers decay = random_numbers({3}, 33, 0, 2), bonus = random_numbers({3}, 34);
  const auto out = computed({k, v, decay, bonus}, [](Tensors t) { return Tensors{wkv(t[0], t[1], t[2], t[3])}; });
  ASSERT_EQ(out.size(), 1u);
  Numbers expected({2, 6, 3});
  for (int b = 0; b < 2; ++b) {
    for (int t = 0; t < 6; ++t) {
      for (int c = 0; c < 3; ++c) {
        double values = 0, weights = 0;
        for (int s = 0; s <= t; ++s) {
          const double weight = std::exp(s == t ? k(b, s, c) + bonus(c) : k(b, s, c) - (t - s - 1) * decay(c));
          values += weight * v(b, s, c);
          weights += weight;
        }
        expected(b, t, c) = values / weights;
      }
    }
  }
  expect_numbers("wkv", out[0], expected);
}

TEST(Sequences, LogitsThatAreLeft) {
  const Numbers x = random_numbers({4, 9}, 35);
  const auto out = computed({x}, [](Tensors t) {
    return Tensors{filter_logits(t[0], {.temperature = 0.5}), filter_logits(t[0], {.top_k = 3}),
                   filter_logits(t[0], {.temperature = 2, .top_p = 0.6}),
                   filter_logits(t[0], {.top_k = 4, .top_p = 0.5})};
  });
  ASSERT_EQ(out.size(), 4u);
  const auto left = [&](double temperature, size_t top_k, double top_p) {
    Numbers y = x;
    for (int r = 0; r < 4; ++r) {
      std::vector<int> order(9);
      std::iota(order.begin(), order.end(), 0);
      std::ranges::sort(order, [&](int a, int b) { return x(r, a) > x(r, b); });
      double total = 0, before = 0;
      for (size_t i = 0; i < top_k; ++i) total += std::exp(x(r, order[i]) / temperature);
      for (size_t i = 0; i < 9; ++i) {
        double& own = y(r, order[i]);
        own = i < top_k && before < top_p ? x(r, order[i]) / temperature : -INFINITY;
        before += std::exp(x(r, order[i]) / temperature) / total;
      }
    }
    return y;
  };
  expect_numbers("temperature", out[0], left(0.5, 9, 2));
  expect_numbers("top k", out[1], left(1, 3, 2));
  expect_numbers("top p", out[2], left(2, 9, 0.6));
  expect_numbers("both", out[3], left(1, 4, 0.5));
}

// How often each token is drawn is its probability; what is filtered out never comes.
TEST(Sequences, SamplesComeByTheirProbability) {
  Numbers logits({1, 5});
  for (int i = 0; i < 5; ++i) logits(0, i) = 0.7 * i;
  const auto out = computed({logits}, [](Tensors t) {
    const Tensor rows = broadcast_to(t[0], {20000, 5});
    return Tensors{sample(rows, 3, 0), sample(rows, 4, 0, {.top_k = 2}), sample(rows, 5, 0, {.temperature = 0})};
  });
  ASSERT_EQ(out.size(), 3u);
  double counts[5] = {}, total = 0;
  for (const double token : out[0].all) counts[static_cast<int>(token)] += 1;
  for (int i = 0; i < 5; ++i) total += std::exp(0.7 * i);
  for (int i = 0; i < 5; ++i) EXPECT_NEAR(counts[i] / 20000, std::exp(0.7 * i) / total, 0.015) << i;
  double high = 0;
  for (const double token : out[1].all) {
    ASSERT_GE(token, 3);
    high += token - 3;
  }
  EXPECT_NEAR(high / 20000, 1 / (1 + std::exp(-0.7)), 0.015);
  for (const double token : out[2].all) ASSERT_EQ(token, 4);
  EXPECT_THAT(refusal({input("x", f32, {2, 4})}, [](Tensors t) { return Tensors{sample(t[0], 0, 0, {.top_p = 0})}; }),
              HasSubstr("sample: top_p is not above 0"));
}

TEST(Sequences, BeamStep) {
  const Numbers steps = random_numbers({2, 3, 5}, 36), scores = random_numbers({2, 3}, 37);
  Numbers done({2, 3}, 0, i1);
  done(0, 1) = done(1, 0) = done(1, 2) = 1;
  const auto out = computed({steps, scores, done}, [](Tensors t) {
    const BeamStep y = beam_step(t[0], t[1], t[2], 2);
    return Tensors{y.scores, y.beams, y.tokens};
  });
  ASSERT_EQ(out.size(), 3u);
  for (int b = 0; b < 2; ++b) {
    std::vector<std::array<double, 3>> sums;
    for (int k = 0; k < 3; ++k) {
      for (int v = 0; v < 5; ++v) {
        const double sum = done(b, k) == 0 ? scores(b, k) + steps(b, k, v) : v == 2 ? scores(b, k) : -INFINITY;
        sums.push_back({-sum, static_cast<double>(k), static_cast<double>(v)});
      }
    }
    std::ranges::sort(sums);
    for (int i = 0; i < 3; ++i) {
      const auto& expected = sums[static_cast<size_t>(i)];
      EXPECT_NEAR(out[0](b, i), -expected[0], 1e-12);
      EXPECT_EQ(out[1](b, i), expected[1]);
      EXPECT_EQ(out[2](b, i), expected[2]);
    }
  }
}

}  // namespace
}  // namespace kiln::graph::test

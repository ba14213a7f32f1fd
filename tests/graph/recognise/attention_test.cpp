// Attention as exporters write it: with masks, scales, merged axes and repeated heads.
#include "recognise/recognising.h"

namespace kiln::graph::recognising {
namespace {

using enum TensorOp;

const Found kOne = {{kAttention, 1}};

struct Sizes {
  Dim b = dim("b"), h = dim("h"), m = dim("m", 1, 64), n = dim("n", 1, 64), d = dim("d");
};

// q [b, 6, m, 4], k and v [b, groups, n, …].
std::vector<InputSpec> qkv(int64_t groups = 6, ElementType type = f32) {
  const Sizes s;
  return {input("q", type, {s.b, 6, s.m, 4}), input("k", type, {s.b, groups, s.n, 4}),
          input("v", type, {s.b, groups, s.n, 3})};
}
std::vector<InputSpec> with(std::vector<InputSpec> inputs, InputSpec more) {
  inputs.push_back(std::move(more));
  return inputs;
}

Tensor turned(const Tensor& k) { return transpose(k, -2, -1); }
Tensor rows() { return iota(i64, {Sizes().m, Sizes().n}, 0); }
Tensor columns() { return iota(i64, {Sizes().m, Sizes().n}, 1); }
Tensor shift() { return extent(Sizes().n - Sizes().m); }

struct Attributes {
  bool causal;
  int64_t window;
  double scale;
  bool masked;
  bool operator==(const Attributes&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Attributes& a) {
  return out << "causal " << a.causal << " window " << a.window << " scale " << a.scale << " masked " << a.masked;
}
Attributes attributes(const Graph& graph) {
  const Node& node = only(graph, kAttention);
  const AttrList& attrs = graph.attrs(node);
  return {flag_attr(attrs, 0), int_attr(attrs, 1), float_attr(attrs, 2),
          graph.main().operands_of(node).size() > 3 && graph.main().operands_of(node)[3] != kNoValue};
}

TEST(RecogniseAttention, Plain) {
  const Graph after = recognised(
      qkv(), [](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q, turned(k)) * 0.5), v); }, kOne);
  EXPECT_EQ(attributes(after), (Attributes{false, 0, 0, false}));
  EXPECT_EQ(after.main().nodes.size(), 1u);
  // Another scale, none, a divisor.
  EXPECT_EQ(
      attributes(recognised(
                     qkv(),
                     [](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q, turned(k)) * 0.125), v); },
                     kOne))
          .scale,
      0.125);
  EXPECT_EQ(attributes(
                recognised(
                    qkv(), [](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q, turned(k))), v); }, kOne))
                .scale,
            1);
  EXPECT_EQ(
      attributes(
          recognised(
              qkv(), [](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q, turned(k)) / 2), v); }, kOne))
          .scale,
      0);
}

TEST(RecogniseAttention, ScaleOnTheOperands) {
  // The mathematical form of scaled_dot_product_attention: both times the root of the scale.
  const Graph after = recognised(
      qkv(),
      [](Tensor q, Tensor k, Tensor v) {
        const double root = std::sqrt(0.5);
        return matmul(softmax(matmul(q * root, turned(k) * root)), v);
      },
      kOne, 1e-5);
  EXPECT_EQ(attributes(after), (Attributes{false, 0, 0, false}));
  recognised(
      qkv(), [](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q / 2, turned(k * 3))), v); }, kOne, 1e-5);
}

TEST(RecogniseAttention, SoftmaxInPieces) {
  const Graph after = recognised(
      qkv(),
      [](Tensor q, Tensor k, Tensor v) {
        const Tensor scores = matmul(q, turned(k)) * 0.5, e = exp(scores - reduce_max(scores, {-1}, true));
        return matmul(e / sum(e, {-1}, true), v);
      },
      kOne);
  EXPECT_EQ(after.main().nodes.size(), 1u);
}

TEST(RecogniseAttention, MergedAxes) {
  // Batched products of three axes, as exported graphs have them.
  const Sizes s;
  const Graph after = recognised(
      qkv(),
      [&](Tensor q, Tensor k, Tensor v) {
        const Tensor q3 = reshape(q, {6 * s.b, s.m, 4}), k3 = reshape(turned(k), {6 * s.b, 4, s.n});
        const Tensor scores = reshape(matmul(q3, k3), {s.b, 6, s.m, s.n}) * 0.5;
        const Tensor weights = reshape(softmax(scores), {6 * s.b, s.m, s.n});
        return reshape(matmul(weights, reshape(v, {6 * s.b, s.n, 3})), {s.b, 6, s.m, 3});
      },
      kOne);
  EXPECT_EQ(attributes(after), (Attributes{false, 0, 0, false}));
  const Node& node = only(after, kAttention);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(after.main().operands_of(node)[i], after.main().inputs[i].value);
  // Nothing but three axes.
  recognised(
      {input("q", f32, {s.h, s.m, 4}), input("k", f32, {s.h, s.n, 4}), input("v", f32, {s.h, s.n, 3})},
      [](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q, turned(k)) * 0.5), v); }, kOne);
  // And two.
  recognised(
      {input("q", f32, {s.m, 4}), input("k", f32, {s.n, 4}), input("v", f32, {s.n, 3})},
      [](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q, turned(k)) * 0.5), v); }, kOne);
}

TEST(RecogniseAttention, HeadsBehindPlaces) {
  // q, k and v as [b, places, heads, width], before they are permuted.
  const Sizes s;
  recognised(
      {input("q", f32, {s.b, s.m, 6, 4}), input("k", f32, {s.b, s.n, 6, 4}), input("v", f32, {s.b, s.n, 6, 4})},
      [](Tensor q, Tensor k, Tensor v) {
        q = permute(q, {0, 2, 1, 3});
        const Tensor y = matmul(softmax(matmul(q, permute(k, {0, 2, 3, 1})) * 0.5), permute(v, {0, 2, 1, 3}));
        return flatten(permute(y, {0, 2, 1, 3}), 2, 3);
      },
      kOne);
}

TEST(RecogniseAttention, GroupedHeads) {
  const Sizes s;
  const auto repeated = [&](const Tensor& k) {
    const Dim width = k.extent(3);
    return reshape(broadcast_to(expand_dims(k, 2), {s.b, 2, 3, s.n, width}), {s.b, 6, s.n, width});
  };
  const Graph after = recognised(
      qkv(2),
      [&](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q, turned(repeated(k))) * 0.5), repeated(v)); },
      kOne);
  EXPECT_EQ(after.main().nodes.size(), 1u);
  // Repeated the other way round, heads have other groups.
  const auto tiled = [&](const Tensor& k) { return repeat(k, {1, 3, 1, 1}); };
  const Graph other = recognised(
      qkv(2),
      [&](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q, turned(tiled(k))) * 0.5), tiled(v)); }, kOne);
  EXPECT_GT(other.main().nodes.size(), 1u);
  // One head of k for all of q.
  recognised(
      {input("q", f32, {s.b, 6, s.m, 4}), input("k", f32, {s.b, s.n, 4}), input("v", f32, {s.b, s.n, 3})},
      [](Tensor q, Tensor k, Tensor v) {
        const Tensor scores = dot(q, k, {{0}, {0}, {3}, {2}}) * 0.5;
        return dot(softmax(scores), v, {{0}, {0}, {3}, {1}});
      },
      kOne);
}

TEST(RecogniseAttention, Causal) {
  const auto masked = [](auto mask) {
    return [mask](Tensor q, Tensor k, Tensor v) { return matmul(softmax(mask(matmul(q, turned(k)) * 0.5)), v); };
  };
  const Attributes causal{true, 0, 0, false};
  EXPECT_EQ(attributes(recognised(
                qkv(), masked([](Tensor s) { return where(columns() <= rows() + shift(), s, -INFINITY); }), kOne)),
            causal);
  EXPECT_EQ(attributes(recognised(
                qkv(), masked([](Tensor s) { return where(columns() > rows() + shift(), -INFINITY, s); }), kOne)),
            causal);
  EXPECT_EQ(
      attributes(recognised(
          qkv(), masked([](Tensor s) { return where(~(rows() - columns() + shift() >= 0), -INFINITY, s); }), kOne)),
      causal);
  EXPECT_EQ(
      attributes(recognised(
          qkv(), masked([](Tensor s) { return s + where(columns() - rows() < shift() + 1, 0.0, -INFINITY); }), kOne)),
      causal);
  // A window, alone and with it.
  EXPECT_EQ(attributes(recognised(qkv(), masked([](Tensor s) {
                                    return where((columns() <= rows() + shift()) & (columns() > rows() + shift() - 2),
                                                 s, -INFINITY);
                                  }),
                                  kOne)),
            (Attributes{true, 2, 0, false}));
  EXPECT_EQ(attributes(recognised(
                qkv(), masked([](Tensor s) { return where(columns() >= rows() + shift() - 2, s, -INFINITY); }), kOne)),
            (Attributes{false, 3, 0, false}));
  // Aligned at the first place, which is another mask where M and N differ.
  EXPECT_EQ(
      attributes(recognised(qkv(), masked([](Tensor s) { return where(columns() <= rows(), s, -INFINITY); }), kOne)),
      (Attributes{false, 0, 0, true}));
}

TEST(RecogniseAttention, CausalByTriangles) {
  const Sizes s;
  const std::vector<InputSpec> all = {input("q", f32, {s.b, 6, s.n, 4})};
  const Attributes causal{true, 0, 0, false};
  const auto with_mask = [](auto mask) {
    return [mask](Tensor q) { return matmul(softmax(mask(matmul(q, turned(q)) * 0.5)), q); };
  };
  EXPECT_EQ(attributes(recognised(
                all, with_mask([&](Tensor x) { return where(tril(ones(i1, {s.n, s.n})), x, -INFINITY); }), kOne)),
            causal);
  EXPECT_EQ(
      attributes(recognised(
          all, with_mask([&](Tensor x) { return where(tril(ones(f32, {1, 1, s.n, s.n})) == 0, -INFINITY, x); }), kOne)),
      causal);
  EXPECT_EQ(attributes(recognised(
                all, with_mask([&](Tensor x) { return x + triu(full({s.n, s.n}, -INFINITY, f32), 1); }), kOne)),
            causal);
  EXPECT_EQ(attributes(recognised(
                all, with_mask([&](Tensor x) { return where(triu(ones(i1, {s.n, s.n}), 1), -INFINITY, x); }), kOne)),
            causal);
  // Without the diagonal a place does not see itself.
  EXPECT_EQ(attributes(recognised(
                all, with_mask([&](Tensor x) { return where(tril(ones(i1, {s.n, s.n}), 1), x, -INFINITY); }), kOne)),
            (Attributes{false, 0, 0, true}));
}

TEST(RecogniseAttention, Masks) {
  const Sizes s;
  const auto seen = with(qkv(), input("mask", i1, {s.b, 1, 1, s.n}));
  const Graph after = recognised(
      seen,
      [](Tensor q, Tensor k, Tensor v, Tensor mask) {
        return matmul(softmax(where(mask, matmul(q, turned(k)) * 0.5, -INFINITY)), v);
      },
      kOne);
  EXPECT_EQ(after.main().nodes.size(), 1u);  // the mask as it was, not repeated
  recognised(
      seen,
      [](Tensor q, Tensor k, Tensor v, Tensor mask) {
        return matmul(softmax(where(~mask, -INFINITY, matmul(q, turned(k)) * 0.5)), v);
      },
      kOne);
  const auto added = with(qkv(), input("mask", f32, {s.m, s.n}));
  const Graph sum = recognised(
      added,
      [](Tensor q, Tensor k, Tensor v, Tensor mask) { return matmul(softmax(mask + matmul(q, turned(k)) * 0.5), v); },
      kOne);
  EXPECT_EQ(sum.main().nodes.size(), 1u);
  // Causal beside a mask.
  EXPECT_EQ(attributes(recognised(
                added,
                [](Tensor q, Tensor k, Tensor v, Tensor mask) {
                  const Tensor scores = matmul(q, turned(k)) * 0.5 + mask;
                  return matmul(softmax(where(columns() <= rows() + shift(), scores, -INFINITY)), v);
                },
                kOne)),
            (Attributes{true, 0, 0, true}));
  // Two conditions of which neither is an attribute.
  recognised(
      with(seen, input("other", i1, {s.m, s.n})),
      [](Tensor q, Tensor k, Tensor v, Tensor mask, Tensor other) {
        return matmul(softmax(where(other, where(mask, matmul(q, turned(k)) * 0.5, -INFINITY), -INFINITY)), v);
      },
      kOne);
}

TEST(RecogniseAttention, RowsThatSeeNothing) {
  const Sizes s;
  const auto seen = with(qkv(), input("mask", i1, {s.b, 1, s.m, s.n}));
  recognised(
      seen,
      [](Tensor q, Tensor k, Tensor v, Tensor mask) {
        const Tensor scores = where(mask, matmul(q, turned(k)) * 0.5, -INFINITY);
        const Tensor none = every(scores == -INFINITY, {-1}, true);
        return matmul(where(none, 0.0, softmax(scores)), v);
      },
      kOne);
}

TEST(RecogniseAttention, SeveralMasks) {
  const Sizes s;
  auto masked = with(with(qkv(), input("mask", f32, {s.m, s.n})), input("shown", i1, {s.n}));
  // Added one after the other, and -inf elsewhere: one mask that is added.
  const Graph after = recognised(
      masked,
      [](Tensor q, Tensor k, Tensor v, Tensor mask, Tensor shown) {
        const Tensor scores = matmul(q, turned(k)) * 0.5 + mask;
        return matmul(softmax(where(shown, scores + mask, -INFINITY)), v);
      },
      kOne);
  EXPECT_TRUE(attributes(after).masked);
}

// The least finite number in place of -inf.
TEST(RecogniseAttention, FiniteMasks) {
  const Sizes s;
  const double least = -3.4028234663852886e38;
  const auto square = [&] {
    return std::vector{input("q", f32, {s.b, 6, s.n, 4}), input("k", f32, {s.b, 6, s.n, 4}),
                       input("v", f32, {s.b, 6, s.n, 3})};
  };
  const auto below = [&] { return iota(i64, {s.n, s.n}, 1) <= iota(i64, {s.n, s.n}, 0); };
  const Attributes causal{true, 0, 0, false};
  EXPECT_EQ(attributes(recognised(
                square(),
                [&](Tensor q, Tensor k, Tensor v) {
                  return matmul(softmax(where(below(), matmul(q, turned(k)) * 0.5, least)), v);
                },
                kOne)),
            causal);
  // Added, as a choice and as a product.
  EXPECT_EQ(attributes(recognised(
                square(),
                [&](Tensor q, Tensor k, Tensor v) {
                  return matmul(softmax(matmul(q, turned(k)) * 0.5 + where(below(), zeros(f32, {}), least)), v);
                },
                kOne)),
            causal);
  EXPECT_EQ(attributes(recognised(
                square(),
                [&](Tensor q, Tensor k, Tensor v) {
                  return matmul(softmax(matmul(q, turned(k)) * 0.5 + (1 - cast(below(), f32)) * -1e30), v);
                },
                kOne)),
            causal);
  EXPECT_EQ(attributes(recognised(
                square(),
                [&](Tensor q, Tensor k, Tensor v) {
                  return matmul(softmax(matmul(q, turned(k)) * 0.5 + cast(~below(), f32) * -1e30), v);
                },
                kOne)),
            causal);
  // Where a row may see nothing, n < m, the numbers are a mask of their own: their softmax is a mean.
  EXPECT_EQ(attributes(recognised(
                qkv(),
                [&](Tensor q, Tensor k, Tensor v) {
                  return matmul(softmax(where(columns() <= rows() + shift(), matmul(q, turned(k)) * 0.5, least)), v);
                },
                kOne)),
            (Attributes{false, 0, 0, true}));
  // So is one that is data, which hides all of a row here and there.
  const Graph after = recognised(
      with(qkv(), input("shown", i64, {s.b, s.n})),
      [&](Tensor q, Tensor k, Tensor v, Tensor shown) {
        const Tensor seen = (shown > 3)(all, none, none, all);
        return matmul(softmax(where(seen, matmul(q, turned(k)) * 0.5, least)), v);
      },
      kOne);
  const Body& main = after.main();
  const ValueId mask = main.operands_of(only(after, kAttention))[3];
  EXPECT_EQ(after.type(main, mask).shape[1], Expr(1)) << "as small as the condition";
}

TEST(RecogniseAttention, NotAMask) {
  const Sizes s;
  const auto masked = with(qkv(), input("shown", i1, {s.b, 1, 1, s.n}));
  // -100 hides little; a product with -inf is NaN where the condition is 0.
  const Graph after = recognised(masked,
                                 [](Tensor q, Tensor k, Tensor v, Tensor shown) {
                                   return matmul(softmax(where(shown, matmul(q, turned(k)) * 0.5, -100)), v);
                                 },
                                 {});
  const Graph times = recognised(
      {input("q", f32, {s.b, 6, s.n, 4}), input("k", f32, {s.b, 6, s.n, 4}), input("v", f32, {s.b, 6, s.n, 3})},
      [&](Tensor q, Tensor k, Tensor v) {
        const Tensor above = iota(i64, {s.n, s.n}, 1) > iota(i64, {s.n, s.n}, 0);
        return matmul(softmax(matmul(q, turned(k)) * 0.5 + cast(above, f32) * -INFINITY), v);
      },
      kOne);
  EXPECT_EQ(attributes(times), (Attributes{false, 0, 0, true}));
}

// Ops that change nothing stand between those of a pattern in exported graphs.
TEST(RecogniseAttention, ThroughOpsThatChangeNothing) {
  const Sizes s;
  const Graph after = recognised(
      qkv(),
      [&](Tensor q, Tensor k, Tensor v) {
        const auto same = [](const Tensor& x) { return x * 1 / 1; };
        const Tensor scores = same(matmul(same(q), permute(permute(k, {2, 3, 0, 1}), {2, 3, 1, 0})) * 0.5);
        const Tensor hidden = scores == -INFINITY;
        const Tensor nothing = any(hidden == zeros(i1, {}), {-1}, true) == zeros(i1, {});
        return matmul(where(nothing != zeros(i1, {}), 0, same(softmax(scores))), v);
      },
      kOne);
  EXPECT_EQ(after.main().nodes.size(), 1u);
}

TEST(RecogniseAttention, Not) {
  const Sizes s;
  const Found none;
  const auto added = with(qkv(), input("mask", f32, {s.m, s.n}));
  // The mask is scaled as well.
  recognised(
      added,
      [](Tensor q, Tensor k, Tensor v, Tensor mask) { return matmul(softmax((matmul(q, turned(k)) + mask) * 0.5), v); },
      none);
  // Softmax over the places of q.
  recognised(
      qkv(), [](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q, turned(k)) * 0.5, -2), v); }, none);
  // Weights that change behind softmax.
  recognised(
      qkv(), [](Tensor q, Tensor k, Tensor v) { return matmul(softmax(matmul(q, turned(k)) * 0.5) * 2, v); }, none);
  // A scale that is data.
  recognised(
      with(qkv(), input("scale", f32, {})),
      [](Tensor q, Tensor k, Tensor v, Tensor scale) { return matmul(softmax(matmul(q, turned(k)) * scale), v); },
      none);
  // The default scale of another width.
  recognised(
      {input("q", f32, {s.b, 6, s.m, s.d}), input("k", f32, {s.b, 6, s.n, s.d})},
      [&](Tensor q, Tensor k) { return matmul(softmax(matmul(q, turned(k)) * rsqrt(extent(s.n, f32))), k); }, none);
}

TEST(RecogniseAttention, WidthThatIsNoConstant) {
  const Sizes s;
  const Graph after = recognised(
      {input("q", f32, {s.b, 6, s.m, s.d}), input("k", f32, {s.b, 6, s.n, s.d})},
      [&](Tensor q, Tensor k) { return matmul(softmax(matmul(q, turned(k)) / sqrt(extent(s.d, f32))), k); }, kOne);
  EXPECT_EQ(attributes(after).scale, 0);
}

TEST(RecogniseAttention, SmallFloats) {
  const Graph after = recognised(
      qkv(6, bf16),
      [](Tensor q, Tensor k, Tensor v) {
        const Tensor scores = cast(matmul(q, turned(k)) * 0.5, f32);
        return matmul(cast(softmax(scores), bf16), v);
      },
      kOne, 0.03);
  EXPECT_EQ(after.main().nodes.size(), 1u);
}

}  // namespace
}  // namespace kiln::graph::recognising

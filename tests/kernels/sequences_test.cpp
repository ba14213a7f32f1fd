// Kernels of kernels/matmul_gated.h, grouped.h, pages.h and selective_scan.h.
#include <numeric>

#include "products.h"

namespace kiln::test {
namespace {

template <class T, class Run>
void check_gated(const Product& p, Run run) {
  const auto a = normals_of<T>(p.of(p.m, p.k), 1), b = normals_of<T>(p.of(p.k, 2 * p.n), 2, 0.3);
  const auto both = multiply(reals(a), reals(b), p.m, 2 * p.n, p.k);
  std::vector<double> swiglu, geglu;
  for (int64_t i = 0; i < p.m * p.n; ++i) {
    const auto at = static_cast<size_t>(i / p.n * 2 * p.n + i % p.n);
    const double g = both[at], v = both[at + static_cast<size_t>(p.n)];
    swiglu.push_back(g / (1 + std::exp(-g)) * v);
    geglu.push_back(0.5 * g * (1 + std::tanh(std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g))) * v);
  }
  const Arguments in = {buffer(a), buffer(b), empty<Memory<T>>(swiglu.size()), int_of(p.m), int_of(p.n), int_of(p.k)};
  const auto depth = static_cast<size_t>(p.k) + 2;  // the gate, and the product with it
  run(kernels::matmul_swiglu<T>().ir(), p.config(), in,
      [&](const Arguments& out) { expect_product<T>(out[2], swiglu, depth); });
  run(kernels::matmul_geglu<T>().ir(), p.config(), in,
      [&](const Arguments& out) { expect_product<T>(out[2], geglu, depth); });
}

TEST(SequenceKernels, GatedProducts) {
  for (const Product& p : {Product{17, 9, 21, 8, 4, 8}, {2, 3, 1, 8, 4, 8}}) {
    check_gated<lang::f32>(p, check_both);
    check_gated<lang::bf16>(p, check_both);
  }
  check_gated<lang::bf16>({50, 136, 400, 64, 128, 64, 4}, check_compiled);
}

// Rows behind the groups belong to none.
template <class T, class Run>
void check_grouped(const std::vector<int32_t>& sizes, const Product& p, Run run) {
  const int64_t rows = std::accumulate(sizes.begin(), sizes.end(), 0), groups = std::ssize(sizes);
  const auto a = normals_of<T>(p.of(rows + 2, p.k), 1), b = normals_of<T>(p.of(groups * p.k, p.n), 2);
  const auto c = normals_of<T>(p.of(rows + 2, p.n), 3);
  const auto x = reals(a), w = reals(b), y = reals(c);
  std::vector<double> turned(p.of(rows, p.k)), weights(w.size());  // y·wᵀ, xᵀ·y
  int64_t row = 0;
  for (int64_t g = 0; g < groups; ++g) {
    for (const int64_t end = row + sizes[static_cast<size_t>(g)]; row < end; ++row) {
      for (int64_t k = 0; k < p.k; ++k) {
        for (int64_t n = 0; n < p.n; ++n) {
          const auto at = static_cast<size_t>((g * p.k + k) * p.n + n);
          const auto in = static_cast<size_t>(row * p.k + k), out = static_cast<size_t>(row * p.n + n);
          turned[in] += y[out] * w[at];
          weights[at] += x[in] * y[out];
        }
      }
    }
  }
  auto config = p.config();
  config.erase("GROUP");
  config["GROUPS"] = 8;
  const auto numbers = [&](int64_t n, int64_t k) {
    return Arguments{int_of(rows + 2), int_of(n), int_of(k), int_of(groups)};
  };
  const auto with = [](Arguments arrays, const Arguments& rest) {
    arrays.insert(arrays.end(), rest.begin(), rest.end());
    return arrays;
  };
  run(kernels::grouped_matmul_nt<T>().ir(), config,
      with({buffer(c), buffer(b), buffer(sizes), empty<Memory<T>>(p.of(rows + 2, p.k))}, numbers(p.k, p.n)),
      [&](const Arguments& out) {
        std::vector<double> written = reals<T>(out[3]);
        written.resize(turned.size());
        expect_norm(written, turned, std::is_same_v<T, lang::f32> ? 1e-6 : 1e-2);
      });
  run(kernels::grouped_matmul_tn<T>().ir(), config,
      with({buffer(a), buffer(c), buffer(sizes), empty<Memory<T>>(weights.size())}, numbers(p.n, p.k)),
      [&](const Arguments& out) { expect_product<T>(out[3], weights, static_cast<size_t>(rows)); });
}

TEST(SequenceKernels, GroupedProductsOfGradients) {
  for (const auto& sizes : {std::vector<int32_t>{5, 0, 17, 8}, {0, 1}}) {
    check_grouped<lang::f32>(sizes, {0, 9, 21, 8, 4, 8}, check_both);
    check_grouped<lang::bf16>(sizes, {0, 9, 21, 8, 4, 8}, check_both);
  }
  check_grouped<lang::bf16>({70, 0, 3, 100, 64, 1}, {0, 136, 200, 64, 128, 64}, check_compiled);
}

struct Cache {
  int batch, tokens, heads, max_pages, d, page;
};

template <class T, class Code, class Run>
void check_pages(const Cache& s, int64_t rows_at_once, Run run) {
  const int pages = s.batch * s.max_pages;
  const auto size = static_cast<size_t>(pages * s.page * s.heads * s.d), rows = size / static_cast<size_t>(s.d);
  const auto x = normals_of<T>(static_cast<size_t>(s.batch * s.tokens * s.heads * s.d), 1);
  const auto before = normals_of<T>(size, 2);
  const auto lengths = ints(static_cast<size_t>(s.batch), 0, s.max_pages * s.page - s.tokens + 1, 3);
  std::vector<int32_t> table(static_cast<size_t>(pages));
  for (int i = 0; i < pages; ++i) table[static_cast<size_t>(i)] = (i * 7 + 3) % pages;  // each page once
  const auto in = reals(x);
  auto expected = reals(before);
  std::vector<double> numbers(size, 0), scales(rows, 3);
  for (int i = 0; i < s.batch * s.tokens * s.heads; ++i) {
    const int b = i / (s.tokens * s.heads), t = i / s.heads % s.tokens, head = i % s.heads;
    const int place = lengths[static_cast<size_t>(b)] + t;
    const int page = table[static_cast<size_t>(b * s.max_pages + place / s.page)];
    const auto row = static_cast<size_t>((page * s.page + place % s.page) * s.heads + head);
    double most = 0;
    for (int k = 0; k < s.d; ++k) {
      const double v = in[static_cast<size_t>(i * s.d + k)];
      expected[row * static_cast<size_t>(s.d) + static_cast<size_t>(k)] = v;
      numbers[row * static_cast<size_t>(s.d) + static_cast<size_t>(k)] = v;
      most = std::max(most, std::fabs(v));
    }
    scales[row] = most / (std::is_same_v<Code, lang::i8> ? 127 : 448);
  }
  const dsl::ConstexprValues config = {{"D", s.d}, {"PAGE", s.page}, {"ROWS", rows_at_once}};
  const Arguments rest = {buffer(table),    buffer(lengths), int_of(s.batch),
                          int_of(s.tokens), int_of(s.heads), int_of(s.max_pages)};
  const auto with = [&](Arguments arrays) {
    arrays.insert(arrays.end(), rest.begin(), rest.end());
    return arrays;
  };
  run(kernels::append_pages<T>().ir(), config, with({buffer(x), buffer(before)}),
      [&](const Arguments& out) { expect_close(reals<T>(out[1]), expected, 0); });
  const std::vector<Memory<Code>> codes(size, Memory<Code>{});
  run(kernels::append_pages_quantised<T, Code>().ir(), config,
      with({buffer(x), buffer(codes), buffer(std::vector<float>(rows, 3))}), [&](const Arguments& out) {
        const auto code = reals<Code>(out[1]), scale = reals<lang::f32>(out[2]);
        expect_close(scale, scales, 1e-6);
        size_t wrong = 0;
        for (size_t i = 0; i < size; ++i) {  // half a step of the code
          const double step = scales[i / static_cast<size_t>(s.d)] * (std::is_same_v<Code, lang::i8> ? 1 : 32);
          if (std::fabs(code[i] * scale[i / static_cast<size_t>(s.d)] - numbers[i]) > 0.5001 * step) ++wrong;
        }
        EXPECT_EQ(wrong, 0U);
      });
}

TEST(SequenceKernels, PagesTakeTokens) {
  check_pages<lang::f32, lang::i8>({2, 3, 5, 3, 8, 4}, 4, check_both);
  check_pages<lang::bf16, lang::f8e4m3>({3, 1, 2, 4, 16, 2}, 4, check_both);
  check_pages<lang::bf16, lang::i8>({4, 7, 8, 5, 64, 16}, 8, check_compiled);
}

struct Scan {
  int batch, length, width, states;
};

// Forward and backward in float64, place by place.
template <class T, class Run>
void check_scan(const Scan& s, int64_t chunk, int64_t channels, Run run) {
  const auto count = [](int a, int b, int c = 1) {
    return static_cast<size_t>(a) * static_cast<size_t>(b) * static_cast<size_t>(c);
  };
  const size_t places = count(s.batch, s.length, s.width), sees = count(s.batch, s.length, s.states);
  const size_t chunks = (static_cast<size_t>(s.length) + static_cast<size_t>(chunk) - 1) / static_cast<size_t>(chunk);
  const auto u = normals_of<T>(places, 1), b = normals_of<T>(sees, 3), c = normals_of<T>(sees, 4);
  auto rate = normals_of<T>(places, 2, 0.2, 0.5);
  for (auto& each : rate) each = normals_of<T>(1, 1, 0, std::fabs(reals(std::vector{each})[0]))[0];
  std::vector<float> a = normals(count(s.width, s.states), 5);
  for (float& each : a) each = -std::fabs(each) - 0.1F;
  const auto skip = normals(static_cast<size_t>(s.width), 6);
  const auto dy = normals_of<T>(places, 7);
  const auto U = reals(u), R = reals(rate), B = reals(b), C = reals(c), G = reals(dy);
  std::vector<double> y(places), du(places), dr(places), db(sees), dc(sees), da(count(s.batch, s.width, s.states));
  std::vector<double> dskip(count(s.batch, s.width)), starts(count(s.batch, static_cast<int>(chunks)) * a.size());
  const auto N = static_cast<size_t>(s.states), D = static_cast<size_t>(s.width), L = static_cast<size_t>(s.length);
  for (size_t n = 0; n < static_cast<size_t>(s.batch); ++n) {
    for (size_t d = 0; d < D; ++d) {
      for (size_t k = 0; k < N; ++k) {
        std::vector<double> h(L + 1);
        for (size_t t = 0; t < L; ++t) {
          const size_t at = (n * L + t) * D + d, see = (n * L + t) * N + k;
          if (t % static_cast<size_t>(chunk) == 0)
            starts[((n * chunks + t / static_cast<size_t>(chunk)) * D + d) * N + k] = h[t];
          h[t + 1] = std::exp(R[at] * double{a[d * N + k]}) * h[t] + R[at] * B[see] * U[at];
          y[at] += C[see] * h[t + 1];
        }
        double dh = 0;
        for (size_t t = L; t-- > 0;) {
          const size_t at = (n * L + t) * D + d, see = (n * L + t) * N + k;
          const double decay = std::exp(R[at] * double{a[d * N + k]});
          dh += G[at] * C[see];
          du[at] += dh * R[at] * B[see];
          dr[at] += dh * (double{a[d * N + k]} * decay * h[t] + B[see] * U[at]);
          da[(n * D + d) * N + k] += dh * R[at] * decay * h[t];
          db[see] += dh * R[at] * U[at];
          dc[see] += G[at] * h[t + 1];
          dh *= decay;
        }
      }
      for (size_t t = 0; t < L; ++t) {
        const size_t at = (n * L + t) * D + d;
        y[at] += double{skip[d]} * U[at];
        du[at] += G[at] * double{skip[d]};
        dskip[n * D + d] += G[at] * U[at];
      }
    }
  }
  const auto sized = [](size_t size, double magnitude) { return std::vector<double>(size, magnitude); };
  const dsl::ConstexprValues config = {{"STATES", s.states}, {"CHUNK", chunk}, {"BD", channels}};
  const Arguments in = {buffer(u), buffer(rate), buffer(a), buffer(b), buffer(c), buffer(skip)};
  const Arguments numbers = {int_of(s.batch), int_of(s.length), int_of(s.width)};
  const auto with = [&](const Arguments& more) {
    Arguments all = in;
    all.insert(all.end(), more.begin(), more.end());
    all.insert(all.end(), numbers.begin(), numbers.end());
    return all;
  };
  run(kernels::selective_scan<T>().ir(), config, with({empty<Memory<T>>(places), empty<float>(starts.size())}),
      [&](const Arguments& out) {
        expect_close<T>(out[6], y, sized(places, 20));
        expect_close<lang::f32>(out[7], starts, sized(starts.size(), 20));
      });
  const std::vector<float> kept(starts.begin(), starts.end());
  const size_t parts = (D + static_cast<size_t>(channels) - 1) / static_cast<size_t>(channels);
  run(kernels::selective_scan_backward<T>().ir(), config,
      with({buffer(kept), buffer(dy), empty<Memory<T>>(places), empty<Memory<T>>(places), empty<float>(da.size()),
            empty<float>(parts * sees), empty<float>(parts * sees), empty<float>(dskip.size())}),
      [&](const Arguments& out) {
        expect_close<T>(out[8], du, sized(places, 50));
        expect_close<T>(out[9], dr, sized(places, 50));
        expect_close<lang::f32>(out[10], da, sized(da.size(), 200));
        for (const size_t i : {11, 12}) {
          const auto each = reals<lang::f32>(out[i]);
          std::vector<double> total(sees);
          for (size_t k = 0; k < each.size(); ++k) total[k % sees] += each[k];
          expect_close(total, i == 11 ? db : dc, rtol_v<lang::f32>, sized(sees, 100));
        }
        expect_close<lang::f32>(out[13], dskip, sized(dskip.size(), 50));
      });
}

TEST(SequenceKernels, SelectiveScanAndItsGradient) {
  check_scan<lang::f32>({2, 11, 5, 4}, 4, 4, check_both);
  check_scan<lang::bf16>({1, 8, 8, 2}, 8, 4, check_both);
  check_scan<lang::f32>({1, 1, 3, 4}, 4, 4, check_both);
  check_scan<lang::f32>({2, 70, 40, 16}, 16, 16, check_compiled);
}

}  // namespace
}  // namespace kiln::test

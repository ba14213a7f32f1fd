// Kernels of kernels/matmul_orders.h.
#include "products.h"

namespace kiln::test {
namespace {

// The operands of a product, and what it gives.
template <class T>
struct Operands {
  explicit Operands(const Product& p)
      : a(elements<T>(p.of(p.m, p.k), 1)),
        b(elements<T>(p.of(p.k, p.n), 2)),
        expected(multiply(reals(a), reals(b), p.m, p.n, p.k)) {}
  std::vector<Memory<T>> a, b;
  std::vector<double> expected;
};

template <class T, class Out = kernels::ProductOf<T>, class Run>
void check_nt(const Product& p, Run run) {
  const Operands<T> x(p);
  run(kernels::matmul_nt<T, Out>().ir(), p.config(),
      Arguments{buffer(x.a), buffer(turned(x.b, p.n)), empty<Memory<Out>>(x.expected.size()), int_of(p.m), int_of(p.n),
                int_of(p.k)},
      [&](const Arguments& out) { expect_product<Out>(out[2], x.expected, static_cast<size_t>(p.k)); });
}

template <class T, class Out = kernels::ProductOf<T>, class Run>
void check_tn(const Product& p, Run run) {
  const Operands<T> x(p);
  run(kernels::matmul_tn<T, Out>().ir(), p.config(),
      Arguments{buffer(turned(x.a, p.k)), buffer(x.b), empty<Memory<Out>>(x.expected.size()), int_of(p.m), int_of(p.n),
                int_of(p.k)},
      [&](const Arguments& out) { expect_product<Out>(out[2], x.expected, static_cast<size_t>(p.k)); });
}

// In rows of `line` elements; what lies between them is neither read nor written.
template <class M>
std::vector<M> in_lines(const std::vector<M>& x, int64_t columns, int64_t line, M between) {
  std::vector<M> out;
  for (size_t i = 0; i < x.size(); ++i) {
    out.push_back(x[i]);
    if ((i + 1) % static_cast<size_t>(columns) == 0)
      out.resize(out.size() + static_cast<size_t>(line - columns), between);
  }
  return out;
}

template <class T, class Run>
void check_strided(const Product& p, int64_t lda, int64_t ldb, int64_t ldc, Run run) {
  using Out = kernels::ProductOf<T>;
  const Operands<T> x(p);
  const Memory<T> between = elements<T>(1, 3)[0];
  const TestArgument untouched = empty<Memory<Out>>(p.of(p.m, ldc));
  run(kernels::matmul_strided<T>().ir(), p.config(),
      Arguments{buffer(in_lines(x.a, p.k, lda, between)), buffer(in_lines(x.b, p.n, ldb, between)), untouched,
                int_of(p.m), int_of(p.n), int_of(p.k), int_of(lda), int_of(ldb), int_of(ldc)},
      [&](const Arguments& out) {
        TestArgument rows = untouched;
        rows.buffer.clear();
        const size_t line = static_cast<size_t>(ldc) * sizeof(Memory<Out>),
                     width = static_cast<size_t>(p.n) * sizeof(Memory<Out>);
        for (size_t at = 0; at < out[2].buffer.size(); at += line) {
          const auto row = out[2].buffer.begin() + static_cast<ptrdiff_t>(at),
                     end = row + static_cast<ptrdiff_t>(width);
          rows.buffer.insert(rows.buffer.end(), row, end);
          EXPECT_TRUE(std::equal(end, row + static_cast<ptrdiff_t>(line), untouched.buffer.begin())) << "behind a row";
        }
        expect_product<Out>(rows, x.expected, static_cast<size_t>(p.k));
      });
}

constexpr Product kSmall[] = {{17, 9, 21, 8, 4, 8}, {16, 8, 8, 8, 4, 8}, {1, 1, 1, 8, 4, 8}, {40, 10, 5, 16, 16, 16}};

TEST(MatmulOrders, SecondFactorTurned) {
  for_operands([]<class T>() {
    for (const Product& p : kSmall) check_nt<T>(p, check_both);
    check_nt<T>({100, 136, 300, 64, 64, 64, 3}, check_compiled);
  });
  check_nt<lang::f8e4m3, lang::bf16>({33, 24, 70, 16, 16, 32}, check_both);
}

TEST(MatmulOrders, FirstFactorTurned) {
  for_operands([]<class T>() {
    for (const Product& p : kSmall) check_tn<T>(p, check_both);
    check_tn<T>({100, 136, 300, 64, 64, 64, 3}, check_compiled);
  });
  check_tn<lang::f8e5m2, lang::f32>({33, 24, 70, 16, 16, 32}, check_both);
}

TEST(MatmulOrders, RowsFurtherApart) {
  for_operands([]<class T>() {
    check_strided<T>({17, 9, 21, 8, 4, 8}, 21, 12, 11, check_both);
    check_strided<T>({1, 1, 1, 8, 4, 8}, 3, 2, 5, check_both);
    check_strided<T>({100, 136, 300, 64, 64, 64}, 304, 136, 160, check_compiled);
  });
}

TEST(MatmulOrders, RealShapes) {
  check_nt<lang::bf16>({128, 300, 768, 64, 128, 256}, check_compiled);
  check_tn<lang::bf16>({128, 300, 768, 64, 128, 256}, check_compiled);
  check_nt<lang::f32>({128, 768, 768, 64, 128, 256}, check_compiled);
  check_tn<lang::f32>({128, 768, 768, 64, 128, 256}, check_compiled);
  if (!full()) return;
  for_operands([]<class T>() {
    for (auto [m, n, k] : {std::array<int64_t, 3>{512, 3072, 768}, {128, 4096, 4096}}) {
      check_nt<T>({m, n, k, 128, 256, 256}, check_compiled);
      check_tn<T>({m, n, k, 128, 256, 256}, check_compiled);
    }
  });
}

}  // namespace
}  // namespace kiln::test

// Products whose programs share operands: what one packed serves the next ones, unless it is another operand by then.
#include <cmath>

#include "differential.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using dsl::ElementType;

struct Sizes {
  int32_t m, n, k;
};

std::vector<TestArgument> operands(ElementType type, ElementType sum, const Sizes& s) {
  auto random = [](ElementType of, int64_t count, uint32_t seed) {
    return random_buffer(of, static_cast<size_t>(count), seed, false);
  };
  return {random(type, int64_t{s.m} * s.k, 1),
          random(type, int64_t{s.k} * s.n, 2),
          random(sum, int64_t{s.m} * s.n, 3),
          int_scalar(s.m),
          int_scalar(s.n),
          int_scalar(s.k)};
}

// Rows go first, eight blocks of them, so that programs in a row share B; B has rows far apart, or K along its rows.
template <class T, class Sum>
void check(const Sizes& s, bool turned, const Match& match) {
  const auto def = lang::kernel(
      "shares", {"A", "B", "C", "M", "N", "K", "BM=16", "BN=64", "BK=32"},
      [&](lang::Ptr<const T> A, lang::Ptr<const T> B, lang::Ptr<Sum> C, lang::i32 M, lang::i32 N, lang::i32 K,
          lang::Const BM, lang::Const BN, lang::Const BK) {
        lang::grid(lang::cdiv(M, BM) * lang::cdiv(N, BN));
        const auto [i, j] = lang::grouped_order(lang::program_id(0), lang::cdiv(M, BM), lang::cdiv(N, BN), 8);
        const lang::Value m = i * BM, n = j * BN;
        lang::Var acc = lang::zeros(lang::element_v<Sum>, {BM, BN});
        for (lang::Value k : lang::range(0, K, BK)) {
          const lang::Value b = turned ? lang::trans(lang::tile(B, {N, K}).load({n, k}, {BN, BK}))
                                       : lang::tile(B, {K, N}).load({k, n}, {BK, BN});
          acc = lang::dot(lang::tile(A, {M, K}).load({m, k}, {BM, BK}), b, acc);
        }
        lang::tile(C, {M, N}).store({m, n}, acc);
      });
  ASSERT_TRUE(def.ir().ok());
  Trial run;
  run.arguments = operands(lang::element_v<T>, lang::element_v<Sum>, s);
  run.match = match;
  run.targets = cpu_targets();
  expect_same(*def.ir(), "", run);
}

TEST(DotOperands, ServeTheProgramsOfAColumn) {
  const Match near{1e-5, 1e-4, true};
  for (const bool turned : {false, true}) {
    check<lang::f32, lang::f32>({24, 1100, 40}, turned, near);
    check<lang::bf16, lang::f32>({40, 130, 40}, turned, near);
    check<lang::i8, lang::i32>({40, 130, 40}, turned, kExact);
    check<lang::u8, lang::i32>({40, 130, 40}, turned, kExact);
  }
  // One row of blocks: programs share A, if anything.
  check<lang::bf16, lang::f32>({16, 200, 64}, false, near);
  // More turns than there are places.
  check<lang::bf16, lang::f32>({32, 64, 32 * 20}, false, near);
}

}  // namespace
}  // namespace kiln::test

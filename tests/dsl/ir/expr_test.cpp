// Integer expressions: canonical form, evaluation, text.
#include "kiln/dsl/expr.h"

#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>

namespace kiln::dsl {
namespace {

const Expr kA = Expr::constexpr_ref(0), kB = Expr::constexpr_ref(1), kN = Expr::param_ref(0);

ExprNames names() {
  return {[](uint32_t i) { return std::string(1, static_cast<char>('A' + i)); },
          [](uint32_t i) { return std::string(1, static_cast<char>('n' + i)); }};
}

Expr apply(AtomKind kind, const Expr& a, const Expr& b) { return Expr::apply(kind, a, b); }

TEST(Expr, EqualPolynomialsAreEqual) {
  EXPECT_EQ(kA * 2 + kA, kA * 3);
  EXPECT_EQ((kA + kB) * (kA - kB), kA * kA - kB * kB);
  EXPECT_EQ(kA - kA, Expr(0));
  EXPECT_EQ(kA * 0, Expr());
  EXPECT_NE(kA, kB);
  EXPECT_NE(Expr::constexpr_ref(0), Expr::param_ref(0));
  EXPECT_EQ(apply(AtomKind::kDiv, kA + kB, kB), apply(AtomKind::kDiv, kB + kA, kB));
}

TEST(Expr, OrderIsTotal) {
  const Expr all[] = {
      Expr(0), Expr(1), kA, kB, kN, kA * kB, kA + 1, apply(AtomKind::kDiv, kA, kB), apply(AtomKind::kMin, kA, kB)};
  for (const Expr& x : all) {
    for (const Expr& y : all) {
      EXPECT_EQ((x <=> y) == 0, x == y);
      EXPECT_EQ((x <=> y) < 0, (y <=> x) > 0);
    }
  }
}

TEST(Expr, FunctionsFold) {
  constexpr int64_t kMin = std::numeric_limits<int64_t>::min();
  auto folded = [](AtomKind kind, int64_t a, int64_t b) { return apply(kind, a, b).as_constant().value(); };
  EXPECT_EQ(folded(AtomKind::kDiv, -7, 2), -3);
  EXPECT_EQ(folded(AtomKind::kDiv, 7, 0), 0);
  EXPECT_EQ(folded(AtomKind::kDiv, kMin, -1), kMin);
  EXPECT_EQ(folded(AtomKind::kRem, -7, 2), -1);
  EXPECT_EQ(folded(AtomKind::kRem, 7, 0), 7);
  EXPECT_EQ(folded(AtomKind::kRem, kMin, -1), 0);
  EXPECT_EQ(folded(AtomKind::kMin, 3, 4), 3);
  EXPECT_EQ(folded(AtomKind::kMax, 3, 4), 4);
  EXPECT_EQ(folded(AtomKind::kEq, 3, 4), 0);
  EXPECT_EQ(folded(AtomKind::kNe, 3, 4), 1);
  EXPECT_EQ(folded(AtomKind::kLt, 3, 4), 1);
  EXPECT_EQ(folded(AtomKind::kLe, 4, 4), 1);
  EXPECT_EQ(apply(AtomKind::kDiv, kA, 1), kA);
}

TEST(Expr, EvaluationAgreesWithSubstitution) {
  std::mt19937 random(5);
  for (int i = 0; i < 500; ++i) {
    Expr expr = kA;
    for (int step = 0; step < 6; ++step) {
      const Expr other = std::array<Expr, 4>{kA, kB, kN, Expr(static_cast<int64_t>(random() % 7) - 3)}[random() % 4];
      switch (random() % 4) {
        case 0:
          expr = expr + other;
          break;
        case 1:
          expr = expr - other;
          break;
        case 2:
          expr = expr * other;
          break;
        default:
          expr = apply(static_cast<AtomKind>(2 + random() % 8), expr, other);
      }
    }
    Bindings some{{5, std::nullopt}, {}}, all{{5, -3}, {static_cast<int64_t>(random() % 100)}};
    EXPECT_EQ(expr.substitute(all).as_constant(), *expr.evaluate(all));
    EXPECT_EQ(*expr.substitute(some).evaluate(all), *expr.evaluate(all));
  }
}

TEST(Expr, EvaluationErrors) {
  EXPECT_EQ(kA.evaluate({}).error().message, "constexpr #0 has no value");
  EXPECT_EQ(kN.evaluate({}).error().message, "parameter #0 has no value");
  const Bindings large{{std::numeric_limits<int64_t>::max()}, {}};
  EXPECT_EQ((kA + 1).evaluate(large).error().message, "integer expression overflows");
  EXPECT_EQ((kA * kA).evaluate(large).error().message, "integer expression overflows");
}

TEST(Expr, Text) {
  EXPECT_EQ(to_string(Expr(0), names()), "0");
  EXPECT_EQ(to_string(Expr(-3), names()), "-3");
  EXPECT_EQ(to_string(kA * 2 + 1, names()), "2*A + 1");
  EXPECT_EQ(to_string(Expr(1) - kA, names()), "-A + 1");
  EXPECT_EQ(to_string(apply(AtomKind::kDiv, kN + kA - 1, kA), names()), "div(A + n - 1, A)");
  EXPECT_EQ(to_string(Expr(std::numeric_limits<int64_t>::min()) * kA, names()), "-9223372036854775808*A");
}

}  // namespace
}  // namespace kiln::dsl

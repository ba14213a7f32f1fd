// What is said of extents: bounds, divisors, quotients, comparisons.
#include "kiln/graph/extents.h"

#include <ctime>

#include "graph/generator.h"
#include "infer/application.h"
#include "ir/expr_limits.h"

namespace kiln::graph::inferring {
namespace {

std::string bounds(const std::string& text) {
  const Interval range = interval(ground().dims, expr(text));
  return std::to_string(range.low) + " " + std::to_string(range.high);
}

TEST(Extents, Bounds) {
  const std::pair<const char*, const char*> rows[] = {
      {"7", "7 7"},
      {"n", "1 4096"},
      {"k", "8 4096"},
      {"n - m", "-4095 4095"},
      {"2*n + 1", "3 8193"},
      {"n*z", "0 65536"},
      {"div(n, 4)", "0 1024"},
      {"rem(n, 4)", "0 3"},
      {"rem(n, z)", "0 4096"},
      {"min(n, 5)", "1 5"},
      {"max(n, 5)", "5 4096"},
      // Terms that depend on each other.
      {"n - min(n, 5)", "0 4091"},
      {"max(n, m) - n", "0 4095"},
      {"n - 8*div(n, 8)", "0 7"},
      {"k - 8*div(k, 8)", "0 0"},
      {"8*div(n + 7, 8) - n", "0 7"},
      {"z*n - 4*z*div(n, 4)", "0 48"},
      {"n - n", "0 0"},
      {"n*k - n + k - 1", "14 16777215"},
      // The elements of a pool's result.
      {"2*n*n*div(n + 1, 2) - n*div(n + 1, 2)", "1 68711088128"},
  };
  for (const auto& [text, wanted] : rows) EXPECT_EQ(bounds(text), wanted) << text;
}

TEST(Extents, Comparisons) {
  struct Row {
    const char *a, *b;
    Known equal, at_most;
  };
  constexpr Known kYes = Known::kYes, kNo = Known::kNo, kUnknown = Known::kUnknown;
  const Row rows[] = {
      {"n", "n", kYes, kYes},
      {"n + n", "2*n", kYes, kYes},
      {"n", "m", kUnknown, kUnknown},
      {"n", "n + 1", kNo, kYes},
      {"n + 1", "n", kNo, kNo},
      {"n", "5000", kNo, kYes},
      {"k", "7", kNo, kNo},
      {"n", "4096", kUnknown, kYes},
      {"8*div(k, 8)", "k", kYes, kYes},
      {"8*div(n, 8)", "n", kUnknown, kYes},
      {"4*div(k, 8)", "div(k, 2)", kYes, kYes},
      {"div(k, 8)*div(k, 4)*32", "k*k", kYes, kYes},
      {"min(n, m)", "n", kUnknown, kYes},
      {"n", "max(n, m)", kUnknown, kYes},
      {"min(n, 5) + 1", "n + 1", kUnknown, kYes},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(equal(ground().dims, expr(row.a), expr(row.b)), row.equal) << row.a << " and " << row.b;
    EXPECT_EQ(at_most(ground().dims, expr(row.a), expr(row.b)), row.at_most) << row.a << " and " << row.b;
  }
}

TEST(Extents, DivisorsAndQuotients) {
  const std::pair<const char*, int64_t> divisors[] = {{"0", 0},          {"12", 12}, {"n", 1},         {"k", 8},
                                                      {"3*k + 12", 12},  {"n*k", 8}, {"div(k, 4)", 2}, {"div(k, 3)", 1},
                                                      {"min(k, 12)", 4}, {"-k", 8},  {"rem(k, 12)", 4}};
  for (const auto& [text, wanted] : divisors) EXPECT_EQ(known_divisor(ground().dims, expr(text)), wanted) << text;
  const auto quotient = [](const char* total, const char* part) -> std::string {
    const auto out = exact_quotient(ground().dims, expr(total), expr(part));
    return out ? dsl::to_string(*out, ground().expr_names()) : "none";
  };
  EXPECT_EQ(quotient("4*n", "4"), "n");
  EXPECT_EQ(quotient("4*n + 8", "4"), "n + 2");
  EXPECT_EQ(quotient("n*m + 2*n", "m + 2"), "n");
  EXPECT_EQ(quotient("n*n - 1", "n + 1"), "n - 1");
  EXPECT_EQ(quotient("k", "8"), "div(k, 8)");
  EXPECT_EQ(quotient("k", "16"), "none");
  EXPECT_EQ(quotient("n", "2"), "none");
  EXPECT_EQ(quotient("n", "0"), "none");
  EXPECT_EQ(quotient("0", "n"), "0");
  EXPECT_EQ(quotient("n", "m"), "none");
}

// Whatever the sizes: what is known holds.
TEST(Extents, WhatIsKnownHoldsForAllSizes) {
  random_graph::Random random(7);
  const std::vector<DimInfo>& dims = ground().dims;
  const std::function<Expr(int)> any = [&](int depth) -> Expr {
    if (depth == 0 || random.chance(25)) {
      return random.chance(50) ? Expr(random.between(-3, 9))
                               : Expr::constexpr_ref(static_cast<uint32_t>(random.below(4)));
    }
    const Expr a = any(depth - 1), b = any(depth - 1);
    switch (random.below(6)) {
      case 0:
        return a * b;
      case 1:
        return a - b;
      case 2:
        return Expr::apply(dsl::AtomKind::kDiv, a, Expr(random.between(0, 8)));
      case 3:
        return Expr::apply(random.chance(50) ? dsl::AtomKind::kMin : dsl::AtomKind::kMax, a, b);
      case 4:
        return Expr::apply(dsl::AtomKind::kRem, a, random.chance(50) ? b : Expr(random.between(1, 8)));
      default:
        return a + b * Expr(random.between(-8, 8));
    }
  };
  int known = 0;
  for (int round = 0; round < 20'000; ++round) {
    const Expr a = any(3), b = random.chance(30) ? a + Expr(random.between(-1, 1)) : any(3);
    if (weight(a) > 1 << 20 || weight(b) > 1 << 20) continue;
    const Interval range = interval(dims, a);
    const int64_t divisor = known_divisor(dims, a);
    const Known same = equal(dims, a, b), below = at_most(dims, a, b);
    const auto quotient = exact_quotient(dims, a, b);
    known += (same != Known::kUnknown) + (below != Known::kUnknown) + (quotient ? 1 : 0);
    for (int sample = 0; sample < 8; ++sample) {
      dsl::Bindings sizes;
      for (const DimInfo& dim : dims) {
        const int64_t most = sample < 4 ? std::min<int64_t>(dim.high, dim.low + 3 * dim.multiple) : dim.high;
        sizes.constexprs.emplace_back((random.between(dim.low, most) / dim.multiple) * dim.multiple);
      }
      const auto x = a.evaluate(sizes), y = b.evaluate(sizes);
      if (!x || !y) continue;
      const std::string what = dsl::to_string(a, ground().expr_names()) + " and " +
                               dsl::to_string(b, ground().expr_names()) + ": " + std::to_string(*x) + ", " +
                               std::to_string(*y);
      ASSERT_TRUE(range.low <= *x && *x <= range.high) << what;
      ASSERT_TRUE(divisor == 0 ? *x == 0 : *x % divisor == 0) << what << " by " << divisor;
      ASSERT_TRUE(same == Known::kUnknown || (same == Known::kYes) == (*x == *y)) << what;
      ASSERT_TRUE(below == Known::kUnknown || (below == Known::kYes) == (*x <= *y)) << what;
      ASSERT_TRUE(!quotient || quotient->evaluate(sizes).value() * *y == *x) << what;
    }
  }
  EXPECT_GT(known, 5000);
}

// Numbers beyond all sizes end in an answer that is right, or in none.
TEST(Extents, LargeNumbersDoNotWrap) {
  const std::vector<DimInfo>& dims = ground().dims;
  const Expr huge(int64_t{1} << 62), n = expr("n");
  EXPECT_EQ(interval(dims, huge * n).high, int64_t{1} << 62);
  EXPECT_EQ(exact_quotient(dims, huge * n, Expr(std::numeric_limits<int64_t>::min())), std::nullopt);
  EXPECT_EQ(weight(huge * n + huge), int64_t{1} << 62);
  EXPECT_STREQ(expr_problem(Expr(int64_t{1} << 54), 4), "is above 2^53");
  EXPECT_STREQ(expr_problem(Expr(int64_t{1} << 54) * n, 4), "has a factor above 2^53");
  EXPECT_STREQ(expr_problem(n, 0), "mentions a dim that the graph has not");
  EXPECT_STREQ(expr_problem(Expr::param_ref(0), 4), "mentions what is no dim");
  const Expr most(DimInfo::kMost);
  EXPECT_STREQ(shape_problem({most, most}), "has more than 2^62 elements");
  EXPECT_EQ(shape_problem({n, n, n, n, most}), nullptr);
  const Expr sum = expr("n + m + k + z");
  EXPECT_STREQ(shape_problem(Exprs(10, sum)), "has extents of too many terms");
  Expr deep = n;
  for (int i = 0; i < 3000; ++i) deep = Expr::apply(dsl::AtomKind::kDiv, deep + Expr(1), expr("m"));
  EXPECT_STREQ(expr_problem(deep, 4), "is too large");
}

// Each level may be looked at in several ways; all levels together not in exponentially many.
TEST(Extents, NestedExpressionsTakeLittleTime) {
  const Expr n = expr("n"), m = expr("m");
  using enum dsl::AtomKind;
  for (const dsl::AtomKind kind : {kDiv, kMin, kMax, kRem}) {
    Expr deep = n;
    for (int i = 0; tree_size(deep, kMaxExprNodes) < kMaxExprNodes - 16; ++i) {
      deep = Expr::apply(kind, deep * Expr(3) + m * n, kind == kDiv || kind == kRem ? Expr(3) : m + Expr(i)) - m;
    }
    const auto begin = std::clock();
    for (int i = 0; i < 10; ++i) {
      interval(ground().dims, deep);
      equal(ground().dims, deep, n);
      at_most(ground().dims, n, deep);
      exact_quotient(ground().dims, deep * (n + Expr(1)), n + Expr(1));
    }
    EXPECT_LT(std::clock() - begin, 10 * CLOCKS_PER_SEC) << to_string(kind);
  }
  Expr sum, other;
  for (int i = 0; i < 200; ++i) {
    sum = sum + Expr::apply(kMin, n + Expr(i), m);
    other = other + Expr::apply(kMax, n, m + Expr(i)) * n;
  }
  const auto begin = std::clock();
  EXPECT_EQ(at_most(ground().dims, sum, other), Known::kUnknown);
  EXPECT_EQ(exact_quotient(ground().dims, sum, other), std::nullopt);
  EXPECT_LT(std::clock() - begin, 5 * CLOCKS_PER_SEC);
}

}  // namespace
}  // namespace kiln::graph::inferring

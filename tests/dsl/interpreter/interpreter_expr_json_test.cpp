// Expressions as JSON, as an artifact's metadata carries them.
#include <gtest/gtest.h>

#include "kiln/dsl/expr_json.h"

namespace kiln::dsl {
namespace {

using nlohmann::json;

TEST(ExprJson, RoundTrips) {
  const Expr n = Expr::param_ref(2), block = Expr::constexpr_ref(0);
  const Expr exprs[] = {
      Expr(0), Expr(-7), n * n * Expr(3) - block + Expr(5), Expr::apply(AtomKind::kDiv, n + block - Expr(1), block),
      Expr::apply(AtomKind::kMin, Expr::apply(AtomKind::kRem, n, Expr(16)), Expr::apply(AtomKind::kLe, n, block))};
  for (const Expr& expr : exprs) {
    auto back = expr_from_json(json::parse(expr_to_json(expr).dump()));
    ASSERT_TRUE(back.ok()) << back.error().message;
    EXPECT_TRUE(*back == expr) << expr_to_json(expr);
  }
}

TEST(ExprJson, HasTheDocumentedForm) {
  EXPECT_EQ(expr_to_json(Expr::param_ref(1) * Expr(2) + Expr(3)), json::parse(R"([[3, []], [2, [["p", 1]]]])"));
}

TEST(ExprJson, SurvivesAnything) {
  for (const char* text :
       {"1", "{}", "[1]", "[[1]]", "[[\"a\", []]]", "[[1, [1]]]", "[[1, [[\"q\", 1]]]]", "[[1, [[\"p\", -1]]]]",
        "[[1, [[\"p\", 1.5]]]]", "[[1, [[\"div\", []]]]]", "[[1, [[\"div\", 1, 2]]]]", "[[1, [[]]]]"}) {
    EXPECT_FALSE(expr_from_json(json::parse(text)).ok()) << text;
  }
  json deep = json::array();
  for (int i = 0; i < 100; ++i)
    deep = json::array({json::array(
        {1, json::array({json::array(
                {"min", deep, json::array({json::array({1, json::array({json::array({"p", 0})})})})})})})});
  EXPECT_FALSE(expr_from_json(deep).ok());
}

}  // namespace
}  // namespace kiln::dsl

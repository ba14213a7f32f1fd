// Element types and shapes of operators: which type two operands have in common, and which nodes bring them there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "trace/lines.h"

namespace kiln::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Case {
  ElementType a, b;
  std::optional<ElementType> common;  // none: an error
};

std::string name(ElementType type) { return std::string(dsl::info(type).name); }

TEST(Promotion, OfTwoTensors) {
  const Case cases[] = {{f32, f32, f32},        {f16, f32, f32},          {f32, f64, f64},    {f16, bf16, f32},
                        {bf16, f16, f32},       {bf16, f64, f64},         {f8e4m3, f16, f16}, {f8e4m3, f8e5m2, f32},
                        {i8, i32, i32},         {i64, i8, i64},           {u8, i16, i16},     {i8, u16, u16},
                        {u32, i64, i64},        {u64, i32, u64},          {i32, f16, f16},    {f16, i64, f16},
                        {u64, f64, f64},        {i8, f8e5m2, f8e5m2},     {u8, u32, u32},     {i32, u32, std::nullopt},
                        {u8, i8, std::nullopt}, {i64, u64, std::nullopt}, {i32, i1, i32},     {i1, f32, f32}};
  for (const Case& each : cases) {
    const auto def =
        graph("g", {input("a", each.a, {4}), input("b", each.b, {4})}, [](Tensor a, Tensor b) { return a + b; });
    SCOPED_TRACE(name(each.a) + " + " + name(each.b));
    if (each.common) {
      EXPECT_THAT(output_types(def), ElementsAre(name(*each.common) + "[4]"));
    } else {
      EXPECT_THAT(error_text(def), HasSubstr("add: " + name(each.a) + " and " + name(each.b) +
                                             " have the same width and different signedness; write cast(x, " +
                                             name(each.a) + ") or cast(x, " + name(each.b) + ")"));
    }
  }
}

// The same in any order: what counts is the set.
TEST(Promotion, OfThree) {
  for (const std::vector<ElementType>& types : {std::vector{f16, bf16, i64}, {i64, bf16, f16}, {bf16, i64, f16}}) {
    const auto def = graph("g", {input("a", types[0], {}), input("b", types[1], {}), input("c", types[2], {})},
                           [](Tensor a, Tensor b, Tensor c) { return fma(a, b, c); });
    EXPECT_THAT(output_types(def), ElementsAre("f32[]"));
  }
}

TEST(Promotion, CastsAndBroadcastsAreNodes) {
  const Dim n = dim("n");
  const auto def =
      graph("g", {input("a", f16, {n, 4}), input("b", f32, {4})}, [](Tensor a, Tensor b) { return a * b; });
  EXPECT_THAT(node_lines(def),
              ElementsAre("cast f16[n, 4] {to=f32} -> f32[n, 4]", "broadcast f32[4] {shape=[n, 4]} -> f32[n, 4]",
                          "mul f32[n, 4], f32[n, 4] -> f32[n, 4]"));
}

TEST(Promotion, OfNumbers) {
  const auto type_of = [](ElementType type, const std::function<Tensor(Tensor)>& function) {
    return output_types(graph("g", {input("x", type, {3})}, function));
  };
  EXPECT_THAT(type_of(f16, [](Tensor x) { return x * 2; }), ElementsAre("f16[3]"));
  EXPECT_THAT(type_of(f16, [](Tensor x) { return 0.5 - x; }), ElementsAre("f16[3]"));
  EXPECT_THAT(type_of(i8, [](Tensor x) { return x + 100; }), ElementsAre("i8[3]"));
  EXPECT_THAT(type_of(i8, [](Tensor x) { return x * 0.5; }), ElementsAre("f32[3]"));
  EXPECT_THAT(type_of(u64, [](Tensor x) { return x + ~uint64_t{0}; }), ElementsAre("u64[3]"));
  EXPECT_THAT(type_of(i64, [](Tensor x) { return x % dim("n"); }), ElementsAre("i64[3]"));
  EXPECT_THAT(type_of(f32, [](Tensor x) { return x / dim("n"); }), ElementsAre("f32[3]"));
  EXPECT_THAT(type_of(i32, [](Tensor x) { return exp(x); }), ElementsAre("f32[3]"));
  EXPECT_THAT(type_of(i32, [](Tensor x) { return pow(x, 2); }), ElementsAre("f32[3]"));
  EXPECT_THAT(type_of(i32, [](Tensor x) { return where(x > 0, x, 0.5); }), ElementsAre("f32[3]"));
}

TEST(Promotion, NumbersThatDoNotFit) {
  const auto error_of = [](ElementType type, const std::function<Tensor(Tensor)>& function) {
    return error_text(graph("g", {input("x", type, {3})}, function));
  };
  EXPECT_THAT(error_of(i8, [](Tensor x) { return x + 300; }),
              HasSubstr("add: 300 is not a value of i8; cast the tensor to a type that has it"));
  EXPECT_THAT(error_of(u8, [](Tensor x) { return x * -1; }), HasSubstr("mul: -1 is not a value of u8"));
  EXPECT_THAT(error_of(f16, [](Tensor x) { return x * 1e6; }), HasSubstr("mul: 1e+06 is not a value of f16"));
  EXPECT_THAT(error_of(f8e4m3, [](Tensor x) { return x * 500.0; }), HasSubstr("500 is not a value of f8e4m3"));
  EXPECT_THAT(error_of(i64, [](Tensor x) { return x + ~uint64_t{0}; }),
              HasSubstr("18446744073709551615 is not a value of i64"));
}

TEST(Promotion, NumbersAloneAreScalarsOfTheirOwnType) {
  const auto def = graph("g", {}, []() { return Tensors{cast(3, f64), cast(int64_t{1} << 40, i64), sqrt(2.0)}; });
  EXPECT_THAT(node_lines(def),
              ElementsAre("full {type=i32, shape=[], value=3} -> i32[]", "cast i32[] {to=f64} -> f64[]",
                          "full {type=i64, shape=[], value=1.09951e+12} -> i64[]",
                          "full {type=f32, shape=[], value=2} -> f32[]", "sqrt f32[] -> f32[]"));
}

TEST(Broadcasting, Shapes) {
  const Dim n = dim("n"), m = dim("m");
  struct Row {
    Shape a, b;
    std::string result;  // or a part of the error
  };
  const Row rows[] = {
      {{3}, {3}, "f32[3]"},
      {{2, 3}, {3}, "f32[2, 3]"},
      {{2, 1}, {1, 3}, "f32[2, 3]"},
      {{}, {2, 3}, "f32[2, 3]"},
      {{n, 1}, {m}, "f32[n, m]"},
      {{n}, {1}, "f32[n]"},
      {{2 * n + n}, {3 * n}, "f32[3*n]"},
      {{5, 1, 4}, {3, 1}, "f32[5, 3, 4]"},
      {{0}, {1}, "f32[0]"},
      {{2}, {3}, "add: the shapes of f32[2] and f32[3] do not broadcast: 2 against 3"},
      {{n}, {m}, "add: the shapes of f32[n] and f32[m] do not broadcast: n against m"},
      {{n}, {4}, "do not broadcast: n against 4"},
  };
  for (const Row& row : rows) {
    for (const bool swapped : {false, true}) {
      const auto def = graph("g", {input("a", f32, row.a), input("b", f32, row.b)},
                             [&](Tensor a, Tensor b) { return swapped ? b + a : a + b; });
      if (def.ir()) {
        EXPECT_THAT(output_types(def), ElementsAre(row.result));
      } else if (!swapped) {
        EXPECT_THAT(error_text(def), HasSubstr(row.result));
      } else {
        EXPECT_THAT(row.result, HasSubstr("broadcast"));
      }
    }
  }
}

}  // namespace
}  // namespace kiln::graph

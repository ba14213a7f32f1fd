// Branches, `while` and the variables that they change.
#include "builder_helpers.h"

namespace kiln::dsl {
namespace {

using namespace kiln::lang;
using lang::f32;
using V = lang::Value;

std::vector<int32_t> run_ints(const Kernel& k, int n, size_t count, const ConstexprValues& config = {}) {
  std::vector<int32_t> out(count, -1);
  run(k, config, {buffer(out), number(int64_t{n})});
  return out;
}

TEST(BuilderIf, ChangesVariables) {
  Kernel k = traced(kernel("k", {"out", "n"}, [](Ptr<i32> out, i32 n) {
    Var a = 1, b = 2, c = 3;
    if_(n > 0, [&] { a = n + c; }, [&] { b = a * 10; });
    store(out, a);
    store(out + 1, b);
    store(out + 2, c);
  }));
  EXPECT_EQ(find_op(k.body, OpCode::kIf)->results.size(), 2u);  // c is only read
  EXPECT_EQ(run_ints(k, 5, 3), (std::vector<int32_t>{8, 2, 3}));
  EXPECT_EQ(run_ints(k, -5, 3), (std::vector<int32_t>{1, 10, 3}));
}

TEST(BuilderIf, WithoutOtherwiseAndWithEffects) {
  Kernel k = traced(kernel("k", {"out", "n"}, [](Ptr<i32> out, i32 n) { if_(n == 3, [&] { store(out, n); }); }));
  EXPECT_EQ(run_ints(k, 3, 1)[0], 3);
  EXPECT_EQ(run_ints(k, 4, 1)[0], -1);
}

TEST(BuilderIf, GivesValuesOfACommonTypeAndShape) {
  Kernel k = traced(kernel("k", {"out", "n"}, [](Ptr<f32> out, i32 n) {
    const V x = if_(n > 0, [&] { return n; }, [&] { return full({4}, 0.5f, f32_t); });
    EXPECT_EQ(x.type(), tile_type(ElementType::kF32, {Expr(4)}));
    auto [y, z] = if_(n > 0, [&] { return std::pair(V(n), 1); }, [&] { return std::pair(n * 2, n); });
    const std::vector<V> many =
        if_(n > 0, [&] { return std::vector<V>{x, y, z}; }, [&] { return std::vector<V>{x + 1, z, y}; });
    store(out + arange(0, 4), many[0] + cast(many[1] * 100 + many[2], f32_t));
  }));
  std::vector<float> out(4);
  run(k, {}, {buffer(out), number(int64_t{3})});
  EXPECT_EQ(out, std::vector<float>(4, 304));
  run(k, {}, {buffer(out), number(int64_t{-3})});
  EXPECT_EQ(out, std::vector<float>(4, 0.5f + 1 - 300 - 6));
}

TEST(BuilderIf, GivesPointers) {
  Kernel k = traced(kernel("k", {"p", "q", "n"}, [](Ptr<f32> p, Ptr<f32> q, i32 n) {
    may_alias(p), may_alias(q);
    store(if_(n > 0, [&] { return p; }, [&] { return q; }), 7);
  }));
  std::vector<float> p(1), q(1);
  run(k, {}, {buffer(p), buffer(q), number(int64_t{0})});
  EXPECT_EQ(p[0], 0);
  EXPECT_EQ(q[0], 7);
}

TEST(BuilderIf, APointerOfAReadOnlyParameterStaysReadOnly) {
  int line = 0;
  auto def = kernel("k", {"p", "q", "n"}, [&](Ptr<const f32> p, Ptr<f32> q, i32 n) {
    const V either = if_(n > 0, [&] { return V(q); }, [&] { return V(p); });
    line = __LINE__, store(either, 7);
  });
  expect_error(def, __FILE__, line, "store: the pointer comes from a Ptr<const T>");
}

TEST(BuilderIf, InsideLoopsCarriesThroughThem) {
  Kernel k = traced(kernel("k", {"out", "n"}, [](Ptr<i32> out, i32 n) {
    Var even = 0, odd = 0, untouched = 7;
    for (V i : range(n)) {
      Var local = i;
      if_(
          i % 2 == 0,
          [&] {
            for (V j : range(i)) even += j + untouched - 7;
          },
          [&] { if_(i > 2, [&] { odd += local; }); });
    }
    store(out, even);
    store(out + 1, odd);
  }));
  const Op* loop = find_op(k.body, OpCode::kFor);
  EXPECT_EQ(loop->operands.size(), 3u + 2u);
  EXPECT_EQ(run_ints(k, 8, 2), (std::vector<int32_t>{0 + 1 + 6 + 15, 3 + 5 + 7}));
}

TEST(BuilderIf, ResultsStandInTheOrderOfDeclaration) {
  Kernel k = traced(kernel("k", {"n"}, [](i32 n) {
    Var a = 1.0f, b = 2;
    if_(n > 0, [&] { b += 1; }, [&] { a += 1; });
    check((b > 0) & (a > 0), "used");
  }));
  const Op* op = find_op(k.body, OpCode::kIf);
  EXPECT_EQ(k.type(op->results[0]).element, ElementType::kF32);
  EXPECT_EQ(k.type(op->results[1]).element, ElementType::kI32);
}

TEST(BuilderIf, OnAConstFoldsAndTheOtherBranchMayBeIllShaped) {
  Kernel k = traced(kernel("k", {"out", "n", "A", "B"}, [](Ptr<i32> out, i32 n, Const A, Const B) {
    const V x = arange(0, A), y = arange(0, B);
    Var total = 0;
    if_(A == B, [&] { total = sum(x + y, 0); }, [&] { total = sum(x, 0) - n; });
    store(out, total);
  }));
  EXPECT_EQ(run_ints(k, 100, 1, {{"A", 4}, {"B", 4}})[0], 12);
  EXPECT_EQ(run_ints(k, 100, 1, {{"A", 4}, {"B", 8}})[0], 6 - 100);
  EXPECT_EQ(count_ops(instantiate(k, {{"A", 4}, {"B", 8}}, {})->body, OpCode::kIf), 0);
}

TEST(BuilderIf, AVariableMayChangeItsTypeInBothBranches) {
  Kernel k = traced(kernel("k", {"out", "n"}, [](Ptr<f32> out, i32 n) {
    Var x = n;
    if_(n > 0, [&] { x = cast(n, f32_t); }, [&] { x = full({}, 2, f32_t); });
    store(out, x);
  }));
  std::vector<float> out(1);
  run(k, {}, {buffer(out), number(int64_t{3})});
  EXPECT_EQ(out[0], 3);
}

TEST(BuilderRange, OnConstsFolds) {
  Kernel k = traced(kernel("k", {"out", "n", "A"}, [](Ptr<i32> out, i32 n, Const A) {
    Var total = n;
    for (V i : range(0, A, 4)) total += i + 1;
    store(out, total);
  }));
  EXPECT_EQ(count_ops(instantiate(k, {{"A", 4}}, {})->body, OpCode::kFor), 0);
  EXPECT_EQ(run_ints(k, 10, 1, {{"A", 0}})[0], 10);
  EXPECT_EQ(run_ints(k, 10, 1, {{"A", 4}})[0], 11);
  EXPECT_EQ(run_ints(k, 10, 1, {{"A", 12}})[0], 10 + 1 + 5 + 9);
}

// How many steps until 1, by Collatz.
TEST(BuilderWhile, CarriesWhatTheBodyAssigns) {
  Kernel k = traced(kernel("k", {"out", "n"}, [](Ptr<i32> out, i32 n) {
    Var x = n, steps = 0, one = 1;
    while_([&] { return x != one; },
           [&] {
             x = if_(x % 2 == 0, [&] { return x / 2; }, [&] { return x * 3 + 1; });
             steps += one;
           });
    store(out, steps);
  }));
  const Op* op = find_op(k.body, OpCode::kWhile);
  EXPECT_EQ(op->operands.size(), 2u);
  EXPECT_EQ(op->regions[0].args.size(), 2u);
  EXPECT_EQ(run_ints(k, 6, 1)[0], 8);
  EXPECT_EQ(run_ints(k, 1, 1)[0], 0);
}

TEST(BuilderWhile, InsideALoop) {
  Kernel k = traced(kernel("k", {"out", "n"}, [](Ptr<i32> out, i32 n) {
    Var bits = 0;
    for (V i : range(n)) {
      Var rest = i;
      while_([&] { return rest != 0; },
             [&] {
               bits += rest & 1;
               rest = rest >> 1;
             });
    }
    store(out, bits);
  }));
  EXPECT_EQ(run_ints(k, 16, 1)[0], 32);
}

class BuilderControlErrors : public testing::Test {
 protected:
  template <class Def>
  void expect(const Def& def, const std::string& text) {
    expect_error(def, __FILE__, line, text);
  }
  int line = 0;
};

TEST_F(BuilderControlErrors, Conditions) {
  expect(kernel("k", {"n"}, [&](i32 n) { line = __LINE__, if_(n, [] {}); }),
         "if_: the condition must be a scalar i1, not i32");
  expect(kernel("k", {}, [&] { line = __LINE__, if_(arange(0, 4) < 2, [] {}); }), "not tile<[4], i1>");
  expect(kernel("k", {}, [&] { line = __LINE__, if_(1.5, [] {}); }), "must be a scalar i1; compare with 0");
  expect(kernel("k", {"n"}, [&](i32 n) { line = __LINE__, while_([&] { return n; }, [] {}); }),
         "while_: the condition must be a scalar i1, not i32");
}

TEST_F(BuilderControlErrors, Branches) {
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  line = __LINE__ + 1;
                  if_(n > 0, [&] { return std::vector<V>{n}; }, [&] { return std::vector<V>{n, n}; });
                }),
         "if_: the first branch gives 1 values, the second 2");
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  Var x = n;
                  line = __LINE__, if_(n > 0, [&] { x = zeros(f32_t, {4}); });
                }),
         "after the first branch and i32 after the second; give it one type in both");
  expect(
      kernel("k", {"n", "u"}, [&](i32 n, u32 u) { line = __LINE__, if_(n > 0, [&] { return n; }, [&] { return u; }); }),
      "if_: i32 and u32 have the same width and different signedness");
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  line = __LINE__ + 1;
                  if_(n > 0, [] { return arange(0, 3); }, [] { return arange(0, 4); });
                }),
         "do not broadcast: 3 against 4");
}

TEST_F(BuilderControlErrors, ValuesStayInTheirRegion) {
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  V x;
                  if_(n > 0, [&] { x = n + 1; });
                  line = __LINE__, x + 1;
                }),
         "a value computed inside a branch is used outside of it; return it from both branches");
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  V x;
                  if_(n > 0, [&] { x = n + 1; }, [&] { line = __LINE__, x + 1; });
                }),
         "a value computed inside a branch is used outside of it");
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  V x;
                  while_([&] { return (x = n + 1) > 0; }, [&] { line = __LINE__, x + 1; });
                }),
         "a value computed inside the condition of a while_ is used outside of it");
}

TEST_F(BuilderControlErrors, TheConditionOfAWhileAssignsNothing) {
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  Var x = n;
                  while_([&] { return line = __LINE__, x -= 1, x > 0; }, [] {});
                }),
         "the condition of a while_ cannot assign a Var");
}

TEST_F(BuilderControlErrors, ABreakInABranchIsTheLoops) {
  auto def = kernel("k", {"n"}, [&](i32 n) {
    Var x = n;
    if_(n > 0, [&] {
      line = __LINE__ + 1;
      for (V i : range(n)) {
        x += i;
        return;
      }
    });
    x += 1;
  });
  expect(def, "`break` or `return` left the body of this loop");
}

// The author's exception passes; what is traced afterwards goes where it belongs.
TEST_F(BuilderControlErrors, AnExceptionLeavesTheTraceSane) {
  auto def = kernel("k", {"out", "n"}, [&](Ptr<i32> out, i32 n) {
    Var x = n;
    try {
      line = __LINE__ + 1;
      if_(n > 0, [&] {
        x += 1;
        for ([[maybe_unused]] V i : range(n)) throw 7;
      });
    } catch (int) {
    }
    x += 1;
    store(out, x);
  });
  expect(def, "an exception left a function that was being traced");
  EXPECT_EQ(def.ir().error().message.find("is used"), std::string::npos) << def.ir().error().message;
}

}  // namespace
}  // namespace kiln::dsl

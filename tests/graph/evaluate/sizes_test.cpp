// Sizes of dims from inputs, and what is wrong with inputs.
#include <limits>

#include "evaluate/arrays.h"

namespace kiln::graph::evaluating {
namespace {

using enum ElementType;
using enum TensorOp;

Array zeros(ElementType element, std::vector<int64_t> shape) { return own(element, std::move(shape)); }

// x [n, m] and w [m, 2n + 1] and the extents as a tensor.
Graph two_inputs() {
  Maker make;
  const Expr n = make.dim("n", 2, 100), m = make.dim("m", 0, DimInfo::kMost, 4);
  make.in("x", kF32, {n, m});
  make.in("w", kF32, {m, 2 * n + 1});
  make.out(make.op(kExtent, {}, {kI64, n * m}));
  return make.take();
}

TEST(EvaluateSizes, ComeFromExtents) {
  EXPECT_EQ(shown(two_inputs(), {zeros(kF32, {3, 8}), zeros(kF32, {8, 7})}), "i64[]: 24");
  EXPECT_EQ(shown(two_inputs(), {zeros(kF32, {3, 0}), zeros(kF32, {0, 7})}), "i64[]: 0");
  EXPECT_EQ(shown(two_inputs(), {zeros(kF32, {3, 8}), zeros(kF32, {8, 7})}, {{"n", 3}}), "i64[]: 24");
}

TEST(EvaluateSizes, AreSolvedWhereLinear) {
  Maker make;
  const Expr n = make.dim("n"), m = make.dim("m");
  make.in("x", kF32, {n * m});      // says m once n is known
  make.in("y", kF32, {3 * n - 2});  // says n
  make.out(make.op(kExtent, {}, {kI32, n + 1000 * m}));
  EXPECT_EQ(shown(make.take(), {zeros(kF32, {20}), zeros(kF32, {13})}), "i32[]: 4005");
}

TEST(EvaluateSizes, ThatNoInputSaysAreGiven) {
  Maker make;
  const Expr n = make.dim("n", 1, 8);
  make.out(make.op(kIota, {}, {kF32, std::vector<Expr>{n}, int64_t{0}}));
  const Graph graph = make.take();
  EXPECT_EQ(shown(graph, {}, {{"n", 3}}), "f32[3]: 0 1 2");
  EXPECT_EQ(failure(graph, {}),
            "model.cpp:1:1: iota of type f32[n]: no input says what the dim `n` is, and it was not given");
  EXPECT_EQ(failure(graph, {}, {{"k", 3}}), "graph `test` has no dim `k`");
  EXPECT_EQ(failure(graph, {}, {{"n", 9}}), "n is 9 by what was given; the graph is for 1 … 8");
}

TEST(EvaluateSizes, ErrorsNameTheInputAndWhatIsDeclared) {
  const Graph graph = two_inputs();
  const Array x = zeros(kF32, {3, 8}), w = zeros(kF32, {8, 7});
  EXPECT_EQ(failure(graph, {x}), "graph `test` takes 2 inputs, not 1");
  EXPECT_EQ(failure(graph, {zeros(kF64, {3, 8}), w}), "input `x` is f64[3, 8]; the graph declares f32[n, m]");
  EXPECT_EQ(failure(graph, {zeros(kF32, {3}), w}), "input `x` is f32[3]; the graph declares f32[n, m]");
  EXPECT_EQ(failure(graph, {x, zeros(kF32, {8, 9})}),
            "input `w` is f32[8, 9]; the graph declares f32[m, 2*n + 1]: axis 1 is 9, not 7, where n is 3 by axis 0 of "
            "input `x`");
  EXPECT_EQ(failure(graph, {x, zeros(kF32, {4, 7})}),
            "input `w` is f32[4, 7]; the graph declares f32[m, 2*n + 1]: axis 0 is 4, not 8, where m is 8 by axis 1 of "
            "input `x`");
  EXPECT_EQ(failure(graph, {zeros(kF32, {1, 8}), zeros(kF32, {8, 3})}),
            "n is 1 by axis 0 of input `x`; the graph is for 2 … 100");
  EXPECT_EQ(failure(graph, {zeros(kF32, {3, 6}), zeros(kF32, {6, 7})}),
            "m is 6 by axis 1 of input `x`; the graph is for multiples of 4");
  Maker more;
  more.out(more.in("x", kF32, {more.dim("n")}));
  EXPECT_EQ(failure(more.take(), {zeros(kF32, {0})}), "n is 0 by axis 0 of input `x`; the graph is for 1 and more");
  EXPECT_EQ(failure(graph, {x, w}, {{"n", 5}}),
            "input `x` is f32[3, 8]; the graph declares f32[n, m]: axis 0 is 3, not 5, where n is 5 by what was given");
}

TEST(EvaluateSizes, ErrorsOfUnsolvableExtents) {
  Maker make;
  const Expr n = make.dim("n"), m = make.dim("m");
  make.in("x", kF32, {n * m});
  make.out(make.op(kExtent, {}, {kI64, n}));
  const Graph product = make.take();
  EXPECT_EQ(failure(product, {zeros(kF32, {6})}),
            "input `x` is f32[6]; the graph declares f32[n*m]: axis 0 is 6; no input says what n is; no input says "
            "what m is");
  Maker odd;
  odd.in("x", kF32, {2 * odd.dim("n")});
  odd.out(odd.op(kExtent, {}, {kI64, Expr(1)}));
  EXPECT_EQ(failure(odd.take(), {zeros(kF32, {7})}),
            "input `x` is f32[7]; the graph declares f32[2*n]: axis 0 is 7; no input says what n is");
}

TEST(EvaluateSizes, ArraysThemselvesAreChecked) {
  Maker make;
  make.out(make.in("x", kF32, {make.dim("n", 0)}));
  const Graph graph = make.take();
  Array array{kF32, {2}, {}, nullptr, nullptr};
  EXPECT_EQ(failure(graph, {array}), "input `x` has 0 strides for the shape [2]");
  array.strides = {1};
  EXPECT_EQ(failure(graph, {array}), "input `x` is f32[2], but its data are null");
  array.shape = {-1};
  EXPECT_EQ(failure(graph, {array}), "input `x` is f32[-1]: an extent is below 0");
  array.shape = {std::numeric_limits<int64_t>::max()};
  EXPECT_EQ(failure(graph, {array}), "input `x` is f32[9223372036854775807]: more elements than memory can have");
  array.shape = {0};
  EXPECT_EQ(shown(graph, {array}), "f32[0]:");
}

// x [n] exp exp …: three values at once, where operands are dropped behind their last use.
TEST(EvaluateMemory, IsLimitedBeforeAnythingIsComputed) {
  Maker make;
  const Expr n = make.dim("n");
  ValueId x = make.in("x", kF32, {n});
  for (int i = 0; i < 20; ++i) x = make.op(kAdd, {x, x});
  make.out(x);
  const Graph graph = make.take();
  const Array input = zeros(kF32, {1000});
  EXPECT_TRUE(evaluate(graph, std::vector{input}, {}, {.memory_limit = 8000}));
  EXPECT_EQ(failure(graph, {input}, {}, {.memory_limit = 7999}),
            "graph `test` needs 8000 bytes to be evaluated, the limit is 7999; most at model.cpp:2:1: add : f32[n]");
  // One element that stands for 2^40 is no input to be afraid of; what is made of it is.
  Array wide = zeros(kF32, {1});
  wide.shape = {int64_t{1} << 40};
  wide.strides = {0};
  EXPECT_NE(failure(graph, {wide}).find("needs 8796093022208 bytes"), std::string::npos);
}

TEST(EvaluateMemory, ViewsAndSplatsTakeNone) {
  Maker make;
  const Expr n = make.dim("n");
  const ValueId x = make.in("x", kF32, {n});
  const ValueId wide = make.op(kBroadcast, {x}, {std::vector<Expr>{1000, n}});
  const ValueId turned = make.op(kPermute, {wide}, {std::vector<int64_t>{1, 0}});
  const ValueId part =
      make.op(kSlice, {turned}, {std::vector<Expr>{0, 0}, std::vector<Expr>{n, 1}, std::vector<int64_t>{1, 1}});
  make.out(part);
  EXPECT_TRUE(evaluate(make.take(), std::vector{zeros(kF32, {10})}, {}, {.memory_limit = 40}));
}

TEST(EvaluateMemory, CountsWhatLoopsAndProductsNeed) {
  Maker make;
  const Expr n = make.dim("n", 1, 1 << 20);
  const ValueId x = make.in("x", kF32, {n});
  using Ints = std::vector<int64_t>;
  make.out(make.op(kDot, {x, x}, {Ints{}, Ints{}, Ints{}, Ints{}, kF32, int64_t{0}}));
  const std::string text = failure(make.take(), {zeros(kF32, {1 << 20})});
  EXPECT_NE(text.find("bytes to be evaluated, the limit is 8589934592; most at model.cpp:1:1: dot : f32[n, n]"),
            std::string::npos)
      << text;
}

TEST(Evaluate, OutputsAreArraysOfTheirOwn) {
  Maker make;
  const ValueId x = make.in("x", kI32, {4});
  make.out(x);
  make.out(x);
  make.out(make.op(kReverse, {x}, {std::vector<int64_t>{0}}));
  const Array input = array_of(kI32, {4}, {1, 2, 3, 4});
  auto got = evaluate(make.take(), std::vector{input});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_NE((*got)[0].data, input.data);
  EXPECT_NE((*got)[0].data, (*got)[1].data);
  EXPECT_EQ((*got)[2].strides, std::vector<int64_t>{1});
  EXPECT_EQ(show((*got)[2]), "i32[4]: 4 3 2 1");
}

TEST(Evaluate, ZeroStridesRepeat) {
  Maker make;
  const Expr n = make.dim("n");
  const ValueId x = make.in("x", kF32, {n, 3});
  make.out(make.op(kReduce, {x}, {int64_t{0}, std::vector<int64_t>{0}, int64_t{0}}));
  Array row = array_of(kF32, {1, 3}, {1, 2, 3});
  row.shape = {5, 3};
  row.strides = {0, 1};
  EXPECT_EQ(shown(make.take(), {row}), "f32[3]: 5 10 15");
}

TEST(Evaluate, BytesOfI1OtherThan0And1AreTrue) {
  Maker make;
  const ValueId x = make.in("x", kI1, {3});
  make.out(make.op(kNot, {x}));
  make.out(make.op(kCast, {x}, {kI32}));
  const uint8_t bytes[] = {0, 1, 2};
  const Array input{kI1, {3}, {1}, reinterpret_cast<const std::byte*>(bytes), nullptr};
  auto got = evaluate(make.take(), std::vector{input});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(show((*got)[0]), "i1[3]: 1 0 0");
  EXPECT_EQ(show((*got)[1]), "i32[3]: 0 1 1");
}

TEST(Evaluate, WideKeepsWhatTheTypeWouldRound) {
  Maker make;
  const ValueId x = make.in("x", kF16, {2}), y = make.in("y", kF16, {2});
  make.out(make.op(kSub, {make.op(kAdd, {x, y}), x}));
  make.out(make.op(kBitcast, {make.op(kAdd, {x, y})}, {kI16}));
  const Graph graph = make.take();
  const std::vector<Array> inputs = {array_of(kF16, {2}, {2048, 1}), array_of(kF16, {2}, {1, 0.0004})};
  auto narrow = evaluate(graph, inputs), wide = evaluate(graph, inputs, {}, {.wide = true});
  ASSERT_TRUE(narrow && wide);
  EXPECT_EQ(show((*narrow)[0]), "f16[2]: 0 0");
  EXPECT_EQ((*wide)[0].element, kF64);
  EXPECT_EQ((*wide)[0].number(0), 1.0);
  EXPECT_NEAR((*wide)[0].number(1), 0.0004, 1e-7);
  EXPECT_TRUE(same_bits((*narrow)[1], (*wide)[1]));  // bits are those of the declared type
}

// Nodes in a row are no frames on the stack.
TEST(Evaluate, ChainsOfAnyLength) {
  Maker make;
  ValueId x = make.in("x", kI64, {});
  const ValueId one = make.in("one", kI64, {});
  for (int i = 0; i < 100000; ++i) x = make.op(i % 2 == 0 ? kAdd : kXor, {x, one});
  make.out(x);
  int64_t expected = 5;
  for (int i = 0; i < 100000; ++i) expected = i % 2 == 0 ? expected + 3 : expected ^ 3;
  EXPECT_EQ(shown(make.take(), {array_of(kI64, {}, {5}), array_of(kI64, {}, {3})}),
            "i64[]: " + std::to_string(expected));
}

}  // namespace
}  // namespace kiln::graph::evaluating

// Bodies: loops, conditions, calls, custom reductions and scans, kernels.
#include "evaluate/arrays.h"

namespace kiln::graph::evaluating {
namespace {

using enum ElementType;
using enum TensorOp;
using Ints = std::vector<int64_t>;

// h' = a·h + x with h stacked: a recurrence over the first axis of x [n, 2].
Graph recurrence(bool reverse) {
  Maker make;
  const Expr n = make.dim("n", 0);
  make.open("step");
  const ValueId h = make.in("h", kF32, {2}), x = make.in("x", kF32, {2}), a = make.in("a", kF32, {2});
  const ValueId next = make.op(kFma, {a, h, x});
  make.out(next);
  make.out(next);
  const int64_t body = make.close();
  const ValueId h0 = make.in("h0", kF32, {2}), xs = make.in("xs", kF32, {n, 2}), decay = make.in("a", kF32, {2});
  const auto results = make.ops(kLoop, {h0, xs, decay}, {body, int64_t{1}, int64_t{1}, n, int64_t{reverse}});
  make.out(results[0]);
  make.out(results[1]);
  return make.take();
}

TEST(EvaluateControl, LoopsCarryReadAndStack) {
  const std::vector<Array> inputs = {array_of(kF32, {2}, {1, 2}), turned(array_of(kF32, {3, 2}, {1, 10, 2, 20, 3, 30})),
                                     array_of(kF32, {2}, {2, 0.5})};
  auto forward = evaluate(recurrence(false), inputs);
  ASSERT_TRUE(forward) << forward.error().message;
  EXPECT_EQ(show((*forward)[0]), "f32[2]: 19 42.75");
  EXPECT_EQ(show((*forward)[1]), "f32[3, 2]: 3 11 8 25.5 19 42.75");
  auto backward = evaluate(recurrence(true), inputs);
  ASSERT_TRUE(backward) << backward.error().message;
  EXPECT_EQ(show((*backward)[0]), "f32[2]: 25 27.75");
  EXPECT_EQ(show((*backward)[1]), "f32[3, 2]: 25 27.75 12 35.5 5 31");
}

TEST(EvaluateControl, LoopsOfNoPassGiveTheFirstValues) {
  auto got = evaluate(recurrence(false), std::vector{array_of(kF32, {2}, {1, 2}), own(kF32, {0, 2}), own(kF32, {2})});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(show((*got)[0]), "f32[2]: 1 2");
  EXPECT_EQ(show((*got)[1]), "f32[0, 2]:");
}

TEST(EvaluateControl, ConditionsRunOneBody) {
  Maker make;
  make.open("then");
  const ValueId a = make.in("x", kI32, {2}), i = make.in("i", kI64, {2});
  make.out(make.op(kGather, {a, i}, {int64_t{0}}));
  const int64_t then = make.close();
  make.open("otherwise");
  const ValueId b = make.in("x", kI32, {2});
  make.in("i", kI64, {2});
  make.out(make.op(kNeg, {b}));
  const int64_t otherwise = make.close();
  const ValueId p = make.in("p", kI1, {}), x = make.in("x", kI32, {2}), index = make.in("i", kI64, {2});
  make.out(make.op(kCond, {p, x, index}, {then, otherwise}));
  const Graph graph = make.take();
  const Array values = array_of(kI32, {2}, {3, 4});
  EXPECT_EQ(shown(graph, {array_of(kI1, {}, {1}), values, array_of(kI64, {2}, {1, 0})}), "i32[2]: 4 3");
  EXPECT_EQ(shown(graph, {array_of(kI1, {}, {0}), values, array_of(kI64, {2}, {9, 9})}), "i32[2]: -3 -4");
  EXPECT_EQ(failure(graph, {array_of(kI1, {}, {1}), values, array_of(kI64, {2}, {1, 9})}),
            "model.cpp:1:1: gather: index 9 at [1] is outside axis 0 of extent 2");
}

// @f1 calls @f0, @f2 calls @f1, ….
Graph nested(int depth) {
  Maker make;
  int64_t body = 0;
  for (int i = 0; i < depth; ++i) {
    make.open("f" + std::to_string(i));
    const ValueId x = make.in("x", kI32, {});
    make.out(i == 0 ? make.op(kAdd, {x, x}) : make.op(kCall, {make.op(kAdd, {x, x})}, {body, int64_t{0}}));
    body = make.close();
  }
  const ValueId x = make.in("x", kI32, {});
  make.out(make.op(kCall, {x}, {body, int64_t{0}}));
  return make.take();
}

TEST(EvaluateControl, CallsAsDeepAsIsAllowed) {
  EXPECT_EQ(shown(nested(10), {array_of(kI32, {}, {3})}), "i32[]: 3072");
  EXPECT_EQ(shown(nested(100), {array_of(kI32, {}, {3})}), "i32[]: 0");
  EXPECT_EQ(failure(nested(5000), {array_of(kI32, {}, {3})}), "body `f4899`: bodies inside bodies, deeper than 100");
}

// The greatest element and its place, of x [2, 3] and its numbers; the body has one output for each.
int64_t pick_greater(Maker& make) {
  make.open("greater");
  const ValueId a = make.in("a", kF32, {}), i = make.in("i", kI64, {}), b = make.in("b", kF32, {}),
                j = make.in("j", kI64, {});
  const ValueId left = make.op(kCmp, {a, b}, {int64_t{5}});
  make.out(make.op(kSelect, {left, a, b}));
  make.out(make.op(kSelect, {left, i, j}));
  return make.close();
}

TEST(EvaluateControl, CustomReductionsOfSeveralTensors) {
  for (const Ints& axes : {Ints{0}, Ints{1}, Ints{0, 1}, Ints{1, 0}}) {
    Maker make;
    const int64_t body = pick_greater(make);
    const ValueId x = make.in("x", kF32, {2, 3}), i = make.in("i", kI64, {2, 3});
    const ValueId low = make.in("low", kF32, {}), none = make.in("none", kI64, {});
    for (const ValueId y : make.ops(kReduceCustom, {x, i, low, none}, {body, axes, int64_t{0}})) make.out(y);
    auto got = evaluate(make.take(), std::vector{turned(array_of(kF32, {2, 3}, {1, 7, 3, 5, 7, 2})),
                                                 array_of(kI64, {2, 3}, {0, 1, 2, 3, 4, 5}), array_of(kF32, {}, {6}),
                                                 array_of(kI64, {}, {-1})});
    ASSERT_TRUE(got) << got.error().message;
    const std::string both = show((*got)[0]) + " " + show((*got)[1]);
    EXPECT_EQ(both, axes == Ints{0}   ? "f32[3]: 6 7 6 i64[3]: -1 1 -1"
                    : axes == Ints{1} ? "f32[2]: 7 7 i64[2]: 1 4"
                                      : "f32[]: 7 i64[]: 1");
  }
}

TEST(EvaluateControl, CustomReductionsOfNothingGiveTheInit) {
  Maker make;
  const int64_t body = pick_greater(make);
  const ValueId x = make.in("x", kF32, {2, make.dim("n", 0)}), i = make.op(kCast, {x}, {kI64});
  const ValueId low = make.in("low", kF32, {}), none = make.in("none", kI64, {});
  make.out(make.ops(kReduceCustom, {x, i, low, none}, {body, Ints{1}, int64_t{1}})[0]);
  EXPECT_EQ(shown(make.take(), {own(kF32, {2, 0}), array_of(kF32, {}, {6}), own(kI64, {})}), "f32[2, 1]: 6 6");
}

// h = f·h + x as an associative scan of pairs (f, x).
TEST(EvaluateControl, CustomScans) {
  for (const bool reverse : {false, true}) {
    Maker make;
    make.open("compose");
    const ValueId f = make.in("f", kF32, {}), x = make.in("x", kF32, {}), g = make.in("g", kF32, {}),
                  y = make.in("y", kF32, {});
    make.out(make.op(kMul, {f, g}));
    make.out(make.op(kFma, {g, x, y}));
    const int64_t body = make.close();
    const ValueId fs = make.in("fs", kF32, {2, 3}), xs = make.in("xs", kF32, {2, 3});
    make.out(make.ops(kScanCustom, {fs, xs}, {body, int64_t{1}, int64_t{reverse}})[1]);
    EXPECT_EQ(
        shown(make.take(), {array_of(kF32, {2, 3}, {9, 2, 3, 9, 1, 1}), array_of(kF32, {2, 3}, {1, 2, 3, 4, 5, 6})}),
        reverse ? "f32[2, 3]: 73 8 3 103 11 6" : "f32[2, 3]: 1 4 15 4 9 15");
  }
}

// A body that is no function of one element at a time runs scalar by scalar.
TEST(EvaluateControl, CustomReductionsWithOpsOfTensorsInside) {
  Maker make;
  make.open("norm");
  const ValueId a = make.in("a", kF32, {}), b = make.in("b", kF32, {});
  const ValueId row = make.op(kReshape, {a}, {std::vector<Expr>{1}}),
                other = make.op(kReshape, {b}, {std::vector<Expr>{1}});
  const ValueId both = make.op(kCat, {row, other}, {int64_t{0}});
  make.out(make.op(kReduce, {both}, {int64_t{0}, Ints{0}, int64_t{0}}));
  const int64_t body = make.close();
  const ValueId x = make.in("x", kF32, {2, 3}), zero = make.in("zero", kF32, {});
  make.out(make.op(kReduceCustom, {x, zero}, {body, Ints{1}, int64_t{0}}));
  EXPECT_EQ(shown(make.take(), {array_of(kF32, {2, 3}, {1, 2, 3, 4, 5, 6}), own(kF32, {})}), "f32[2]: 6 15");
}

}  // namespace
}  // namespace kiln::graph::evaluating

// Indices outside, and what only symbolic extents can get wrong.
#include "evaluate/arrays.h"

namespace kiln::graph::evaluating {
namespace {

using enum ElementType;
using enum TensorOp;
using Ints = std::vector<int64_t>;

Graph gather_rows(ElementType index) {
  Maker make;
  const Expr n = make.dim("n", 0);
  const ValueId x = make.in("x", kF32, {n, 2}), i = make.in("i", index, {make.dim("m", 0), 2});
  make.out(make.op(kGather, {x, i}, {int64_t{0}}));
  return make.take();
}

TEST(EvaluateIndex, OutsideIsAnErrorThatNamesThePlace) {
  const Array x = array_of(kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(shown(gather_rows(kI32), {x, array_of(kI32, {1, 2}, {-3, 2})}), "f32[1, 2]: 1 6");
  EXPECT_EQ(failure(gather_rows(kI32), {x, array_of(kI32, {2, 2}, {0, 0, 3, 0})}),
            "model.cpp:1:1: gather: index 3 at [1, 0] is outside axis 0 of extent 3");
  EXPECT_EQ(failure(gather_rows(kI8), {x, array_of(kI8, {2, 2}, {0, 0, 0, -4})}),
            "model.cpp:1:1: gather: index -4 at [1, 1] is outside axis 0 of extent 3");
  Array unsigned_index = own(kU64, {1, 2});
  set_bits(unsigned_index, 1, ~uint64_t{0});
  EXPECT_EQ(failure(gather_rows(kU64), {x, unsigned_index}),
            "model.cpp:1:1: gather: index 18446744073709551615 at [0, 1] is outside axis 0 of extent 3");
}

TEST(EvaluateIndex, OutsideIsNoErrorWhereNobodyLooks) {
  const Array x = array_of(kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  auto got =
      evaluate(gather_rows(kI32), std::vector{x, array_of(kI32, {1, 2}, {1, 1000000})}, {}, {.check_indices = false});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ((*got)[0].number(0), 3);
  // Of nothing there is nothing to take.
  EXPECT_EQ(
      failure(gather_rows(kI32), {own(kF32, {0, 2}), array_of(kI32, {1, 2}, {0, 0})}, {}, {.check_indices = false}),
      "model.cpp:1:1: gather: index 0 at [0, 0] is outside axis 0 of extent 0");
  EXPECT_EQ(shown(gather_rows(kI32), {own(kF32, {0, 2}), own(kI32, {0, 2})}), "f32[0, 2]:");
}

TEST(EvaluateIndex, ScatterAndPointsSayWhichAxis) {
  Maker make;
  const ValueId x = make.in("x", kI32, {2, 3}), i = make.in("i", kI64, {2}), j = make.in("j", kI64, {2});
  make.out(make.op(kIndex, {x, i, j}, {Ints{0, 1}}));
  const Graph points = make.take();
  const Array table = array_of(kI32, {2, 3}, {1, 2, 3, 4, 5, 6});
  EXPECT_EQ(shown(points, {table, array_of(kI64, {2}, {1, -1}), array_of(kI64, {2}, {0, 2})}), "i32[2]: 4 6");
  EXPECT_EQ(failure(points, {table, array_of(kI64, {2}, {1, -1}), array_of(kI64, {2}, {0, 3})}),
            "model.cpp:1:1: index: index 3 at [1] is outside axis 1 of extent 3");
  Maker put;
  const ValueId to = put.in("x", kI32, {3}), at = put.in("i", kI64, {2}), v = put.in("v", kI32, {2});
  put.out(put.op(kScatter, {to, at, v}, {int64_t{0}, int64_t{0}}));
  EXPECT_EQ(
      failure(put.take(), {array_of(kI32, {3}, {0, 0, 0}), array_of(kI64, {2}, {0, 7}), array_of(kI32, {2}, {1, 1})}),
      "model.cpp:1:1: scatter: index 7 at [1] is outside axis 0 of extent 3");
}

TEST(EvaluateIndex, TheLastOfDuplicatesStays) {
  Maker make;
  const ValueId x = make.in("x", kI32, {3}), i = make.in("i", kI64, {4}), v = make.in("v", kI32, {4});
  for (int64_t kind = 0; kind < 5; ++kind) make.out(make.op(kScatter, {x, i, v}, {int64_t{0}, kind}));
  auto got = evaluate(make.take(), std::vector{array_of(kI32, {3}, {1, 2, 3}), array_of(kI64, {4}, {0, 2, 0, -1}),
                                               array_of(kI32, {4}, {10, 20, 5, -30})});
  ASSERT_TRUE(got) << got.error().message;
  const char* expected[] = {"i32[3]: 5 2 -30", "i32[3]: 16 2 -7", "i32[3]: 50 2 -1800", "i32[3]: 1 2 -30",
                            "i32[3]: 10 2 20"};
  for (size_t kind = 0; kind < 5; ++kind) EXPECT_EQ(show((*got)[kind]), expected[kind]);
}

// Sums of f16 are kept in f32 until all values are in, and what nobody writes to keeps its bits.
TEST(EvaluateIndex, SmallFloatsAreRoundedOnce) {
  Maker make;
  const ValueId x = make.in("x", kF16, {2}), i = make.in("i", kI64, {4096}), v = make.in("v", kF16, {4096});
  make.out(make.op(kScatter, {x, i, v}, {int64_t{0}, int64_t{1}}));
  Array start = own(kF16, {2});
  set_bits(start, 1, 0x7d01);  // a signalling NaN
  auto got = evaluate(make.take(),
                      std::vector{start, own(kI64, {4096}), array_of(kF16, {4096}, std::vector<double>(4096, 1))});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ((*got)[0].number(0), 4096);
  EXPECT_EQ((*got)[0].bits(1), 0x7d01u);
}

TEST(EvaluateViews, RankSixteen) {
  Maker make;
  std::vector<Expr> shape(16, Expr(1)), other = shape;
  shape[3] = 2;
  shape[12] = 3;
  ValueId x = make.in("x", kI8, shape);
  Ints order(16), all;
  for (size_t i = 0; i < 16; ++i) order[i] = static_cast<int64_t>(15 - i);
  for (int64_t i = 0; i < 16; ++i) all.push_back(i);
  x = make.op(kPermute, {x}, {order});
  x = make.op(kAdd, {x, x});
  x = make.op(kReverse, {x}, {all});
  make.out(make.op(kReshape, {x}, {std::vector<Expr>{3, 2}}));
  make.out(make.op(kReduce, {x}, {int64_t{0}, all, int64_t{0}}));
  Ints extents(16, 1);
  extents[3] = 2;
  extents[12] = 3;
  auto got = evaluate(make.take(), std::vector{turned(array_of(kI8, extents, {1, 2, 3, 4, 5, 6}))});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(show((*got)[0]), "i8[3, 2]: 12 6 10 4 8 2");
  EXPECT_EQ(show((*got)[1]), "i8[]: 42");
}

}  // namespace
}  // namespace kiln::graph::evaluating

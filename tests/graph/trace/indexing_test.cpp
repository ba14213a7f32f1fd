// x(…) and set_at against NumPy: the elements are what NumPy 2.4 gives for the same indices.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "kiln/graph/evaluate.h"
#include "trace/lines.h"

namespace kiln::graph {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

// x = arange(24).reshape(2, 3, 4), and index tensors.
struct In {
  Tensor x;
  Tensor a, m, p, q, r, c, neg;
};

In make_in(const Tensor& x) {
  return {x,
          constant(i64, {3}, {1, 0, 1}),
          constant(i64, {2, 2}, {0, 1, 1, 1}),
          constant(i32, {2}, {1, 0}),
          constant(i32, {2}, {3, 1}),
          constant(i32, {2}, {2, 0}),
          constant(i64, {2, 1}, {0, 1}),
          constant(i64, {2}, {-1, 0})};
}

Array counted(std::vector<int64_t> shape) {
  int64_t count = 1;
  for (const int64_t extent : shape) count *= extent;
  std::vector<double> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return array_of(i32, std::move(shape), numbers);
}

std::vector<double> numbers(const Array& array) {
  std::vector<double> out;
  for (int64_t i = 0; i < array.count(); ++i) out.push_back(array.number(i));
  return out;
}

// The only output for x; an error fails the test.
Array run(const GraphDef& def) {
  if (!def.ir()) {
    ADD_FAILURE() << error_text(def);
    return own(i32, {});
  }
  auto out = evaluate(*def.ir(), {{counted({2, 3, 4})}});
  if (!out) {
    ADD_FAILURE() << out.error().message;
    return own(i32, {});
  }
  return (*out)[0];
}

struct Get {
  const char* numpy;
  Tensor (*get)(const In&);
  std::vector<int64_t> shape;
  std::vector<double> elements;
};

const std::vector<Get>& gets() {
  static const std::vector<Get> rows = {
      {"1", [](const In& in) { return in.x(1); }, {3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"-1", [](const In& in) { return in.x(-1); }, {3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"0,2,3", [](const In& in) { return in.x(0, 2, 3); }, {}, {11}},
      {":,1", [](const In& in) { return in.x(all, 1); }, {2, 4}, {4, 5, 6, 7, 16, 17, 18, 19}},
      {":,-1,2", [](const In& in) { return in.x(all, -1, 2); }, {2}, {10, 22}},
      {"0:2,1:3",
       [](const In& in) { return in.x(range(0, 2), range(1, 3)); },
       {2, 2, 4},
       {4, 5, 6, 7, 8, 9, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23}},
      {":,:,0:4:2",
       [](const In& in) { return in.x(all, all, range(0, 4, 2)); },
       {2, 3, 2},
       {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22}},
      {":,:,1:4:2",
       [](const In& in) { return in.x(all, all, range(1, 4, 2)); },
       {2, 3, 2},
       {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23}},
      {":,0:-1",
       [](const In& in) { return in.x(all, range(0, -1)); },
       {2, 2, 4},
       {0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 15, 16, 17, 18, 19}},
      {":,:,3::-1",
       [](const In& in) { return in.x(all, all, range(3, -1, -1)); },
       {2, 3, 4},
       {3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12, 19, 18, 17, 16, 23, 22, 21, 20}},
      {":,:,3:0:-2",
       [](const In& in) { return in.x(all, all, range(3, 0, -2)); },
       {2, 3, 2},
       {3, 1, 7, 5, 11, 9, 15, 13, 19, 17, 23, 21}},
      {":,:,-1::-2",
       [](const In& in) { return in.x(all, all, range(-1, -1, -2)); },
       {2, 3, 2},
       {3, 1, 7, 5, 11, 9, 15, 13, 19, 17, 23, 21}},
      {"-1:2",
       [](const In& in) { return in.x(range(-1, 2)); },
       {1, 3, 4},
       {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"1:1", [](const In& in) { return in.x(range(1, 1)); }, {0, 3, 4}, {}},
      {"...,0", [](const In& in) { return in.x(rest, 0); }, {2, 3}, {0, 4, 8, 12, 16, 20}},
      {"0,...,1", [](const In& in) { return in.x(0, rest, 1); }, {3}, {1, 5, 9}},
      {"...", [](const In& in) { return in.x(rest); }, {2, 3, 4}, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                                                   12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {":,...", [](const In& in) { return in.x(all, rest); }, {2, 3, 4}, {0,  1,  2,  3,  4,  5,  6,  7,
                                                                          8,  9,  10, 11, 12, 13, 14, 15,
                                                                          16, 17, 18, 19, 20, 21, 22, 23}},
      {"None", [](const In& in) { return in.x(none); }, {1, 2, 3, 4}, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                                                       12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {":,None,1", [](const In& in) { return in.x(all, none, 1); }, {2, 1, 4}, {4, 5, 6, 7, 16, 17, 18, 19}},
      {"None,...,None",
       [](const In& in) { return in.x(none, rest, none); },
       {1, 2, 3, 4, 1},
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"a", [](const In& in) { return in.x(in.a); }, {3, 3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                                                                 0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                                                 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {":,a", [](const In& in) { return in.x(all, in.a); }, {2, 3, 4}, {4,  5,  6,  7,  0,  1,  2,  3,
                                                                        4,  5,  6,  7,  16, 17, 18, 19,
                                                                        12, 13, 14, 15, 16, 17, 18, 19}},
      {":,:,a",
       [](const In& in) { return in.x(all, all, in.a); },
       {2, 3, 3},
       {1, 0, 1, 5, 4, 5, 9, 8, 9, 13, 12, 13, 17, 16, 17, 21, 20, 21}},
      {"m", [](const In& in) { return in.x(in.m); }, {2, 2, 3, 4}, {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11,
                                                                    12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                                                                    12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                                                                    12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {":,m", [](const In& in) { return in.x(all, in.m); }, {2, 2, 2, 4}, {0,  1,  2,  3,  4,  5,  6,  7,  4,  5,  6,
                                                                           7,  4,  5,  6,  7,  12, 13, 14, 15, 16, 17,
                                                                           18, 19, 16, 17, 18, 19, 16, 17, 18, 19}},
      {"p,r", [](const In& in) { return in.x(in.p, in.r); }, {2, 4}, {20, 21, 22, 23, 0, 1, 2, 3}},
      {":,r,q", [](const In& in) { return in.x(all, in.r, in.q); }, {2, 2}, {11, 1, 23, 13}},
      {"p,:,q", [](const In& in) { return in.x(in.p, all, in.q); }, {2, 3}, {15, 19, 23, 1, 5, 9}},
      {"0,:,q", [](const In& in) { return in.x(0, all, in.q); }, {2, 3}, {3, 7, 11, 1, 5, 9}},
      {":,1,q", [](const In& in) { return in.x(all, 1, in.q); }, {2, 2}, {7, 5, 19, 17}},
      {"1,r", [](const In& in) { return in.x(1, in.r); }, {2, 4}, {20, 21, 22, 23, 12, 13, 14, 15}},
      {"p,0", [](const In& in) { return in.x(in.p, 0); }, {2, 4}, {12, 13, 14, 15, 0, 1, 2, 3}},
      {"p,None,r", [](const In& in) { return in.x(in.p, none, in.r); }, {2, 1, 4}, {20, 21, 22, 23, 0, 1, 2, 3}},
      {"c,r",
       [](const In& in) { return in.x(in.c, in.r); },
       {2, 2, 4},
       {8, 9, 10, 11, 0, 1, 2, 3, 20, 21, 22, 23, 12, 13, 14, 15}},
      {":,1:3,q", [](const In& in) { return in.x(all, range(1, 3), in.q); }, {2, 2, 2}, {7, 5, 11, 9, 19, 17, 23, 21}},
      {"neg", [](const In& in) { return in.x(in.neg); }, {2, 3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                                                                     0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11}},
      {"p,:,3::-1",
       [](const In& in) { return in.x(in.p, all, range(3, -1, -1)); },
       {2, 3, 4},
       {15, 14, 13, 12, 19, 18, 17, 16, 23, 22, 21, 20, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8}},
      {"p,...,q,None", [](const In& in) { return in.x(in.p, rest, in.q, none); }, {2, 3, 1}, {15, 19, 23, 1, 5, 9}},
  };
  return rows;
}

TEST(Indexing, GetsWhatNumPyGets) {
  for (const Get& row : gets()) {
    SCOPED_TRACE(row.numpy);
    const Array y = run(graph("g", {input("x", i32, {2, 3, 4})}, [&](Tensor x) { return row.get(make_in(x)); }));
    EXPECT_THAT(y.shape, ElementsAreArray(row.shape));
    EXPECT_THAT(numbers(y), ElementsAreArray(row.elements));
  }
}

struct Put {
  const char* numpy;
  std::vector<Index> (*indices)(const In&);
  std::vector<int64_t> shape;  // of the values
  std::vector<double> values;
  ScatterKind kind;
  std::vector<double> elements;  // of x afterwards
};

const std::vector<Put>& puts() {
  static const std::vector<Put> rows = {
      {"1",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{1}; },
       {},
       {7},
       ScatterKind::kSet,
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7}},
      {"1",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{1}; },
       {},
       {7},
       ScatterKind::kAdd,
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30}},
      {":,1",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{all, 1}; },
       {4},
       {0, 10, 20, 30},
       ScatterKind::kSet,
       {0, 1, 2, 3, 0, 10, 20, 30, 8, 9, 10, 11, 12, 13, 14, 15, 0, 10, 20, 30, 20, 21, 22, 23}},
      {":,1",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{all, 1}; },
       {4},
       {0, 10, 20, 30},
       ScatterKind::kAdd,
       {0, 1, 2, 3, 4, 15, 26, 37, 8, 9, 10, 11, 12, 13, 14, 15, 16, 27, 38, 49, 20, 21, 22, 23}},
      {"0:2,1:3",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{range(0, 2), range(1, 3)}; },
       {},
       {-1},
       ScatterKind::kSet,
       {0, 1, 2, 3, -1, -1, -1, -1, -1, -1, -1, -1, 12, 13, 14, 15, -1, -1, -1, -1, -1, -1, -1, -1}},
      {"0:2,1:3",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{range(0, 2), range(1, 3)}; },
       {},
       {-1},
       ScatterKind::kAdd,
       {0, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 15, 16, 17, 18, 19, 20, 21, 22}},
      {":,:,3::-1",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{all, all, range(3, -1, -1)}; },
       {4},
       {0, 1, 2, 3},
       ScatterKind::kSet,
       {3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0}},
      {":,:,3::-1",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{all, all, range(3, -1, -1)}; },
       {4},
       {0, 1, 2, 3},
       ScatterKind::kAdd,
       {3, 3, 3, 3, 7, 7, 7, 7, 11, 11, 11, 11, 15, 15, 15, 15, 19, 19, 19, 19, 23, 23, 23, 23}},
      {"...,0",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{rest, 0}; },
       {3},
       {0, 1, 2},
       ScatterKind::kSet,
       {0, 1, 2, 3, 1, 5, 6, 7, 2, 9, 10, 11, 0, 13, 14, 15, 1, 17, 18, 19, 2, 21, 22, 23}},
      {"...,0",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{rest, 0}; },
       {3},
       {0, 1, 2},
       ScatterKind::kAdd,
       {0, 1, 2, 3, 5, 5, 6, 7, 10, 9, 10, 11, 12, 13, 14, 15, 17, 17, 18, 19, 22, 21, 22, 23}},
      {":,None,1",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{all, none, 1}; },
       {2, 1, 4},
       {0, 1, 2, 3, 4, 5, 6, 7},
       ScatterKind::kSet,
       {0, 1, 2, 3, 0, 1, 2, 3, 8, 9, 10, 11, 12, 13, 14, 15, 4, 5, 6, 7, 20, 21, 22, 23}},
      {":,None,1",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{all, none, 1}; },
       {2, 1, 4},
       {0, 1, 2, 3, 4, 5, 6, 7},
       ScatterKind::kAdd,
       {0, 1, 2, 3, 4, 6, 8, 10, 8, 9, 10, 11, 12, 13, 14, 15, 20, 22, 24, 26, 20, 21, 22, 23}},
      {"p",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{in.p}; },
       {2, 1, 1},
       {0, 100},
       ScatterKind::kSet,
       {100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 100, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
      {"p",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{in.p}; },
       {2, 1, 1},
       {0, 100},
       ScatterKind::kAdd,
       {100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {":,r,q",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{all, in.r, in.q}; },
       {2, 2},
       {0, 1, 2, 3},
       ScatterKind::kSet,
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 0, 12, 3, 14, 15, 16, 17, 18, 19, 20, 21, 22, 2}},
      {":,r,q",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{all, in.r, in.q}; },
       {2, 2},
       {0, 1, 2, 3},
       ScatterKind::kAdd,
       {0, 2, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 16, 14, 15, 16, 17, 18, 19, 20, 21, 22, 25}},
      {"p,:,q",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{in.p, all, in.q}; },
       {2, 3},
       {0, 1, 2, 3, 4, 5},
       ScatterKind::kSet,
       {0, 3, 2, 3, 4, 4, 6, 7, 8, 5, 10, 11, 12, 13, 14, 0, 16, 17, 18, 1, 20, 21, 22, 2}},
      {"p,:,q",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{in.p, all, in.q}; },
       {2, 3},
       {0, 1, 2, 3, 4, 5},
       ScatterKind::kAdd,
       {0, 4, 2, 3, 4, 9, 6, 7, 8, 14, 10, 11, 12, 13, 14, 15, 16, 17, 18, 20, 20, 21, 22, 25}},
      {"0,:,q",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{0, all, in.q}; },
       {2, 3},
       {0, 1, 2, 3, 4, 5},
       ScatterKind::kSet,
       {0, 3, 2, 0, 4, 4, 6, 1, 8, 5, 10, 2, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"0,:,q",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{0, all, in.q}; },
       {2, 3},
       {0, 1, 2, 3, 4, 5},
       ScatterKind::kAdd,
       {0, 4, 2, 3, 4, 9, 6, 8, 8, 14, 10, 13, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {":,1:3,q",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{all, range(1, 3), in.q}; },
       {2, 2, 2},
       {0, 1, 2, 3, 4, 5, 6, 7},
       ScatterKind::kSet,
       {0, 1, 2, 3, 4, 1, 6, 0, 8, 3, 10, 2, 12, 13, 14, 15, 16, 5, 18, 4, 20, 7, 22, 6}},
      {":,1:3,q",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{all, range(1, 3), in.q}; },
       {2, 2, 2},
       {0, 1, 2, 3, 4, 5, 6, 7},
       ScatterKind::kAdd,
       {0, 1, 2, 3, 4, 6, 6, 7, 8, 12, 10, 13, 12, 13, 14, 15, 16, 22, 18, 23, 20, 28, 22, 29}},
      {"...",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{rest}; },
       {4},
       {0, 1, 2, 3},
       ScatterKind::kSet,
       {0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3}},
      {"...",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{rest}; },
       {4},
       {0, 1, 2, 3},
       ScatterKind::kAdd,
       {0, 2, 4, 6, 4, 6, 8, 10, 8, 10, 12, 14, 12, 14, 16, 18, 16, 18, 20, 22, 20, 22, 24, 26}},
      {"0,2,3",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{0, 2, 3}; },
       {},
       {-5},
       ScatterKind::kSet,
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, -5, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"0,2,3",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{0, 2, 3}; },
       {},
       {-5},
       ScatterKind::kAdd,
       {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 6, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23}},
      {"a",
       []([[maybe_unused]] const In& in) { return std::vector<Index>{in.a}; },
       {},
       {1},
       ScatterKind::kAdd,
       {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25}},
  };
  return rows;
}

TEST(Indexing, SetsAndAddsWhereNumPyDoes) {
  for (const Put& row : puts()) {
    SCOPED_TRACE(std::string(row.numpy) + (row.kind == ScatterKind::kSet ? " =" : " +="));
    const Array y = run(graph("g", {input("x", i32, {2, 3, 4})}, [&](Tensor x) {
      const Tensor values = constant(i32, row.shape, row.values);
      return set_at(x, row.indices(make_in(x)), values, row.kind);
    }));
    EXPECT_THAT(numbers(y), ElementsAreArray(row.elements));
  }
}

// Views where views do: no gather.
TEST(Indexing, NodesOfPlainIndices) {
  const Dim n = dim("n", 4);
  const auto nodes = [&](const std::function<Tensor(Tensor)>& get) {
    return node_lines(graph("g", {input("x", f32, {n, 6})}, get));
  };
  EXPECT_THAT(nodes([](Tensor x) { return x(all, all); }), ElementsAre());
  EXPECT_THAT(nodes([](Tensor x) { return x(rest); }), ElementsAre());
  EXPECT_THAT(nodes([&](Tensor x) { return x(range(0, n)); }), ElementsAre());
  EXPECT_THAT(nodes([](Tensor x) { return x(-1); }),
              ElementsAre("slice f32[n, 6] {start=[n - 1, 0], end=[n, 6], step=[1, 1]} -> f32[1, 6]",
                          "reshape f32[1, 6] {shape=[6]} -> f32[6]"));
  EXPECT_THAT(nodes([&](Tensor x) { return x(range(1, n - 1), range(5, -1, -2)); }),
              ElementsAre("slice f32[n, 6] {start=[1, 1], end=[n - 1, 6], step=[1, 2]} -> f32[n - 2, 3]",
                          "reverse f32[n - 2, 3] {axes=[1]} -> f32[n - 2, 3]"));
  EXPECT_THAT(nodes([](Tensor x) { return x(none, rest, none); }),
              ElementsAre("reshape f32[n, 6] {shape=[1, n, 6, 1]} -> f32[1, n, 6, 1]"));
}

// A state's next value: one node puts, with one index of the axis that is not whole.
TEST(Indexing, SetAtIsOneIndexPut) {
  const auto def = graph("g", {input("cache", f32, {4, 64, 8}), input("k", f32, {4, 8}), input("place", i64, {})},
                         [](Tensor cache, Tensor k, Tensor place) { return set_at(cache, {all, place}, k); });
  EXPECT_THAT(node_lines(def),
              ElementsAre("index_put f32[4, 64, 8], f32[4, 8], i64[] {axes=[1], kind=set} -> f32[4, 64, 8]"));
}

}  // namespace
}  // namespace kiln::graph

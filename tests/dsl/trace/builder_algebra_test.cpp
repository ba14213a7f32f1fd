// Products, reductions, scans and orders as authors write them, run on the interpreter.
#include <cmath>

#include "builder_helpers.h"

namespace kiln::dsl {
namespace {

using namespace kiln::lang;
using V = lang::Value;

// Runs a kernel that reads `in` and writes `count` elements of `out`.
template <class T, class In, class Def>
std::vector<T> outputs(const Def& def, const std::vector<In>& in, size_t count) {
  std::vector<T> out(count);
  run(traced(def), {}, {buffer(in), buffer(out)});
  return out;
}

const std::vector<int32_t> kInts = {3, 1, 4, 1, 5, 9, 2, 6};

template <class Fn>
std::vector<int32_t> of_ints(size_t count, Fn fn) {
  return outputs<int32_t>(kernel("k", {"x", "y"},
                                 [&](Ptr<const i32> x, Ptr<i32> y) {
                                   const V in = load(x + arange(0, 8));
                                   const V out = fn(in);
                                   store(out.rank() == 0 ? V(y) : y + arange(0, out.extent(0)), out);
                                 }),
                          kInts, count);
}
using Ints = std::vector<int32_t>;

TEST(BuilderReduce, ByKind) {
  EXPECT_EQ(of_ints(1, [](V x) { return reduce(x, 0, ReduceKind::kSum); }), Ints{31});
  EXPECT_EQ(of_ints(1, [](V x) { return reduce_and(x | 8, 0); }), Ints{8});
  EXPECT_EQ(of_ints(1, [](V x) { return reduce_or(x, 0); }), Ints{15});
  EXPECT_EQ(of_ints(1, [](V x) { return reduce_xor(x, -1); }), Ints{3 ^ 4 ^ 5 ^ 9 ^ 2 ^ 6});
  EXPECT_EQ(of_ints(1, [](V x) { return argmax(x, 0); }), Ints{5});
  EXPECT_EQ(of_ints(1, [](V x) { return argmin(x, 0); }), Ints{1});
}

TEST(BuilderReduce, ByAFunction) {
  EXPECT_EQ(of_ints(1, [](V x) { return reduce(x, 0, [](V l, V r) { return l + r; }); }), Ints{31});
  // It need not commute: the last element.
  EXPECT_EQ(of_ints(1, [](V x) { return reduce(x, 0, [](V, V r) { return r; }); }), Ints{6});
  Kernel k = traced(kernel("k", {"n"}, [](i32 n) {
    Var offset = n;  // read from outside
    reduce(arange(0, 4), 0, [&](V l, V r) { return min(l, r) + offset - offset; });
  }));
  EXPECT_EQ(find_op(k.body, OpCode::kReduce)->regions[0].args.size(), 2u);
}

TEST(BuilderReduce, OfSeveralTiles) {
  auto top = [](auto l, auto r) {
    const V right = (r[0] > l[0]) | ((r[0] == l[0]) & (r[1] < l[1]));
    return std::array{where(right, r[0], l[0]), where(right, r[1], l[1])};
  };
  auto code = [](V value, V index) { return value * 100 + index; };
  EXPECT_EQ(of_ints(1,
                    [&](V x) {
                      auto [value, index] = reduce({x, arange(0, 8)}, 0, top);
                      return code(value, index);
                    }),
            Ints{905});
  EXPECT_EQ(of_ints(1,
                    [&](V x) {
                      auto out = reduce(std::vector<V>{x, arange(0, 8)}, 0, top);
                      return code(out[0], out[1]);
                    }),
            Ints{905});
  EXPECT_EQ(of_ints(1,
                    [&](V x) {
                      auto [low, high] = reduce(std::pair(x, x), 0, [](auto l, auto r) {
                        return std::pair(min(l.first, r.first), max(l.second, r.second));
                      });
                      return code(high, low);
                    }),
            Ints{901});
}

TEST(BuilderScan, ByKindAndByFunction) {
  EXPECT_EQ(of_ints(8, [](V x) { return cumsum(x, 0); }), (Ints{3, 4, 8, 9, 14, 23, 25, 31}));
  EXPECT_EQ(of_ints(8, [](V x) { return cumsum(x, 0, {.reverse = true}); }), (Ints{31, 28, 27, 23, 22, 17, 8, 6}));
  EXPECT_EQ(of_ints(8, [](V x) { return cumprod(x % 3 + 1, 0); }), (Ints{1, 2, 4, 8, 24, 24, 72, 72}));
  EXPECT_EQ(of_ints(8, [](V x) { return scan(x, 0, ReduceKind::kMax); }), (Ints{3, 3, 4, 4, 5, 9, 9, 9}));
  EXPECT_EQ(of_ints(8, [](V x) { return scan(x, 0, [](V l, V r) { return l * 2 + r; }, {.reverse = true}); })[7], 6);
  EXPECT_EQ(of_ints(8,
                    [](V x) {
                      return scan({x, x}, 0,
                                  [](auto l, auto r) { return std::array{l[0] + r[0], max(l[1], r[1])}; })[1];
                    }),
            (Ints{3, 3, 4, 4, 5, 9, 9, 9}));
  traced(kernel("k", {"x"}, [](lang::i8 x) { EXPECT_EQ(cumsum(splat(x, {4}), 0).element(), ElementType::kI32); }));
}

TEST(BuilderOrder, SortTopkHistogram) {
  EXPECT_EQ(of_ints(8, [](V x) { return sort(x, 0); }), (Ints{1, 1, 2, 3, 4, 5, 6, 9}));
  EXPECT_EQ(of_ints(8, [](V x) { return sort(x, 0, {.descending = true}); }), (Ints{9, 6, 5, 4, 3, 2, 1, 1}));
  EXPECT_EQ(of_ints(8, [](V x) { return sort(x, arange(0, 8), 0).second; }), (Ints{1, 3, 6, 0, 2, 4, 7, 5}));
  EXPECT_EQ(of_ints(3, [](V x) { return topk(x, 3, 0).first; }), (Ints{9, 6, 5}));
  EXPECT_EQ(of_ints(2, [](V x) { return topk(x, 2, -1, {.largest = false}).second; }), (Ints{1, 3}));
  EXPECT_EQ(of_ints(4, [](V x) { return histogram(x, 4); }), (Ints{0, 2, 1, 1}));
}

TEST(BuilderDot, Batches) {
  std::vector<float> x(2 * 2 * 3), y(2 * 2 * 2);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  run(traced(kernel("k", {"x", "y"},
                    [](Ptr<const lang::f32> x, Ptr<lang::f32> y) {
                      const V a = tile(x, {2, 2, 3}).load({0, 0, 0}, {2, 2, 3});
                      tile(y, {2, 2, 2}).store({0, 0, 0}, dot(a, trans(a), {}, Precision::kTf32x3));
                    })),
      {}, {buffer(x), buffer(y)});
  EXPECT_EQ(y, (std::vector<float>{5, 14, 14, 50, 149, 212, 212, 302}));
}

TEST(BuilderDot, Scaled) {
  std::vector<float> y(1);
  Kernel k = traced(kernel("k", {"y"}, [](Ptr<lang::f32> y) {
    const V a = full({1, 64}, 1.5, f8e4m3_t), b = full({32, 1}, 0x22, u8_t);  // 0x22: two ones of e2m1
    const V scale = full({1, 2}, 128, u8_t);                                  // 2
    store(y, sum(sum(dot_scaled(a, scale, b, scale), 1), 0));
  }));
  run(k, {}, {buffer(y)});
  EXPECT_EQ(y[0], 64 * 1.5f * 2 * 2);
}

class BuilderAlgebraErrors : public testing::Test {
 protected:
  template <class Def>
  void expect(const Def& def, const std::string& text) {
    expect_error(def, __FILE__, line, text);
  }
  int line = 0;
};

TEST_F(BuilderAlgebraErrors, Functions) {
  expect(kernel("k", {"p"},
                [&](Ptr<i32> p) { reduce(arange(0, 4), 0, [&](V l, V) { return line = __LINE__, l + load(p); }); }),
         "load: is not allowed in a combining function, which holds elementwise ops on scalars");
  expect(kernel("k", {},
                [&] {
                  Var x = 0;
                  reduce(arange(0, 4), 0, [&](V l, V r) { return line = __LINE__, x = l, l + r; });
                }),
         "a combining function cannot assign a Var of outside");
  expect(kernel("k", {}, [&] { line = __LINE__, reduce(arange(0, 4), 0, [](V l, V r) { return l < r; }); }),
         "reduce: the function gives i1 for elements of i32; cast its result or the tile");
  expect(kernel("k", {}, [&] { line = __LINE__, scan(arange(0, 4), 1, [](V l, V) { return l; }); }),
         "scan: there is no axis 1 among 1");
  expect(kernel("k", {},
                [&] {
                  V kept;
                  reduce(arange(0, 4), 0, [&](V l, V) { return kept = l; });
                  line = __LINE__, kept + 1;
                }),
         "a value computed inside a combining function is used outside of it");
  expect(kernel("k", {},
                [&] {
                  const std::vector<V> two = {arange(0, 4), arange(0, 4)};
                  line = __LINE__, reduce(two, 0, [](auto l, auto) { return std::vector<V>{l[0]}; });
                }),
         "reduce: the function gives 1 values for 2 tiles");
}

TEST_F(BuilderAlgebraErrors, Kinds) {
  expect(kernel("k", {}, [&] { line = __LINE__, reduce_or(zeros(f32_t, {4}), 0); }), "and, or and xor are for ints");
  expect(kernel("k", {}, [&] { line = __LINE__, scan(arange(0, 4), 0, ReduceKind::kArgmax); }),
         "argmin and argmax are for reduce");
  expect(kernel("k", {}, [&] { line = __LINE__, topk(arange(0, 4), 5, 0); }), "k = 5 is not 1 to the extent 4");
  expect(kernel("k", {}, [&] { line = __LINE__, sort(arange(0, 4), 2); }), "sort: there is no axis 2");
  expect(kernel("k", {}, [&] { line = __LINE__, histogram(zeros(f32_t, {4}), 4); }), "takes a tile of ints");
  expect(kernel("k", {}, [&] { line = __LINE__, dot_scaled(arange(0, 4), 1, arange(0, 4), 1); }),
         "dot_scaled: takes tiles of rank 2");
  expect(kernel("k", {}, [&] { line = __LINE__, reduce(arange(0, 4), 0, ReduceKind::kCustom); }),
         "reduce: kCustom takes a function");
}

}  // namespace
}  // namespace kiln::dsl

// One tiny kernel per trace-time error: its text and its line.
#include "builder_helpers.h"

namespace kiln::dsl {
namespace {

using namespace kiln::lang;
using lang::f32;

// The line of an error is that of the statement after `line = __LINE__;` on the same line.
class BuilderErrors : public testing::Test {
 protected:
  template <class Def>
  void expect(const Def& def, const std::string& text) {
    expect_error(def, __FILE__, line, text);
  }
  int line = 0;
};

TEST_F(BuilderErrors, NumberThatDoesNotFit) {
  expect(kernel("k", {"x"}, [&](lang::i8 x) { line = __LINE__, x + 300; }), "300 is not a value of i8");
  expect(kernel("k", {"x"}, [&](u32 x) { line = __LINE__, x + -1; }), "-1 is not a value of u32");
  expect(kernel("k", {"x"}, [&](i32 x) { line = __LINE__, x * 0.5; }), "0.5 is not a value of i32; cast the tile");
  expect(kernel("k", {"x"}, [&](lang::f16 x) { line = __LINE__, x * 1e6; }), "1e+06 is not a value of f16");
  expect(kernel("k", {"x"}, [&](f32 x) { line = __LINE__, x + 16777217; }), "16777217 is not a value of f32");
  expect(kernel("k", {"x"}, [&](i64 x) { line = __LINE__, x + ~0ull; }), "18446744073709551615 is not a value of i64");
}

TEST_F(BuilderErrors, Signedness) {
  expect(kernel("k", {"a", "b"}, [&](i32 a, u32 b) { line = __LINE__, a + b; }),
         "add: i32 and u32 have the same width and different signedness; write cast(x, i32_t) or cast(x, u32_t)");
}

TEST_F(BuilderErrors, PointersInArithmetic) {
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, p * 2; }), "mul: takes no pointers (ptr<f32>)");
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, p + 1.5f; }), "addptr: the offset must be an int");
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, p - p; }), "sub: takes no pointers");
}

TEST_F(BuilderErrors, Shapes) {
  expect(kernel("k", {"A"}, [&](Const A) { line = __LINE__, arange(0, A) + arange(0, A + 1); }),
         "add: the shapes of tile<[A], i32> and tile<[A + 1], i32> do not broadcast: A against A + 1");
  expect(kernel("k", {}, [&] { line = __LINE__, broadcast_to(arange(0, 4), {8}); }),
         "broadcast_to: tile<[4], i32> does not broadcast to the shape of tile<[8], i32>");
  expect(kernel("k", {}, [&] { line = __LINE__, arange(4, 4); }), "an extent of 0 is below 1");
  expect(kernel("k", {}, [&] { line = __LINE__, splat(arange(0, 4), {2, 4}); }), "splat: takes a scalar");
}

TEST_F(BuilderErrors, Axes) {
  expect(kernel("k", {}, [&] { line = __LINE__, sum(arange(0, 4), 1); }), "reduce: there is no axis 1 among 1");
  expect(kernel("k", {}, [&] { line = __LINE__, expand_dims(arange(0, 4), -3); }), "expand_dims: there is no axis -3");
  expect(kernel("k", {}, [&] { line = __LINE__, permute(arange(0, 4), {1}); }), "order is not a permutation");
  expect(kernel("k", {}, [&] { line = __LINE__, trans(arange(0, 4)); }), "trans: takes tiles of rank 2 or more");
  expect(kernel("k", {}, [&] { line = __LINE__, program_id(3); }), "axis 3 is not 0, 1 or 2");
  expect(kernel("k", {}, [&] { line = __LINE__, softmax(zeros(f32_t, {4}), 1); }), "softmax: there is no axis 1");
}

TEST_F(BuilderErrors, WrongElements) {
  expect(kernel("k", {"x"}, [&](i32 x) { line = __LINE__, exp(x); }), "math: takes floats only (operands: i32)");
  expect(kernel("k", {"x"}, [&](f32 x) { line = __LINE__, x & x; }), "and: takes ints or i1 only");
  expect(kernel("k", {"x"}, [&](f32 x) { line = __LINE__, ~x; }), "~: takes ints or i1 only (f32)");
  expect(kernel("k", {"x"}, [&](i32 x) { line = __LINE__, !x; }), "!: takes i1 only; compare with 0 (i32)");
  expect(kernel("k", {"x"}, [&](i32 x) { line = __LINE__, where(x, 1, 2); }), "select: the condition must be i1");
  expect(kernel("k", {"x"}, [&](f32 x) { line = __LINE__, bitcast(x, i16_t); }), "bitcast to i16 changes the width");
}

TEST_F(BuilderErrors, Dot) {
  expect(kernel("k", {}, [&] { line = __LINE__, dot(zeros(f32_t, {4, 8}), zeros(f32_t, {4, 8})); }),
         "dot: the inner extents 8 and 4 differ");
  expect(kernel("k", {}, [&] { line = __LINE__, dot(arange(0, 4), arange(0, 4)); }), "dot: takes tiles of rank 2");
  expect(kernel("k", {}, [&] { line = __LINE__, dot(zeros(f32_t, {4, 8}), zeros(f16_t, {8, 4})); }),
         "a and b have different element types");
}

TEST_F(BuilderErrors, Memory) {
  expect(kernel("k", {"p"}, [&](Ptr<const f32> p) { line = __LINE__, store(p + arange(0, 4), 1); }),
         "store: the pointer comes from a Ptr<const T>");
  expect(kernel("k", {"p", "x"}, [&](Ptr<f32> p, f64 x) { line = __LINE__, store(p, x); }),
         "the stored value must have the pointer's element type f32");
  expect(kernel("k", {"x"}, [&](f32 x) { line = __LINE__, load(x); }), "load: the first operand must be a pointer");
  expect(kernel("k", {}, [&] { line = __LINE__, load(1); }), "load: the first operand must be a pointer");
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, load(p, {.other = 1}); }), "`other` without a mask");
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, load(p, {.mask = arange(0, 4) < 2}); }),
         "load: tile<[4], i1> does not broadcast to the shape of i1");
  expect(kernel("k", {"p", "n"}, [&](Ptr<f32> p, i32 n) { line = __LINE__, load(p, {.mask = n}); }),
         "the mask must be i1");
}

TEST_F(BuilderErrors, Tiles) {
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, tile(p, {1, 2, 3, 4}); }),
         "tile: takes 1 to 3 extents, not 4");
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, tile(p, {1, 2}, {1}); }),
         "tile: 1 strides for 2 extents");
  expect(kernel("k", {"x"}, [&](f32 x) { line = __LINE__, tile(x, {1}); }),
         "tile: the base must be a scalar pointer, not f32");
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, tile(p, {8, 8}).load({0}, {4, 4}); }),
         "tile: an array of rank 2 takes as many offsets and block extents, not 1 and 2");
}

TEST_F(BuilderErrors, Ranges) {
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  line = __LINE__ + 1;
                  for (lang::Value i : range(0, n, 0)) i + 1;
                }),
         "range: the step must be 1 or more, not 0");
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  line = __LINE__ + 1;
                  for (lang::Value i : range(n).stages(0)) i + 1;
                }),
         "range: stages must be 1 or more, not 0");
  expect(kernel("k", {"x"},
                [&](f32 x) {
                  line = __LINE__ + 1;
                  for (lang::Value i : range(0, x)) i + 1;
                }),
         "range: start, end and step must be scalar ints, not f32");
}

TEST_F(BuilderErrors, LeavingALoop) {
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  line = __LINE__ + 1;
                  for (lang::Value i : range(n)) {
                    i + 1;
                    break;
                  }
                }),
         "`break` or `return` left the body of this loop");
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  line = __LINE__ + 1;
                  for (lang::Value i : range(n)) {
                    i + 1;
                    return;
                  }
                }),
         "`break` or `return` left the body of this loop");
}

TEST_F(BuilderErrors, BreakOutOfTheInnerLoopLeavesTheOuterOneWhole) {
  auto def = kernel("k", {"n"}, [&](i32 n) {
    Var acc = 0;
    for (lang::Value i : range(n)) {
      line = __LINE__ + 1;
      for (lang::Value j : range(n)) {
        acc += j;
        break;
      }
      acc += i;
    }
    acc += 1;
  });
  expect(def, "`break`");
  EXPECT_EQ(def.ir().error().message.find("used after"), std::string::npos) << def.ir().error().message;
}

TEST_F(BuilderErrors, CarriedTypes) {
  auto def = kernel("k", {"n"}, [&](i32 n) {
    Var acc = zeros(f32_t, {8});
    for ([[maybe_unused]] lang::Value i : range(n)) {
      line = __LINE__ + 1;
      acc = zeros(f64_t, {8});
    }
  });
  expect(def, "it is tile<[8], f32> and cannot become tile<[8], f64>");
}

TEST_F(BuilderErrors, ValueUsedAfterItsLoop) {
  auto def = kernel("k", {"n"}, [&](i32 n) {
    lang::Value last;
    for (lang::Value i : range(n)) last = i + 1;
    line = __LINE__, last * 2;
  });
  expect(def, "a value computed inside a loop is used after it; carry it out in a Var");
}

TEST_F(BuilderErrors, ValueWithoutAValue) {
  const std::string text = "a Value without a value is used here";
  lang::Value none;
  expect(kernel("k", {"n"}, [&](i32 n) { line = __LINE__, none + n; }), text);
  expect(kernel("k", {}, [&] { line = __LINE__, cast(none, f32_t); }), text);
  expect(kernel("k", {}, [&] { line = __LINE__, load(none); }), text);
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, store(p, none); }), text);
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, tile(p, {8}).store({0}, none); }), text);
  expect(kernel("k", {}, [&] { line = __LINE__, grid(none); }), text);
  expect((line = __LINE__, kernel("k", {}, [&] { exp({}); })), text);
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  line = __LINE__ + 1;
                  for (lang::Value i : range(none, n)) i + n;
                }),
         text);
  expect(kernel("k", {},
                [&] {
                  line = __LINE__ + 1;
                  Var v = none;
                  v += 1;
                }),
         text);
}

TEST_F(BuilderErrors, ValueOfAnotherKernel) {
  lang::Value kept;
  kernel("a", {"n"}, [&](i32 n) { kept = n + 1; });
  expect(kernel("b", {"n"}, [&](i32 n) { line = __LINE__, kept + n; }), "a value of another kernel is used here");
}

TEST_F(BuilderErrors, Grid) {
  expect(kernel("k", {}, [&] { line = __LINE__, grid(program_id(0)); }),
         "grid: x must be an integer expression over scalar parameters and Consts");
  expect(kernel("k", {"n", "x"}, [&](i32 n, f32 x) { line = __LINE__, grid(n, x); }), "grid: y must be an integer");
  expect(kernel("k", {}, [&] { line = __LINE__, grid(1, 1, 1.5); }), "grid: z must be an integer");
  expect(kernel("k", {"n"},
                [&](i32 n) {
                  grid(n);
                  line = __LINE__, grid(n);
                }),
         "the kernel has a grid already");
  expect(kernel("k", {}, [&] { line = __LINE__, grid(0); }), "grid: x is 0; an extent is 1 or more");
}

TEST_F(BuilderErrors, Names) {
  line = __LINE__, expect(kernel("k", {"a"}, [](i32, i32) {}), "kernel: 1 names for a function of 2 parameters");
  line = __LINE__, expect(kernel("k", {"a", "a"}, [](i32, Const) {}), "kernel: `a` is named twice");
  line = __LINE__, expect(kernel("k", {"a=1"}, [](i32) {}), "kernel: `a=1`: only a Const parameter has a default");
  line = __LINE__, expect(kernel("k", {"B=x"}, [](Const) {}), "kernel: the default in `B=x` is not an integer");
  line = __LINE__, expect(kernel("k", {"B="}, [](Const) {}), "kernel: the default in `B=` is not an integer");
  line = __LINE__, expect(kernel("k", {"1a"}, [](i32) {}), "kernel: `1a` does not begin with a name");
  line = __LINE__, expect(kernel("", {}, [] {}), "kernel: `` is not a name");
  const std::string longest(256, 'n'), longer(257, 'n');
  EXPECT_TRUE(kernel(longest, {longest}, [](i32) {}).ir().ok());
  line = __LINE__, expect(kernel("k", {longer}, [](i32) {}), "kernel: `" + longer + "` is longer than 256 characters");
  line = __LINE__, expect(kernel(longer, {}, [] {}), "kernel: `" + longer + "` is longer than 256 characters");
}

TEST(BuilderSpaceErrors, UnknownNameAndNoValues) {
  auto def = kernel("k", {"B"}, [](Const) {}).space({{"C", {1}}});
  ASSERT_FALSE(def.ir().ok());
  EXPECT_EQ(def.ir().error().message,
            "kernel `k`: space names `C`, which is neither a Const nor num_warps, num_stages, waves_per_eu, chiplets, "
            "warp_specialise, split_k, cluster or stream_k");
  auto empty = kernel("k", {"B"}, [](Const) {}).space({{"B", {}}});
  EXPECT_EQ(empty.ir().error().message, "kernel `k`: space gives `B` no values");
  auto nowhere = kernel("k", {"B"}, [](Const) {}).space("tpu", {{"B", {1}}});
  EXPECT_EQ(nowhere.ir().error().message,
            "kernel `k`: space for `tpu`: there are no targets `tpu`; there are cpu, cuda, amd");
}

TEST_F(BuilderErrors, AnErrorIsReportedOnce) {
  auto def = kernel("k", {"x"}, [&](i32 x) {
    lang::Value bad = (line = __LINE__, exp(x));
    store(bad + 1, sqrt(bad) * x);
    Var v = bad;
    for (lang::Value i : range(0, x)) v += bad * i;
    v = 1;
  });
  expect(def, "math: takes floats only");
  const std::string& message = def.ir().error().message;
  EXPECT_EQ(message.find("error:"), message.rfind("error:")) << message;
}

TEST_F(BuilderErrors, IndependentErrorsAreAllReported) {
  auto def = kernel("k", {"x"}, [&](i32 x) {
    exp(x);
    line = __LINE__, x + 0.5f;
  });
  expect(def, "math: takes floats only");
  expect(def, "0.5 is not a value of i32");
}

TEST(BuilderErrorLimit, TheFirstTwenty) {
  auto def = kernel("k", {"x"}, [](i32 x) {
    for (int i = 0; i < 100; ++i) exp(x);
  });
  const std::string& message = def.ir().error().message;
  size_t count = 0;
  for (size_t at = 0; (at = message.find("error:", at)) != std::string::npos; ++at) ++count;
  EXPECT_EQ(count, 20u);
}

}  // namespace
}  // namespace kiln::dsl

// The functions of one op each, run on the interpreter: shapes, arithmetic, math, casts, memory, facts.
#include <cmath>

#include "builder_helpers.h"

namespace kiln::dsl {
namespace {

using namespace kiln::lang;
using lang::f32;
using V = lang::Value;
using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

// What `fn` makes of the lanes 0, 1, …, 7, in row-major order; cast to T.
template <class T, class Element, class Fn>
std::vector<T> lanes(size_t count, Fn fn) {
  std::vector<T> out(count);
  run(traced(kernel("k", {"out"},
                    [&](Ptr<Element> out) {
                      const V x = cast(fn(arange(0, 8)), element_v<Element>);
                      Const size = 1;
                      for (int axis = 0; axis < x.rank(); ++axis) size = size * x.extent(axis);
                      store(out + arange(0, size), reshape(x, {size}));
                    })),
      {}, {buffer(out)});
  return out;
}
template <class Fn>
Ints ints(size_t count, Fn fn) {
  return lanes<int32_t, i32>(count, fn);
}
template <class Fn>
Floats floats(size_t count, Fn fn) {
  return lanes<float, f32>(count, fn);
}

TEST(BuilderShapes, ReshapeJoinSplitCatSliceGather) {
  EXPECT_EQ(ints(8, [](V x) { return trans(reshape(x, {2, 4})); }), (Ints{0, 4, 1, 5, 2, 6, 3, 7}));
  EXPECT_EQ(ints(16, [](V x) { return join(x, x * 10); }),
            (Ints{0, 0, 1, 10, 2, 20, 3, 30, 4, 40, 5, 50, 6, 60, 7, 70}));
  EXPECT_EQ(ints(4,
                 [](V x) {
                   auto [even, odd] = split(reshape(x, {4, 2}));
                   return even * 10 + odd;
                 }),
            (Ints{1, 23, 45, 67}));
  EXPECT_EQ(ints(10, [](V x) { return cat(x, arange(20, 22), -1); }), (Ints{0, 1, 2, 3, 4, 5, 6, 7, 20, 21}));
  EXPECT_EQ(ints(3, [](V x) { return slice(x, 0, 2, 5); }), (Ints{2, 3, 4}));
  EXPECT_EQ(ints(4, [](V x) { return gather(x * x, arange(0, 4) * 2, 0); }), (Ints{0, 4, 16, 36}));
}

TEST(BuilderBroadcast, UndecidedExtentsCountAsEqual) {
  Kernel k = traced(kernel("k", {"out", "A", "B"}, [](Ptr<i32> out, Const A, Const B) {
    store(out + arange(0, A), arange(0, B) + arange(0, A) + broadcast_to(arange(0, B), {A}));
  }));
  Ints out(4);
  run(k, {{"A", 4}, {"B", 4}}, {buffer(out)});
  EXPECT_EQ(out, (Ints{0, 3, 6, 9}));
  EXPECT_FALSE(instantiate(k, {{"A", 4}, {"B", 3}}, {}).ok());
}

TEST(BuilderArithmetic, DivMulhiMinMax) {
  EXPECT_EQ(floats(8, [](V x) { return div(cast(x, f32_t), 4, fast); })[3], 0.75f);
  EXPECT_EQ(ints(8, [](V x) { return mulhi(x, 1 << 30); })[7], 1);
  EXPECT_EQ(floats(8, [](V x) { return max(cast(x, f32_t), NAN, numeric); })[7], 7);
  EXPECT_TRUE(std::isnan(floats(8, [](V x) { return min(cast(x, f32_t), NAN); })[7]));
  Kernel k = traced(kernel("k", {"x"}, [](f32 x) { exp2(div(min(x, 1, numeric), x, fast), fast); }));
  EXPECT_EQ(std::get<int64_t>(find_op(k.body, OpCode::kMath)->attrs[1]), 1);
  EXPECT_EQ(std::get<int64_t>(find_op(k.body, OpCode::kDiv)->attrs[0]), 1);
  EXPECT_EQ(std::get<int64_t>(find_op(k.body, OpCode::kMin)->attrs[0]), 1);
}

TEST(BuilderMath, EveryFunction) {
  const float a = 0.4f, b = 0.7f;
  auto check = [&](auto fn, double expected) {
    EXPECT_NEAR(floats(8, [&](V x) { return fn(cast(x, f32_t) * 0.0f + a, Operand(b)); })[0], expected, 1e-6);
  };
  check([](V x, Operand) { return exp(x); }, std::exp(a));
  check([](V x, Operand) { return exp2(x); }, std::exp2(a));
  check([](V x, Operand) { return expm1(x); }, std::expm1(a));
  check([](V x, Operand) { return log(x); }, std::log(a));
  check([](V x, Operand) { return log2(x); }, std::log2(a));
  check([](V x, Operand) { return log10(x); }, std::log10(a));
  check([](V x, Operand) { return log1p(x); }, std::log1p(a));
  check([](V x, Operand) { return sin(x); }, std::sin(a));
  check([](V x, Operand) { return cos(x); }, std::cos(a));
  check([](V x, Operand) { return tan(x); }, std::tan(a));
  check([](V x, Operand) { return asin(x); }, std::asin(a));
  check([](V x, Operand) { return acos(x); }, std::acos(a));
  check([](V x, Operand) { return atan(x); }, std::atan(a));
  check([](V x, Operand y) { return atan2(x, y); }, std::atan2(a, b));
  check([](V x, Operand) { return sinh(x); }, std::sinh(a));
  check([](V x, Operand) { return cosh(x); }, std::cosh(a));
  check([](V x, Operand) { return tanh(x); }, std::tanh(a));
  check([](V x, Operand) { return erf(x); }, std::erf(a));
  check([](V x, Operand) { return erfc(x); }, std::erfc(a));
  check([](V x, Operand) { return sqrt(x); }, std::sqrt(a));
  check([](V x, Operand) { return rsqrt(x); }, 1 / std::sqrt(a));
  check([](V x, Operand y) { return pow(x, y); }, std::pow(a, b));
  check([](V x, Operand y) { return hypot(x, y); }, std::hypot(a, b));
  check([](V x, Operand y) { return copysign(x, -V(cast(y, f32_t))); }, -a);
  check([](V x, Operand) { return signbit(-x); }, 1);
  check([](V x, Operand) { return floor(x) + ceil(x) + round(x) + trunc(x); }, 1);
  check([](V x, Operand) { return isnan(x / 0 * 0); }, 1);
  check([](V x, Operand) { return isinf(x / 0); }, 1);
}

TEST(BuilderCast, Options) {
  EXPECT_EQ(floats(8, [](V x) { return cast(x * 1000, f8e4m3_t); })[7], 448);
  EXPECT_TRUE(std::isnan(floats(8, [](V x) { return cast(x * 1000, f8e4m3_t, {.saturate = false}); })[7]));
  Kernel k = traced(kernel("k", {"x", "seed"}, [](f32 x, u64 seed) {
    cast(splat(x, {4}), bf16_t, {.rounding = Rounding::kStochastic, .random = philox(seed, 0)[0]});
  }));
  EXPECT_EQ(find_op(k.body, OpCode::kCast)->operands.size(), 2u);
}

TEST(BuilderPhilox, GivesTheKnownWords) {
  std::vector<uint32_t> out(4);
  run(traced(kernel("k", {"out"},
                    [](Ptr<u32> out) {
                      const std::array<V, 4> words = philox(42, splat(1, {1}));
                      for (int i = 0; i < 4; ++i) store(out + i + arange(0, 1), words[i]);
                    })),
      {}, {buffer(out)});
  EXPECT_EQ(out, (std::vector<uint32_t>{0xfcdb2127, 0x53ba6cfd, 0x838f5a6e, 0x744e06fb}));
}

// --- memory ---

TEST(BuilderMemory, HintsAndOrders) {
  Kernel k = traced(kernel("k", {"p", "q"}, [](Ptr<const i32> p, Ptr<i32> q) {
    const V x = load(p, {.cache = CacheHint::kStreaming, .eviction = Eviction::kFirst});
    store(q, x, {.cache = CacheHint::kGlobal});
    atomic_add(q, 1, {.order = MemoryOrder::kRelaxed, .scope = MemoryScope::kSystem});
    atomic_cas(q, 1, 2, {.mask = x > 0, .scope = MemoryScope::kBlock});
  }));
  EXPECT_EQ(find_op(k.body, OpCode::kLoad)->attrs, (std::vector<Attr>{int64_t{2}, int64_t{1}}));
  EXPECT_EQ(find_op(k.body, OpCode::kAtomicRmw)->attrs, (std::vector<Attr>{int64_t{0}, int64_t{1}, int64_t{2}}));
  EXPECT_EQ(find_op(k.body, OpCode::kAtomicCas)->operands.size(), 4u);
}

TEST(BuilderMemory, Atomics) {
  Ints out = {10, 10, 10, 12, 8, 12, 5, 7, 0};
  run(traced(kernel("k", {"p"},
                    [](Ptr<i32> p) {
                      const V lane = arange(0, 4);
                      atomic_add(p + lane * 0, 1, {.mask = lane != 2});
                      atomic_min(p + 1, 3);
                      atomic_max(p + 2, 30);
                      atomic_and(p + 3, 6);
                      atomic_or(p + 4, 1);
                      atomic_xor(p + 5, 4);
                      store(p + 8, atomic_xchg(p + 6, 1) + atomic_cas(p + 7, 7, 70));
                    })),
      {}, {buffer(out)});
  EXPECT_EQ(out, (Ints{13, 3, 30, 4, 9, 8, 1, 70, 12}));
}

TEST(BuilderMemory, Descriptors) {
  Ints x(3 * 5), y(3 * 5, -1);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<int32_t>(i);
  run(traced(kernel("k", {"x", "y", "rows", "cols"},
                    [](Ptr<const i32> x, Ptr<i32> y, i32 rows, i32 cols) {
                      const Descriptor in = descriptor(x, {rows, cols}, {}, {4, 4});
                      const Descriptor out = descriptor(y, {rows, cols}, {cols, 1}, {4, 4});
                      out.store({0, 1}, in.load({0, 1}) * 2);
                      out.reduce(AtomicKind::kAdd, {2, -3}, 100);
                      const Descriptor line = descriptor(x, {rows, cols}, {}, {1, 2});
                      const V picked = line.gather_rows(arange(1, 3), 3);
                      store(y, sum(sum(picked, 1), 0));
                    })),
      {}, {buffer(x), buffer(y), number(int64_t{3}), number(int64_t{5})});
  EXPECT_EQ(y, (Ints{8 + 9 + 13 + 14, 2, 4, 6, 8, -1, 12, 14, 16, 18, 99, 22, 24, 26, 28}));
}

TEST(BuilderMemory, DescriptorsFillWithNan) {
  Floats y(4);
  run(traced(kernel("k", {"x", "y"},
                    [](Ptr<const f32> x, Ptr<f32> y) {
                      store(y + arange(0, 4), descriptor(x, {2}, {}, {4}, Fill::kNan).load({0}));
                    })),
      {}, {buffer(Floats{1, 2}), buffer(y)});
  EXPECT_EQ(y[1], 2);
  EXPECT_TRUE(std::isnan(y[2]));
}

TEST(BuilderMemory, MayAlias) {
  Kernel k = traced(kernel("k", {"p", "q"}, [](Ptr<f32> p, Ptr<f32>) { may_alias(p); }));
  EXPECT_TRUE(k.params[0].may_alias);
  EXPECT_FALSE(k.params[1].may_alias);
}

// --- facts and the rest ---

TEST(BuilderFacts, AssumeCheckPrintAsm) {
  Kernel k = traced(kernel("k", {"n", "x"}, [](i32 n, f32 x) {
    assume(n, {.multiple_of = 4, .low = 0, .high = 100});
    check(n > 0, "n is positive");
    print("n and lanes", {n, arange(0, 2)});
    inline_asm("ex2.approx.f32 $0, $1;", "=f,f", {splat(x, {8})}, f32_t, 2);
  }));
  EXPECT_EQ(find_op(k.body, OpCode::kAssume)->attrs, (std::vector<Attr>{Expr(4), Expr(1), Expr(0), Expr(100)}));
  EXPECT_EQ(find_op(k.body, OpCode::kPrint)->operands.size(), 2u);
  EXPECT_EQ(std::get<std::string>(find_op(k.body, OpCode::kAssert)->attrs[0]), "n is positive");
  EXPECT_EQ(std::get<int64_t>(find_op(k.body, OpCode::kInlineAsm)->attrs[2]), 2);
}

class BuilderFunctionErrors : public testing::Test {
 protected:
  template <class Def>
  void expect(const Def& def, const std::string& text) {
    expect_error(def, __FILE__, line, text);
  }
  int line = 0;
};

TEST_F(BuilderFunctionErrors, Shapes) {
  expect(kernel("k", {}, [&] { line = __LINE__, reshape(arange(0, 8), {3}); }), "the shape has 3 elements, not 8");
  expect(kernel("k", {}, [&] { line = __LINE__, split(arange(0, 8)); }), "split: the last extent must be 2");
  expect(kernel("k", {}, [&] { line = __LINE__, cat(arange(0, 8), arange(0, 8), 1); }), "cat: there is no axis 1");
  expect(kernel("k", {}, [&] { line = __LINE__, slice(arange(0, 8), 0, 4, 9); }),
         "4 to 9 is no part of an extent of 8");
  expect(kernel("k", {}, [&] { line = __LINE__, gather(arange(0, 8), zeros(f32_t, {2}), 0); }), "the index must be");
  expect(kernel("k", {}, [&] { line = __LINE__, join(arange(0, 8), arange(0, 7)); }), "join: the shapes of");
}

TEST_F(BuilderFunctionErrors, Elements) {
  expect(kernel("k", {"x"}, [&](f32 x) { line = __LINE__, mulhi(x, x); }), "mulhi: takes ints only");
  expect(kernel("k", {"x"}, [&](i32 x) { line = __LINE__, pow(x, 2); }), "math: takes floats only");
  expect(kernel("k", {"x"}, [&](f32 x) { line = __LINE__, cast(x, f16_t, {.saturate = false}); }), "f8 only");
  expect(kernel("k", {"x"}, [&](f32 x) { line = __LINE__, philox(x, -1); }), "-1 is not a value of u64");
  expect(kernel("k", {"x"}, [&](f8e4m3 x) { line = __LINE__, x + 449; }), "449 is not a value of f8e4m3");
  expect(kernel("k", {"x"}, [&](f8e4m3 x) { line = __LINE__, x * 1e3; }), "1000 is not a value of f8e4m3");
  expect(kernel("k", {"x"}, [&](f8e4m3 x) { line = __LINE__, max(x, -INFINITY); }), "-inf is not a value of f8e4m3");
}

TEST_F(BuilderFunctionErrors, Memory) {
  const std::string readonly = "comes from a Ptr<const T>";
  expect(kernel("k", {"p"}, [&](Ptr<const i32> p) { line = __LINE__, atomic_add(p, 1); }), readonly);
  expect(kernel("k", {"p"}, [&](Ptr<const i32> p) { line = __LINE__, atomic_cas(p, 1, 2); }), readonly);
  expect(kernel("k", {"p"}, [&](Ptr<const i32> p) { line = __LINE__, descriptor(p, {8}, {}, {4}).store({0}, 1); }),
         readonly);
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, atomic_xor(p, 1); }), "and, or and xor are for ints");
  expect(kernel("k", {"p"}, [&](Ptr<i32> p) { line = __LINE__, may_alias(p + 1); }),
         "may_alias: takes a pointer parameter");
  expect(kernel("k", {"n"}, [&](i32 n) { line = __LINE__, may_alias(n); }), "may_alias: takes a pointer parameter");
  expect(kernel("k", {"p"}, [&](Ptr<i32> p) { line = __LINE__, descriptor(p, {8, 8}, {}, {4}); }),
         "descriptor: 2 extents for blocks of rank 1");
  expect(kernel("k", {"p"}, [&](Ptr<i32> p) { line = __LINE__, descriptor(p, {8, 8}, {8, 2}, {4, 4}); }),
         "takes as many strides as extents, the last of them 1");
  expect(kernel("k", {"p"}, [&](Ptr<i32> p) { line = __LINE__, descriptor(p, {8, 8}, {}, {4, 4}).load({0}); }),
         "takes 2 offsets, not 1");
  expect(kernel("k", {"p"},
                [&](Ptr<i32> p) { line = __LINE__, descriptor(p, {8}, {}, {4}).reduce(AtomicKind::kXchg, {0}, 1); }),
         "there is no exchange");
}

TEST_F(BuilderFunctionErrors, Facts) {
  expect(kernel("k", {"x"}, [&](f32 x) { line = __LINE__, assume(x, {.multiple_of = 4}); }), "takes ints or pointers");
  expect(kernel("k", {"n"}, [&](i32 n) { line = __LINE__, assume(n, {.low = 3, .high = 2}); }), "is empty");
  expect(kernel("k", {"n"}, [&](i32 n) { line = __LINE__, check(n, ""); }), "the condition must be i1");
  expect(kernel("k", {"p"}, [&](Ptr<f32> p) { line = __LINE__, print("", {p}); }), "takes no pointers");
  expect(kernel("k", {"n"}, [&](i32 n) { line = __LINE__, inline_asm("", "", {n}, i32_t, 0); }), "pack must be 1");
}

}  // namespace
}  // namespace kiln::dsl

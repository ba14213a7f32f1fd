// The library's functions along an axis, on shapes and random numbers, against float64 on the interpreter.
#include <algorithm>
#include <cmath>

#include "builder_helpers.h"

namespace kiln::dsl {
namespace {

using namespace kiln::lang;
using lang::f32;
using V = lang::Value;
using Floats = std::vector<float>;
using Ints = std::vector<int32_t>;

Floats noise(size_t count, float offset = 0) {
  Floats out;
  for (size_t i = 0; i < count; ++i) out.push_back(static_cast<float>((i * 37 + 11) % 64) / 16 - 2 + offset);
  return out;
}

// Applies a function to a tile of `shape`, and stores what it gives in row-major order.
template <class T, class Element, class Fn>
std::vector<T> apply(const Floats& x, Shape shape, size_t count, Fn fn) {
  std::vector<T> y(count);
  run(traced(kernel("k", {"x", "y"},
                    [&](Ptr<const f32> x, Ptr<Element> y) {
                      Const size = 1;
                      for (const Const& extent : shape) size = size * extent;
                      const V out = fn(reshape(load(x + arange(0, size)), shape));
                      const int lanes = static_cast<int>(count);
                      store(y + arange(0, lanes), reshape(cast(out, element_v<Element>), {lanes}));
                    })),
      {}, {buffer(x), buffer(y)});
  return y;
}
template <class Fn>
Floats floats(const Floats& x, Shape shape, size_t count, Fn fn) {
  return apply<float, f32>(x, shape, count, fn);
}
template <class Fn>
Ints ints(const Floats& x, Shape shape, size_t count, Fn fn) {
  return apply<int32_t, i32>(x, shape, count, fn);
}

TEST(LibraryAxis, SoftmaxKin) {
  const Floats x = noise(21);
  double total = 0;
  for (float each : x) total += std::exp(double{each});
  const Floats logs = floats(x, {21}, 21, [](V v) { return log_softmax(v, 0); });
  const Floats probabilities = floats(x, {21}, 21, [](V v) { return softmax(v, 0); });
  for (size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(logs[i], x[i] - std::log(total), 1e-5);
    EXPECT_NEAR(probabilities[i], std::exp(x[i]) / total, 1e-6);
  }
  EXPECT_NEAR(floats(x, {21}, 1, [](V v) { return logsumexp(v, -1); })[0], std::log(total), 1e-5);
  EXPECT_EQ(floats(Floats(3, -INFINITY), {3}, 1, [](V v) { return logsumexp(v, 0); })[0], -INFINITY);
}

TEST(LibraryAxis, MeanAndVarOfWhatCounts) {
  Floats x = noise(32, 1000);  // far from zero
  double mean_of = 0, var_of = 0;
  for (int i = 0; i < 21; ++i) mean_of += double{x[i]} / 21;
  for (int i = 0; i < 21; ++i) var_of += std::pow(x[i] - mean_of, 2);
  for (int i = 21; i < 32; ++i) x[i] = NAN;  // what does not count may hold anything
  auto inside = [] { return arange(0, 32) < 21; };
  EXPECT_NEAR(floats(x, {32}, 1, [&](V v) { return mean(v, 0, {.mask = inside()}); })[0], mean_of, 2e-3);
  EXPECT_NEAR(floats(x, {32}, 1, [&](V v) { return var(v, 0, {.mask = inside()}); })[0], var_of / 21, 1e-5);
  EXPECT_NEAR(floats(x, {32}, 1, [&](V v) { return var(v, 0, {.mask = inside(), .correction = 1}); })[0], var_of / 20,
              1e-5);
  EXPECT_EQ(floats({1, 2, 3, 6}, {2, 2}, 2, [&](V v) { return mean(cast(v, i32_t), 1); }), (Floats{1.5, 4.5}));
}

TEST(LibraryAxis, Norms) {
  const Floats x = noise(3 * 8, 3);
  auto weight = [] { return cast(arange(1, 9), f32_t); };
  const Floats layer = floats(x, {3, 8}, 24, [&](V v) { return layer_norm(v, weight(), 0.5f, -1, 1e-5); });
  const Floats plain = floats(x, {8, 3}, 24, [&](V v) { return layer_norm(v, weight(), {}, 0, 1e-5); });
  const Floats rms = floats(x, {3, 8}, 24, [&](V v) { return rms_norm(v, weight(), 1, 1e-5); });
  auto check = [&](size_t first, size_t step, size_t i, float out_layer, float bias) {
    double mean = 0, squares = 0;
    for (size_t k = 0; k < 8; ++k) mean += x[first + k * step] / 8.0;
    for (size_t k = 0; k < 8; ++k) squares += std::pow(x[first + k * step] - mean, 2) / 8;
    EXPECT_NEAR(out_layer, (x[first + i * step] - mean) / std::sqrt(squares + 1e-5) * double(i + 1) + bias, 1e-4);
  };
  for (size_t row = 0; row < 3; ++row) {
    double squares = 0;
    for (size_t i = 0; i < 8; ++i) squares += std::pow(x[row * 8 + i], 2) / 8;
    for (size_t i = 0; i < 8; ++i) {
      check(row * 8, 1, i, layer[row * 8 + i], 0.5f);
      check(row, 3, i, plain[i * 3 + row], 0);
      EXPECT_NEAR(rms[row * 8 + i], x[row * 8 + i] / std::sqrt(squares + 1e-5) * double(i + 1), 1e-4);
    }
  }
}

TEST(LibraryAxis, AnyAllAndIndices) {
  const Floats x = {0, 1, 0, 0, 2, 3};
  EXPECT_EQ(ints(x, {3, 2}, 3, [](V v) { return any(v, 1); }), (Ints{1, 0, 1}));
  EXPECT_EQ(ints(x, {3, 2}, 3, [](V v) { return all(v != 0, 1); }), (Ints{0, 0, 1}));
  EXPECT_EQ(ints(x, {6}, 1, [](V v) { return max_with_index(v, 0).second; }), Ints{5});
  EXPECT_EQ(floats(x, {6}, 1, [](V v) { return min_with_index(v, 0).first; }), Floats{0});
}

TEST(LibraryShapes, FlipInterleaveZerosLike) {
  const Floats x = {0, 1, 2, 3, 4, 5};
  EXPECT_EQ(floats(x, {2, 3}, 6, [](V v) { return flip(v, 1); }), (Floats{2, 1, 0, 5, 4, 3}));
  EXPECT_EQ(floats(x, {2, 3}, 6, [](V v) { return flip(v, 0); }), (Floats{3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(floats(x, {2, 3}, 12, [](V v) { return interleave(v, v + 10); }),
            (Floats{0, 10, 1, 11, 2, 12, 3, 13, 4, 14, 5, 15}));
  EXPECT_EQ(floats(x, {6}, 6, [](V v) { return zeros_like(v); }), Floats(6));
}

TEST(LibrarySearchsorted, AnyExtentAndSide) {
  const Floats values = {-1, 0, 0.5f, 1, 2, 3, 50, NAN};
  for (int extent : {1, 2, 3, 4, 5, 7, 8, 9, 31, 33}) {
    Floats sorted;
    for (int i = 0; i < extent; ++i) sorted.push_back(static_cast<float>(i / 2));
    if (extent > 3) sorted.back() = NAN;
    for (Side side : {Side::kLeft, Side::kRight}) {
      Kernel k = traced(kernel("k", {"s", "x", "y", "N"}, [&](Ptr<const f32> s, Ptr<const f32> x, Ptr<i32> y, Const N) {
        const V found = searchsorted(load(s + arange(0, N)), reshape(load(x + arange(0, 8)), {2, 4}), side);
        store(y + arange(0, 8), reshape(found, {8}));
      }));
      Ints y(8);
      run(k, {{"N", extent}}, {buffer(sorted), buffer(values), buffer(y)});
      auto before = [](float a, float b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
      for (size_t i = 0; i < values.size(); ++i) {
        const auto at = side == Side::kLeft ? std::lower_bound(sorted.begin(), sorted.end(), values[i], before)
                                            : std::upper_bound(sorted.begin(), sorted.end(), values[i], before);
        EXPECT_EQ(y[i], at - sorted.begin()) << extent << " " << values[i];
      }
    }
  }
}

TEST(LibraryIntegers, FloorDivisionAndModulus) {
  const Ints a = {7, -7, 7, -7, 6, -6, 5, -5, INT32_MIN}, b = {2, 2, -2, -2, 3, -3, 0, 0, -1};
  Ints quotient(9), remainder(9);
  run(traced(kernel("k", {"a", "b", "q", "r"},
                    [](Ptr<const i32> a, Ptr<const i32> b, Ptr<i32> q, Ptr<i32> r) {
                      const V lane = arange(0, 9), x = load(a + lane), y = load(b + lane);
                      store(q + lane, floor_div(x, y));
                      store(r + lane, floor_mod(x, y));
                    })),
      {}, {buffer(a), buffer(b), buffer(quotient), buffer(remainder)});
  EXPECT_EQ(quotient, (Ints{3, -4, -4, 3, 2, 2, 0, 0, INT32_MIN}));
  EXPECT_EQ(remainder, (Ints{1, 1, -1, -1, 0, 0, 5, -5, 0}));
  int line = 0;
  auto def = kernel("k", {"x"}, [&](f32 x) { line = __LINE__, floor_div(x, 2); });
  expect_error(def, __FILE__, line, "floor_div: takes ints (f32)");
}

TEST(LibraryRandom, RangesAndMoments) {
  constexpr int kCount = 4096;
  Floats uniform(kCount), normal(kCount), dropped(kCount);
  Ints dice(kCount);
  run(traced(kernel("k", {"u", "n", "d", "i"},
                    [](Ptr<f32> u, Ptr<f32> n, Ptr<f32> d, Ptr<i32> i) {
                      const V lane = arange(0, kCount);
                      store(u + lane, rand(7, lane));
                      store(n + lane, randn(7, lane));
                      store(d + lane, dropout(zeros(f32_t, {kCount}) + 3, 0.25, 7, lane));
                      store(i + lane, randint(7, lane, -3, 3));
                    })),
      {}, {buffer(uniform), buffer(normal), buffer(dropped), buffer(dice)});
  double mean_u = 0, mean_n = 0, var_n = 0, kept = 0;
  Ints faces(6);
  for (int i = 0; i < kCount; ++i) {
    EXPECT_TRUE(uniform[i] >= 0 && uniform[i] < 1);
    EXPECT_EQ(dropped[i], uniform[i] >= 0.25f ? 4.0f : 0.0f);
    mean_u += uniform[i] / kCount, mean_n += normal[i] / kCount, var_n += normal[i] * normal[i] / kCount;
    kept += dropped[i] != 0;
    ASSERT_TRUE(dice[i] >= -3 && dice[i] < 3);
    ++faces[static_cast<size_t>(dice[i] + 3)];
  }
  EXPECT_NEAR(mean_u, 0.5, 0.02);
  EXPECT_NEAR(mean_n, 0, 0.05);
  EXPECT_NEAR(var_n, 1, 0.08);
  EXPECT_NEAR(kept / kCount, 0.75, 0.03);
  for (int32_t face : faces) EXPECT_NEAR(face, kCount / 6, 120);
}

TEST(LibraryHalves, ComputeInF32AndRoundOnce) {
  traced(kernel("k", {"x", "y"}, [](lang::f16 x, f8e5m2 y) {
    const V a = splat(x, {4, 8}), b = splat(y, {8});
    for (const V& v : {layer_norm(a, splat(x, {8}), {}, 1, 1e-5), log_softmax(a, 1), softplus(a)}) {
      EXPECT_EQ(v.element(), ElementType::kF16);
    }
    for (const V& v : {mean(b, 0), var(b, 0), gelu_erf(b), dropout(b, 0.5, 1, arange(0, 8))}) {
      EXPECT_EQ(v.element(), ElementType::kF8E5M2);
    }
  }));
  const Floats ones = floats(Floats(4, 1), {4}, 4, [](V v) { return softplus(v); });
  EXPECT_NEAR(ones[0], std::log1p(std::exp(1.0)), 1e-6);
}

// A helper of the author's own, inlined into kernels of several types.
V scaled(V x, Operand by) { return x * by + 1; }

template <class T>
auto make() {
  return kernel(std::string("scaled_") + std::string(info(element_v<T>).name), {"x", "y", "on"},
                [](Ptr<const T> x, Ptr<T> y, i1 on) {
                  const V v = load(x + arange(0, 4));
                  store(y + arange(0, 4), if_(on, [&] { return scaled(v, 2); }, [&] { return v; }));
                });
}

template <class T>
void check_make(std::vector<launch_type_t<T>> x, auto to_double) {
  static_assert(std::is_same_v<decltype(make<T>()), KernelDef<Ptr<const T>, Ptr<T>, i1>>);
  for (bool on : {false, true}) {
    std::vector<launch_type_t<T>> y(4);
    run(traced(make<T>()), {}, {buffer(x), buffer(y), number(int64_t{on})});
    for (size_t i = 0; i < 4; ++i) EXPECT_EQ(to_double(y[i]), on ? to_double(x[i]) * 2 + 1 : to_double(x[i]));
  }
}

TEST(BuilderTemplates, OverElementTypes) {
  auto plain = [](auto x) { return static_cast<double>(x); };
  auto small = [](auto x) { return static_cast<double>(static_cast<float>(x)); };
  check_make<f32>({0, 1, 2, 3}, plain);
  check_make<lang::f64>({0, 1, 2, 3}, plain);
  check_make<i64>({0, 1, 2, 3}, plain);
  check_make<u8>({0, 1, 2, 3}, plain);
  const auto halves = [](auto type) {
    using T = decltype(type);
    return std::vector<T>{T::from(0), T::from(1), T::from(2), T::from(3)};
  };
  check_make<lang::f16>(halves(kiln::f16{}), small);
  check_make<lang::bf16>(halves(kiln::bf16{}), small);
  check_make<lang::f8e4m3>(halves(kiln::f8e4m3{}), small);
  check_make<lang::f8e5m2>(halves(kiln::f8e5m2{}), small);
  static_assert(std::is_same_v<launch_type_t<Ptr<i1>>, bool*>);
}

}  // namespace
}  // namespace kiln::dsl

// dot and dot_scaled against exact products, with the error bounds of docs/reference/ops.md.
#include <cmath>

#include "reference/cast.h"
#include "reference/dot.h"
#include "reference/inputs.h"
#include "reference/ints.h"
#include "reference/microscaling.h"
#include "reference/tolerance.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

using reference::DotPrecision;

// M, N, K and a batch, 0 for none.
struct Extents {
  int64_t m, n, k, batch;
};
constexpr Extents kExtents[] = {{1, 1, 1, 0}, {1, 1, 65, 0},   {1, 7, 3, 0},    {7, 1, 2, 0},   {5, 3, 1, 0},
                                {3, 5, 7, 0}, {16, 16, 16, 0}, {17, 15, 31, 0}, {4, 9, 257, 0}, {1, 1, 1, 1},
                                {2, 3, 5, 1}, {3, 5, 17, 3},   {1, 7, 33, 5},   {9, 2, 4, 2},   {33, 31, 65, 0}};

Shape matrix(const Extents& e, int64_t rows, int64_t columns) {
  return e.batch == 0 ? Shape{rows, columns} : Shape{e.batch, rows, columns};
}

std::string about(Type type, const Extents& e) { return type_name(type) + " " + list({e.m, e.n, e.k, e.batch}); }

Type accumulator(Type type) { return type == Type::kF64 ? Type::kF64 : Type::kF32; }

TEST(AlgebraDot, FloatsAccumulateWithinTheBoundOfTheirType) {
  for (const Type type : reference::kFloatTypes) {
    const Type sum = accumulator(type);
    uint64_t seed = 1;
    for (const Extents& e : kExtents) {
      const Input a = random_input(type, matrix(e, e.m, e.k), ++seed, false);
      const Input b = random_input(type, matrix(e, e.k, e.n), ++seed, false);
      const Input acc = random_input(sum, matrix(e, e.m, e.n), ++seed, false);
      const Tile out = run_tile("%z0 = dot %x0, %x1, %x2", {a, b, acc}, {sum, acc.tile.shape});
      const auto exact = reference::dot(reals(a), reals(b), reals(acc));
      EXPECT_LE(reference::dot_error(sum, out.data, exact.data), reference::dot_tolerance(type, sum, e.k))
          << about(type, e);
    }
  }
}

TEST(AlgebraDot, LowerPrecisionsOfF32KeepTheirBounds) {
  const std::pair<const char*, DotPrecision> precisions[] = {{"ieee", DotPrecision::kIeee},
                                                             {"tf32", DotPrecision::kTf32},
                                                             {"tf32x3", DotPrecision::kTf32x3},
                                                             {"bf16x3", DotPrecision::kBf16x3}};
  for (const auto& [word, precision] : precisions) {
    uint64_t seed = 100;
    for (const Extents& e : kExtents) {
      const Input a = random_input(Type::kF32, matrix(e, e.m, e.k), ++seed, false);
      const Input b = random_input(Type::kF32, matrix(e, e.k, e.n), ++seed, false);
      // From zero: a sum that cancels the accumulator has no bound on its relative error.
      const Input acc = {Type::kF32,
                         {matrix(e, e.m, e.n), Column(static_cast<size_t>(reference::count(matrix(e, e.m, e.n))))}};
      const Tile out = run_tile(std::string("%z0 = dot %x0, %x1, %x2 {precision = ") + word + "}", {a, b, acc},
                                {Type::kF32, acc.tile.shape});
      const auto exact = reference::dot(reals(a), reals(b));
      EXPECT_LE(reference::dot_error(Type::kF32, out.data, exact.data),
                reference::dot_tolerance(Type::kF32, Type::kF32, e.k, precision))
          << word << " " << about(Type::kF32, e);
    }
  }
}

TEST(AlgebraDot, ResultsCastDownKeepTheirBound) {
  for (const Type type : {Type::kF16, Type::kBF16}) {
    const Input a = random_input(type, {17, 129}, 5, false), b = random_input(type, {129, 9}, 6, false);
    const Input acc = random_input(Type::kF32, {17, 9}, 7, false);
    const Tile out =
        run_tile("%d = dot %x0, %x1, %x2\n%z0 = cast %d {to = " + type_name(type) + "}", {a, b, acc}, {type, {17, 9}});
    EXPECT_LE(reference::dot_error(type, out.data, reference::dot(reals(a), reals(b), reals(acc)).data),
              reference::dot_tolerance(type, type, 129));
  }
}

TEST(AlgebraDot, BytesOfEitherSignAreExactAndWrapInI32) {
  for (const Type left : {Type::kI8, Type::kU8}) {
    for (const Type right : {Type::kI8, Type::kU8}) {
      uint64_t seed = 200;
      for (const Extents& e : kExtents) {
        const Input a = random_input(left, matrix(e, e.m, e.k), ++seed),
                    b = random_input(right, matrix(e, e.k, e.n), ++seed);
        // An accumulator of the whole range makes sums wrap.
        const Input acc = random_input(Type::kI32, matrix(e, e.m, e.n), ++seed);
        const auto numbers = [](const Input& x) {
          return reference::generate<int64_t>(x.tile.shape, [&](const Shape& index) {
            return static_cast<int64_t>(reference::int_value(x.type, x.tile.at(index)));
          });
        };
        const auto start = reference::generate<int32_t>(
            acc.tile.shape, [&](const Shape& index) { return static_cast<int32_t>(acc.tile.at(index)); });
        const auto exact = reference::dot_int(numbers(a), numbers(b), start);
        Tile expected{exact.shape, {}};
        for (const int32_t value : exact.data) expected.data.push_back(static_cast<uint32_t>(value));
        expect_same(Type::kI32, run_tile("%z0 = dot %x0, %x1, %x2", {a, b, acc}, {Type::kI32, exact.shape}), expected,
                    type_name(left) + "·" + about(right, e));
      }
    }
  }
}

TEST(AlgebraDot, NanAndInfinityReachTheirRowsAndColumnsOnly) {
  for (const Type type : {Type::kF16, Type::kBF16, Type::kF32, Type::kF64, Type::kF8E5M2}) {
    const Type sum = accumulator(type);
    Input a = random_input(type, {3, 5}, 1, false), b = random_input(type, {5, 4}, 2, false);
    a.tile.data[1] = reference::element_of(type, NAN);  // row 0
    b.tile.data[4 * 2 + 3] = reference::encode(type, reference::dyadic(INFINITY), reference::Overflow::kSpecial);
    const Input acc = {sum, {{3, 4}, std::vector<Bits>(12)}};
    const Tile out = run_tile("%z0 = dot %x0, %x1, %x2", {a, b, acc}, {sum, {3, 4}});
    const auto exact = reference::dot(reals(a), reals(b));
    for (size_t i = 0; i < 12; ++i) {
      if (std::isfinite(exact.data[i])) continue;
      EXPECT_TRUE(reference::same(sum, out.data[i], reference::element_of(sum, exact.data[i]))) << type_name(type) << i;
    }
    for (size_t i = 4; i < 12; ++i) EXPECT_EQ(std::isfinite(exact.data[i]), i % 4 != 3);
  }
}

TEST(AlgebraDot, ProductsAreFusedIntoTheSum) {
  // (1 + 2^-12)² - 1 - 2^-11 is 2^-24: lost where the product is rounded to f32 first.
  const Input a = {Type::kF32, {{1, 1}, bits_of(Type::kF32, {1 + 0x1p-12L})}};
  const Input acc = {Type::kF32, {{1, 1}, bits_of(Type::kF32, {-1 - 0x1p-11L})}};
  EXPECT_EQ(run_tile("%z0 = dot %x0, %x0, %x1", {a, acc}, {Type::kF32, {1, 1}}).data, bits_of(Type::kF32, {0x1p-24L}));
}

reference::Array<uint8_t> byte_array(const Input& x) {
  return {x.tile.shape, {x.tile.data.begin(), x.tile.data.end()}};
}

TEST(AlgebraDotScaled, MicroscaledOperandsOfAllFormats) {
  using reference::Microscale;
  struct Kind {
    Microscale scale;
    Type type;
  };
  const Kind kinds[] = {
      {Microscale::kE2M1, Type::kU8}, {Microscale::kE4M3, Type::kF8E4M3}, {Microscale::kE5M2, Type::kF8E5M2}};
  uint64_t seed = 300;
  for (const Kind& left : kinds) {
    for (const Kind& right : kinds) {
      for (const Extents& e : {Extents{1, 1, 32, 0}, {3, 5, 64, 0}, {17, 1, 96, 0}, {1, 9, 32, 0}, {15, 33, 160, 0}}) {
        const int64_t packed_a = left.type == Type::kU8 ? 2 : 1, packed_b = right.type == Type::kU8 ? 2 : 1;
        const Input a = random_input(left.type, {e.m, e.k / packed_a}, ++seed, false);
        const Input b = random_input(right.type, {e.k / packed_b, e.n}, ++seed, false);
        const Input as = {Type::kU8,
                          {{e.m, e.k / 32}, reference::random_ints(Type::kU8, e.m * e.k / 32, 120, 134, ++seed)}};
        const Input bs = {Type::kU8,
                          {{e.n, e.k / 32}, reference::random_ints(Type::kU8, e.n * e.k / 32, 120, 134, ++seed)}};
        const Input acc = random_input(Type::kF32, {e.m, e.n}, ++seed, false);
        const auto exact = reference::dot(
            reference::unpack_scaled(left.scale, byte_array(a), byte_array(as), 1),
            reference::unpack_scaled(right.scale, byte_array(b), reference::permute(byte_array(bs), {1, 0}), 0),
            reals(acc));
        const Tile out =
            run_tile("%z0 = dot_scaled %x0, %x1, %x2, %x3, %x4", {a, as, b, bs, acc}, {Type::kF32, {e.m, e.n}});
        EXPECT_LE(reference::dot_error(Type::kF32, out.data, exact.data),
                  reference::dot_tolerance(Type::kF8E4M3, Type::kF32, e.k))
            << about(left.type, e) << type_name(right.type);
      }
    }
  }
}

TEST(AlgebraDotScaled, AScaleOf0xffIsNanForItsWholeBlockZerosToo) {
  Input as = {Type::kU8, {{2, 2}, {127, 0xff, 127, 127}}}, bs = {Type::kU8, {{3, 2}, {127, 127, 0xff, 127, 127, 127}}};
  const Input a = {Type::kF8E4M3, {{2, 64}, std::vector<Bits>(128, 0)}};
  const Input b = {Type::kF8E5M2, {{64, 3}, std::vector<Bits>(192, 0x3c)}};
  const Input acc = {Type::kF32, {{2, 3}, std::vector<Bits>(6)}};
  const Tile out = run_tile("%z0 = dot_scaled %x0, %x1, %x2, %x3, %x4", {a, as, b, bs, acc}, {Type::kF32, {2, 3}});
  for (size_t i = 0; i < 6; ++i) {
    const bool expected = i < 3 || i == 4;  // row 0 by its scale, column 1 by its own
    EXPECT_EQ(std::isnan(reference::real_value(Type::kF32, out.data[i])), expected) << i;
  }
}

TEST(AlgebraDotScaled, EveryScaleAndEveryE2m1Value) {
  // 1·2^(s-127) by 1, for every s; 2^-127 is a subnormal of f32.
  for (int s = 0; s < 255; ++s) {
    std::vector<Bits> one(32, 0);
    one[0] = 0x38;  // 1 in e4m3
    const Input a = {Type::kF8E4M3, {{1, 32}, one}}, b = {Type::kF8E4M3, {{32, 1}, one}};
    const Input as = {Type::kU8, {{1, 1}, {static_cast<Bits>(s)}}}, bs = {Type::kU8, {{1, 1}, {127}}};
    const Input acc = {Type::kF32, {{1, 1}, {0}}};
    EXPECT_EQ(run_tile("%z0 = dot_scaled %x0, %x1, %x2, %x3, %x4", {a, as, b, bs, acc}, {Type::kF32, {1, 1}}).data[0],
              reference::element_of(Type::kF32, reference::e8m0(static_cast<uint8_t>(s))))
        << s;
  }
  for (int value = 0; value < 256; ++value) {
    std::vector<Bits> bytes(16, 0), ones(16, 0);
    bytes[3] = static_cast<Bits>(value);
    ones[3] = 0x52;  // 1 for the even number of the pair, 3 for the odd one
    const Input a = {Type::kU8, {{1, 16}, bytes}}, b = {Type::kU8, {{16, 1}, ones}};
    const Input scale = {Type::kU8, {{1, 1}, {127}}}, acc = {Type::kF32, {{1, 1}, {0}}};
    const long double expected = reference::e2m1(static_cast<uint8_t>(value)) * reference::e2m1(0x2) +
                                 reference::e2m1(static_cast<uint8_t>(value >> 4)) * reference::e2m1(0x5);
    EXPECT_EQ(reference::real_value(Type::kF32, run_tile("%z0 = dot_scaled %x0, %x1, %x2, %x3, %x4",
                                                         {a, scale, b, scale, acc}, {Type::kF32, {1, 1}})
                                                    .data[0]),
              expected)
        << value;
  }
}

}  // namespace
}  // namespace kiln::oracle

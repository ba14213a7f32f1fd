// reduce and scan with a region: associative, not commutative, of several operands, with values from outside.
#include <array>
#include <cmath>

#include "reference/cast.h"
#include "reference/inputs.h"
#include "reference/lines.h"
#include "reference/norms.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

const std::vector<Shape>& all_shapes() {
  static const std::vector<Shape> shapes = {{1}, {2}, {13}, {3, 5}, {1, 9}, {9, 1}, {2, 3, 5}, {2, 3, 1, 5}};
  return shapes;
}

// Several tiles of one shape as one of arrays, and back.
template <size_t N>
reference::Array<std::array<uint32_t, N>> zip(const std::vector<Input>& xs) {
  return reference::generate<std::array<uint32_t, N>>(xs[0].tile.shape, [&](const Shape& index) {
    std::array<uint32_t, N> out;
    for (size_t i = 0; i < N; ++i) out[i] = static_cast<uint32_t>(xs[i].tile.at(index));
    return out;
  });
}
template <size_t N>
Tile unzip(const reference::Array<std::array<uint32_t, N>>& zipped, size_t which) {
  return reference::generate<Bits>(zipped.shape, [&](const Shape& index) { return Bits{zipped.at(index)[which]}; });
}

// Runs `op` of N u32 operands with a region and compares with the reference's fold by `combine`.
template <size_t N, class Combine>
void check(const std::string& region, Combine combine, Type type = Type::kU32) {
  std::string results = "%z0", operands = "%x0";
  for (size_t i = 1; i < N; ++i) {
    results += ", %z" + std::to_string(i);
    operands += ", %x" + std::to_string(i);
  }
  uint64_t seed = 1;
  for (const Shape& shape : all_shapes()) {
    std::vector<Input> xs;
    for (size_t i = 0; i < N; ++i) xs.push_back(random_input(type, shape, ++seed));
    const auto zipped = zip<N>(xs);
    using Elements = std::vector<std::array<uint32_t, N>>;
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const std::string at = "axis = " + std::to_string(axis);
      const auto run = [&](const std::string& text, const auto& expected) {
        const Ran ran = run_tiles(text, xs, std::vector<Output>(N, {type, expected.shape}));
        ASSERT_EQ(ran.error, "") << text;
        for (size_t i = 0; i < N; ++i) expect_same(type, ran.out[i], unzip<N>(expected, i), text + list(shape));
      };
      run(results + " = reduce " + operands + " {kind = custom, " + at + "} " + region,
          reference::reduce_lines(zipped, axis, [&](const Elements& x) { return reference::reduce(x, combine); }));
      for (const bool reverse : {false, true}) {
        run(results + " = scan " + operands + " {kind = custom, " + at + ", reverse = " + (reverse ? "1} " : "0} ") +
                region,
            reference::map_lines(zipped, axis,
                                 [&](const Elements& x) { return reference::scan(x, combine, reverse); }));
      }
    }
  }
}

TEST(AlgebraCustom, LeftStandsBeforeRightWhereTheRegionTakesOneOfThem) {
  using One = std::array<uint32_t, 1>;
  check<1>("(%l, %r) { yield %l }", [](const One& l, const One&) { return l; });
  check<1>("(%l, %r) { yield %r }", [](const One&, const One& r) { return r; });
}

// x ↦ a·x + b, composed: first the left one, then the right one. Wrapping u32 are a ring, so this is associative.
TEST(AlgebraCustom, AffineMapsComposeInOrder) {
  using Map = std::array<uint32_t, 2>;
  check<2>(R"((%la, %lb, %ra, %rb) {
  %a = mul %la, %ra
  %m = mul %lb, %ra
  %b = add %m, %rb
  yield %a, %b
})",
           [](const Map& l, const Map& r) { return Map{l[0] * r[0], l[1] * r[0] + r[1]}; });
}

TEST(AlgebraCustom, ProductsOf2x2MatricesOfFourOperands) {
  using Matrix = std::array<uint32_t, 4>;
  check<4>(R"((%a, %b, %c, %d, %e, %f, %g, %h) {
  %ae = mul %a, %e
  %bg = mul %b, %g
  %af = mul %a, %f
  %bh = mul %b, %h
  %ce = mul %c, %e
  %dg = mul %d, %g
  %cf = mul %c, %f
  %dh = mul %d, %h
  %w = add %ae, %bg
  %x = add %af, %bh
  %y = add %ce, %dg
  %z = add %cf, %dh
  yield %w, %x, %y, %z
})",
           [](const Matrix& l, const Matrix& r) {
             return Matrix{l[0] * r[0] + l[1] * r[2], l[0] * r[1] + l[1] * r[3], l[2] * r[0] + l[3] * r[2],
                           l[2] * r[1] + l[3] * r[3]};
           });
}

// A yield may swap: the region's results are read before its arguments change.
TEST(AlgebraCustom, AYieldMaySwapItsOperands) {
  // (p, q)·(r, s) of a "rectangular band" per component, with the components crossed twice.
  using Two = std::array<uint32_t, 2>;
  check<2>("(%la, %lb, %ra, %rb) { yield %la, %rb }", [](const Two& l, const Two& r) { return Two{l[0], r[1]}; });
  check<2>("(%la, %lb, %ra, %rb) { yield %ra, %lb }", [](const Two& l, const Two& r) { return Two{r[0], l[1]}; });
}

TEST(AlgebraCustom, TheRegionReadsScalarsAndConstantsOfOutside) {
  // max(l, r, bound) with a bound from memory: associative.
  for (const Shape& shape : all_shapes()) {
    const Input x = random_input(Type::kI32, shape, 5);
    const Input bound = {Type::kI32, {{}, {static_cast<uint32_t>(-7)}}};
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      const auto fold = [](const std::vector<Bits>& line) {
        auto value = static_cast<int32_t>(line[0]);
        for (size_t i = 1; i < line.size(); ++i) {
          value = std::max({value, static_cast<int32_t>(line[i]), -7, -100});
        }
        return Bits{static_cast<uint32_t>(value)};
      };
      const Tile expected = reference::reduce_lines(x.tile, axis, fold);
      const std::string text = "%z0 = reduce %x0 {kind = custom, axis = " + std::to_string(axis) + R"(} (%l, %r) {
  %c = constant {value = -100, type = i32}
  %m = max %l, %r
  %n = max %m, %x1
  %o = max %n, %c
  yield %o
})";
      expect_same(Type::kI32, run_tile(text, {x, bound}, {Type::kI32, expected.shape}), expected, text + list(shape));
    }
  }
}

TEST(AlgebraCustom, OperandsOfSeveralTypes) {
  // The extreme of f32 keys with the i64 that belongs to it; the left one of equal keys.
  const Input keys = {Type::kF32, {{2, 6}, bits_of(Type::kF32, {1, 5, 5, -2, 5, 0, -1, -3, -1, -1, -2, -9})}};
  const Input values = {Type::kI64, {{2, 6}, {10, 11, 12, 13, 14, 15, ~Bits{0}, 21, 22, 23, 24, Bits{1} << 40}}};
  const Ran ran = run_tiles(R"(%z0, %z1 = reduce %x0, %x1 {kind = custom, axis = 1} (%lk, %lv, %rk, %rv) {
  %c = cmp %rk, %lk {pred = gt}
  %k = select %c, %rk, %lk
  %v = select %c, %rv, %lv
  yield %k, %v
})",
                            {keys, values}, {{Type::kF32, {2}}, {Type::kI64, {2}}});
  ASSERT_EQ(ran.error, "");
  EXPECT_EQ(ran.out[0].data, bits_of(Type::kF32, {5, -1}));
  EXPECT_EQ(ran.out[1].data, (std::vector<Bits>{11, ~Bits{0}}));
}

// Welford's merge of (count, mean, M2); lanes outside the mask have count 0. Chan, Golub, LeVeque.
TEST(AlgebraCustom, WelfordWithMaskedTails) {
  for (const int64_t valid : {1, 2, 31, 33, 63, 64}) {
    const Input x = random_input(Type::kF32, {3, 64}, 70 + static_cast<uint64_t>(valid), false);
    const std::string text = R"(%i = arange {start = 0, end = 64}
%n = constant {value = )" + std::to_string(valid) +
                             R"(, type = i32}
%ns = splat %n {shape = [64]}
%in = cmp %i, %ns {pred = lt}
%in2 = expand_dims %in {axis = 0}
%mask = broadcast %in2 {shape = [3, 64]}
%count = cast %mask {to = f32}
%zero = constant {value = 0, type = f32}
%zeros = splat %zero {shape = [3, 64]}
%mean = select %mask, %x0, %zeros
%c, %z0, %m2 = reduce %count, %mean, %zeros {kind = custom, axis = 1} (%lc, %lm, %ls, %rc, %rm, %rs) {
  %cc = add %lc, %rc
  %one = constant {value = 1, type = f32}
  %safe = max %cc, %one
  %d = sub %rm, %lm
  %w = div %rc, %safe
  %dw = mul %d, %w
  %m = add %lm, %dw
  %dd = mul %d, %d
  %ddw = mul %dd, %w
  %e = mul %ddw, %lc
  %t = add %ls, %rs
  %s = add %t, %e
  yield %cc, %m, %s
}
%z1 = div %m2, %c)";
    const Ran ran = run_tiles(text, {x}, {{Type::kF32, {3}}, {Type::kF32, {3}}});
    ASSERT_EQ(ran.error, "");
    const auto lines = reference::slice(reals(x), {0, 0}, {3, valid});
    expect_close(Type::kF32, ran.out[0], reference::reduce_lines(lines, 1, reference::mean), "mean");
    expect_close(Type::kF32, ran.out[1],
                 reference::reduce_lines(lines, 1, [](const reference::Line& line) { return reference::var(line); }),
                 "variance");
  }
}

}  // namespace
}  // namespace kiln::oracle

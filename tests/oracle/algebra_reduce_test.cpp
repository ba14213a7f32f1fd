// reduce: kinds, types and axes against the reference's folds.
#include <cmath>
#include <map>

#include "reference/cast.h"
#include "reference/floats.h"
#include "reference/inputs.h"
#include "reference/ints.h"
#include "reference/lines.h"
#include "reference/norms.h"
#include "reference/order.h"
#include "reference/tolerance.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

using reference::Wide;
using BitLine = std::vector<Bits>;

const std::vector<Shape>& all_shapes() {
  static const std::vector<Shape> shapes = {{1},    {2},     {7},       {33},      {65},         {3, 5},         {1, 9},
                                            {9, 1}, {17, 3}, {2, 3, 5}, {1, 1, 1}, {2, 3, 1, 5}, {2, 1, 3, 2, 3}};
  return shapes;
}

std::string reduce_line(const std::string& kind, size_t axis) {
  return "%z0 = reduce %x0 {kind = " + kind + ", axis = " + std::to_string(axis) + "}";
}

// Runs a kind on every shape and axis; `fold` makes of a line what is expected.
template <class Fold>
void check_exact(Type type, const std::string& kind, Fold fold, Type result) {
  uint64_t seed = 1;
  for (const Shape& shape : all_shapes()) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      Input x = random_input(type, shape, ++seed);
      if (kind == "min" || kind == "max") without_f8_infinities(type, x.tile.data);
      const Tile expected = reference::reduce_lines(x.tile, axis, fold);
      expect_same(result, run_tile(reduce_line(kind, axis), {x}, {result, expected.shape}), expected,
                  reduce_line(kind, axis) + " of " + list(shape) + " of " + type_name(type), true);
    }
  }
}

template <class Combine>
auto folding(Type type, Combine combine) {
  return [type, combine](const BitLine& line) {
    return reference::reduce(line, [&](Bits a, Bits b) { return combine(type, a, b); });
  };
}

TEST(AlgebraReduce, IntSumsAndProductsWrap) {
  for (const Type type : reference::kIntTypes) {
    check_exact(type, "sum", folding(type, reference::ints::add), type);
    check_exact(type, "prod", folding(type, reference::ints::mul), type);
  }
}

TEST(AlgebraReduce, AndOrXorOfIntsAndI1) {
  for (const Type type : reference::kAllTypes) {
    if (reference::is_float(type)) continue;
    check_exact(type, "and", folding(type, reference::ints::bit_and), type);
    check_exact(type, "or", folding(type, reference::ints::bit_or), type);
    check_exact(type, "xor", folding(type, reference::ints::bit_xor), type);
  }
}

TEST(AlgebraReduce, MinAndMaxPropagateNan) {
  for (const Type type : reference::kIntTypes) {
    check_exact(type, "min", folding(type, reference::ints::min), type);
    check_exact(type, "max", folding(type, reference::ints::max), type);
  }
  const auto least = [](Type t, Bits a, Bits b) { return reference::floats::min(t, a, b); };
  const auto greatest = [](Type t, Bits a, Bits b) { return reference::floats::max(t, a, b); };
  for (const Type type : reference::kFloatTypes) {
    check_exact(type, "min", folding(type, least), type);
    check_exact(type, "max", folding(type, greatest), type);
  }
}

TEST(AlgebraReduce, MinAndMaxOfF8e5m2KeepInfinity) {
  const Bits infinity = 0x7c, minus = 0xfc;
  const Input x = {Type::kF8E5M2, {{3}, {0x3c, infinity, 0x40}}}, y = {Type::kF8E5M2, {{3}, {0x3c, minus, 0x40}}};
  EXPECT_EQ(run_tile(reduce_line("max", 0), {x}, {Type::kF8E5M2, {}}).data[0], infinity);
  EXPECT_EQ(run_tile(reduce_line("min", 0), {y}, {Type::kF8E5M2, {}}).data[0], minus);
  EXPECT_EQ(run_tile("%z0 = scan %x0 {kind = max, axis = 0}", {x}, {Type::kF8E5M2, {3}}).data,
            (std::vector<Bits>{0x3c, infinity, infinity}));
}

TEST(AlgebraReduce, ArgminAndArgmaxTakeNanForTheExtremeAndTheLowestIndexOfEqualOnes) {
  for (const Type type : reference::kAllTypes) {
    if (type == Type::kI1) continue;
    check_exact(type, "argmax", [&](const BitLine& x) { return Bits{reference::argmax(type, x)}; }, Type::kI32);
    check_exact(type, "argmin", [&](const BitLine& x) { return Bits{reference::argmin(type, x)}; }, Type::kI32);
  }
}

TEST(AlgebraReduce, ArgminAndArgmaxOfTiesZerosInfinitiesAndNan) {
  constexpr long double kInf = INFINITY, kNan = NAN;
  const std::vector<std::vector<long double>> lines = {{1, 2, 2, 1},
                                                       {2, 1, 1, 2},
                                                       {0.0L, -0.0L, 0.0L, -0.0L},
                                                       {-0.0L, 0.0L, 0.0L, -0.0L},
                                                       {kInf, kInf, 1, 0},
                                                       {-kInf, 1, -kInf, 2},
                                                       {1, kNan, 2, kNan},
                                                       {kInf, kNan, -kInf, 0},
                                                       {kNan, kNan, kNan, kNan},
                                                       {3, 3, 3, 3}};
  for (const Type type : reference::kFloatTypes) {
    for (const auto& values : lines) {
      const Input x = {type, {{4}, bits_of(type, values)}};
      EXPECT_EQ(run_tile(reduce_line("argmax", 0), {x}, {Type::kI32, {}}).data[0], reference::argmax(type, x.tile.data))
          << type_name(type) << " " << hex(x.tile.data);
      EXPECT_EQ(run_tile(reduce_line("argmin", 0), {x}, {Type::kI32, {}}).data[0], reference::argmin(type, x.tile.data))
          << type_name(type) << " " << hex(x.tile.data);
    }
  }
}

// Against the exact sum, within the error of any order of accumulation in f32 (f64) and one rounding at the end.
TEST(AlgebraReduce, FloatSumsAndProductsAccumulateInF32) {
  for (const Type type : reference::kFloatTypes) {
    const long double step = type == Type::kF64 ? 0x1p-52L : 0x1p-23L;
    uint64_t seed = 50;
    for (const Shape& shape : all_shapes()) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const Input x = random_input(type, shape, ++seed, false);
        const auto n = static_cast<long double>(shape[axis]);
        for (const bool is_sum : {true, false}) {
          const auto exact = reference::reduce_lines(reals(x), axis, is_sum ? reference::sum : reference::prod);
          // How large the terms are that round: the sum of magnitudes.
          const auto scale = reference::reduce_lines(reals(x), axis, [&](reference::Line line) {
            for (long double& value : line) value = std::fabs(value);
            return is_sum ? reference::sum(line) : reference::prod(line);
          });
          const Tile out = run_tile(reduce_line(is_sum ? "sum" : "prod", axis), {x}, {type, exact.shape});
          for (size_t i = 0; i < exact.data.size(); ++i) {
            const long double slack = n * step * scale.data[i];
            // Rounding is monotonic: the result lies between the rounded ends of what the accumulator may hold.
            const long double low = reference::real_value(type, reference::element_of(type, exact.data[i] - slack));
            const long double high = reference::real_value(type, reference::element_of(type, exact.data[i] + slack));
            const long double value = reference::real_value(type, out.data[i]);
            ASSERT_TRUE(low <= value && value <= high)
                << type_name(type) << (is_sum ? " sum " : " prod ") << value << " of " << low << "…" << high;
          }
        }
      }
    }
  }
}

TEST(AlgebraReduce, SumsOfSmallFloatsRoundOnceAtTheEnd) {
  // In the type itself 2048 + 1 (f16), 256 + 1 (bf16), 16 + 1 (f8e4m3), 8 + 1 (f8e5m2) would stay where they are.
  const std::map<Type, long double> starts = {
      {Type::kF16, 2048}, {Type::kBF16, 256}, {Type::kF8E4M3, 16}, {Type::kF8E5M2, 8}};
  for (const auto& [type, start] : starts) {
    std::vector<long double> values(static_cast<size_t>(start) + 1, 1);
    values[0] = start;
    const Input x = {type, {{static_cast<int64_t>(values.size())}, bits_of(type, values)}};
    EXPECT_EQ(run_tile(reduce_line("sum", 0), {x}, {type, {}}).data[0], reference::element_of(type, 2 * start))
        << type_name(type);
  }
  // Neither does an intermediate overflow: 60000 + 60000 - 60000.
  const Input x = {Type::kF16, {{3}, bits_of(Type::kF16, {60000, 60000, -60000})}};
  EXPECT_EQ(run_tile(reduce_line("sum", 0), {x}, {Type::kF16, {}}).data[0], reference::element_of(Type::kF16, 60000));
}

TEST(AlgebraReduce, FloatSumsAndProductsOfSpecials) {
  constexpr long double kInf = INFINITY, kNan = NAN;
  for (const Type type : {Type::kF16, Type::kBF16, Type::kF32, Type::kF64}) {
    const auto reduced = [&](const std::string& kind, const std::vector<long double>& values) {
      const Input x = {type, {{static_cast<int64_t>(values.size())}, bits_of(type, values)}};
      return reference::real_value(type, run_tile(reduce_line(kind, 0), {x}, {type, {}}).data[0]);
    };
    EXPECT_EQ(reduced("sum", {1, kInf, 2}), kInf);
    EXPECT_TRUE(std::isnan(reduced("sum", {kInf, 1, -kInf})));
    EXPECT_TRUE(std::isnan(reduced("sum", {1, kNan})));
    EXPECT_TRUE(std::isnan(reduced("prod", {0, kInf})));
    EXPECT_EQ(reduced("prod", {-1, kInf, 2}), -kInf);
    // No identity is added: a sum of -0 is -0, and so is one alone.
    EXPECT_TRUE(std::signbit(reduced("sum", {-0.0L})));
    EXPECT_TRUE(std::signbit(reduced("sum", {-0.0L, -0.0L, -0.0L})));
    EXPECT_FALSE(std::signbit(reduced("sum", {-0.0L, 0.0L})));
    EXPECT_TRUE(std::signbit(reduced("prod", {-1, 0})));
  }
}

TEST(AlgebraReduce, TwoToThe25OnesOfF32SumToExactly33554432) {
  const std::string lines = R"(%one = constant {value = 1, type = f32}
%s = splat %one {shape = [33554432]}
%z0 = reduce %s {kind = sum, axis = 0})";
  EXPECT_EQ(run_tile(lines, {}, {Type::kF32, {}}).data[0], 0x4c000000u);
}

}  // namespace
}  // namespace kiln::oracle

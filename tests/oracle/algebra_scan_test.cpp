// scan: kinds, directions, types and axes against the reference's running folds.
#include <cmath>

#include "reference/cast.h"
#include "reference/floats.h"
#include "reference/inputs.h"
#include "reference/ints.h"
#include "reference/lines.h"
#include "reference/norms.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

using BitLine = std::vector<Bits>;

std::string scan_line(const std::string& kind, size_t axis, bool reverse) {
  return "%z0 = scan %x0 {kind = " + kind + ", axis = " + std::to_string(axis) +
         ", reverse = " + (reverse ? "1" : "0") + "}";
}

template <class Check>
void for_all(Check check) {
  uint64_t seed = 300;
  for (const Shape& shape : {Shape{1}, Shape{2}, Shape{7}, Shape{33}, Shape{64}, Shape{3, 5}, Shape{9, 1},
                             Shape{2, 3, 5}, Shape{2, 3, 1, 5}, Shape{2, 1, 3, 2, 3}}) {
    for (size_t axis = 0; axis < shape.size(); ++axis) {
      for (const bool reverse : {false, true}) check(shape, axis, reverse, ++seed);
    }
  }
}

template <class Combine>
void check_exact(Type type, const std::string& kind, Combine combine) {
  for_all([&](const Shape& shape, size_t axis, bool reverse, uint64_t seed) {
    Input x = random_input(type, shape, seed);
    if (kind == "min" || kind == "max") without_f8_infinities(type, x.tile.data);
    const Tile expected = reference::map_lines(x.tile, axis, [&](const BitLine& line) {
      return reference::scan(line, [&](Bits a, Bits b) { return combine(type, a, b); }, reverse);
    });
    const std::string line = scan_line(kind, axis, reverse);
    expect_same(type, run_tile(line, {x}, {type, shape}), expected, line + " of " + list(shape), true);
  });
}

TEST(AlgebraScan, IntKindsWrapInBothDirections) {
  for (const Type type : reference::kIntTypes) {
    check_exact(type, "sum", reference::ints::add);
    check_exact(type, "prod", reference::ints::mul);
    check_exact(type, "min", reference::ints::min);
    check_exact(type, "max", reference::ints::max);
  }
}

TEST(AlgebraScan, AndOrXorOfIntsAndI1) {
  for (const Type type : reference::kAllTypes) {
    if (reference::is_float(type)) continue;
    check_exact(type, "and", reference::ints::bit_and);
    check_exact(type, "or", reference::ints::bit_or);
    check_exact(type, "xor", reference::ints::bit_xor);
  }
}

TEST(AlgebraScan, MinAndMaxPropagateNanToAllBehindIt) {
  for (const Type type : reference::kFloatTypes) {
    check_exact(type, "min", [](Type t, Bits a, Bits b) { return reference::floats::min(t, a, b); });
    check_exact(type, "max", [](Type t, Bits a, Bits b) { return reference::floats::max(t, a, b); });
  }
}

TEST(AlgebraScan, FloatSumsAndProductsRunInF32) {
  for (const Type type : reference::kFloatTypes) {
    const long double step = type == Type::kF64 ? 0x1p-52L : 0x1p-23L;
    for_all([&](const Shape& shape, size_t axis, bool reverse, uint64_t seed) {
      const Input x = random_input(type, shape, seed, false);
      auto magnitudes = reals(x);
      for (long double& value : magnitudes.data) value = std::fabs(value);
      for (const bool is_sum : {true, false}) {
        const auto running = [&](const reference::Line& line) {
          return is_sum ? reference::cumsum(line, reverse) : reference::cumprod(line, reverse);
        };
        const auto exact = reference::map_lines(reals(x), axis, running);
        const auto scale = reference::map_lines(magnitudes, axis, running);
        const Tile out = run_tile(scan_line(is_sum ? "sum" : "prod", axis, reverse), {x}, {type, shape});
        for (size_t i = 0; i < exact.data.size(); ++i) {
          const long double slack = static_cast<long double>(shape[axis]) * step * scale.data[i];
          const long double low = reference::real_value(type, reference::element_of(type, exact.data[i] - slack));
          const long double high = reference::real_value(type, reference::element_of(type, exact.data[i] + slack));
          const long double value = reference::real_value(type, out.data[i]);
          ASSERT_TRUE(low <= value && value <= high)
              << type_name(type) << (is_sum ? " sum " : " prod ") << value << " of " << low << "…" << high;
        }
      }
    });
  }
}

TEST(AlgebraScan, TheRunningValueOfSmallFloatsDoesNotStall) {
  // Ones in bf16: from 256 on the running value has more bits than the type, and each result rounds it once.
  const Input ones = {Type::kBF16, {{600}, std::vector<Bits>(600, 0x3f80)}};
  Tile expected{{600}, {}};
  for (int i = 1; i <= 600; ++i) expected.data.push_back(reference::element_of(Type::kBF16, i));
  expect_same(Type::kBF16, run_tile(scan_line("sum", 0, false), {ones}, {Type::kBF16, {600}}), expected, "ones");
}

}  // namespace
}  // namespace kiln::oracle

// The library's functions along an axis against their textbook formulas, within the tolerances of
// docs/reference/ops.md.
#include <cmath>

#include "reference/cast.h"
#include "reference/inputs.h"
#include "reference/lines.h"
#include "reference/norms.h"
#include "tiles.h"

namespace kiln::oracle {
namespace {

namespace lang = dsl::lang;
using lang::Value;
using reference::Line;
using Values = std::vector<Value>;

constexpr Type kTypes[] = {Type::kF32, Type::kF16, Type::kBF16, Type::kF64};

const std::vector<Shape>& all_shapes() {
  static const std::vector<Shape> shapes = {{1},    {2},    {17},    {64},      {3, 5},
                                            {1, 9}, {9, 1}, {4, 33}, {2, 3, 5}, {2, 7, 1, 3}};
  return shapes;
}

// fn(x, axis) of every type, shape and axis against lines mapped by `reference_of`, which keeps the axis.
template <class Function, class Reference>
void check_lines(const std::string& what, Function fn, Reference reference_of) {
  uint64_t seed = 1;
  for (const Type type : kTypes) {
    for (const Shape& shape : all_shapes()) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const Input x = random_input(type, shape, ++seed, false);
        const auto expected = reference::map_lines(reals(x), axis, reference_of);
        const Tile out = run_traced([&](const Values& v) { return Values{fn(v[0], static_cast<int>(axis))}; }, {x},
                                    {{type, shape}})[0];
        expect_close(type, out, expected, what + " of " + list(shape));
      }
    }
  }
}

// The same of functions whose axis disappears.
template <class Function, class Reference>
void check_reductions(const std::string& what, Function fn, Reference reference_of) {
  uint64_t seed = 1;
  for (const Type type : kTypes) {
    for (const Shape& shape : all_shapes()) {
      for (size_t axis = 0; axis < shape.size(); ++axis) {
        const Input x = random_input(type, shape, ++seed, false);
        const auto expected = reference::reduce_lines(reals(x), axis, reference_of);
        // From the end: the last axis is -1.
        const int from_end = static_cast<int>(axis) - static_cast<int>(shape.size());
        const Tile out =
            run_traced([&](const Values& v) { return Values{fn(v[0], from_end)}; }, {x}, {{type, expected.shape}})[0];
        expect_close(type, out, expected, what + " of " + list(shape));
      }
    }
  }
}

TEST(LibraryNorms, SoftmaxAndItsLogarithmsOfEveryAxis) {
  check_lines("softmax", [](Value x, int axis) { return lang::softmax(x, axis); }, reference::softmax);
  check_lines("log_softmax", [](Value x, int axis) { return lang::log_softmax(x, axis); }, reference::log_softmax);
  check_reductions("logsumexp", [](Value x, int axis) { return lang::logsumexp(x, axis); }, reference::logsumexp);
}

TEST(LibraryNorms, SoftmaxOfExtremeRows) {
  const long double inf = INFINITY;
  const std::vector<Line> rows = {{-inf, 0, 1, -inf},
                                  {-inf, -inf, -inf, -inf},
                                  {60000, 60000, -60000, 0},
                                  {-60000, -60000, -60000, 5},
                                  {-inf, -60000, -inf, -inf},
                                  {100, 101, 99, -inf},
                                  {NAN, 0, 1, 2},
                                  {1e-4L, -1e-4L, 0, -0.0L},
                                  {88, 89, 90, 91}};
  for (const Type type : kTypes) {
    Input x = {type, {{static_cast<int64_t>(rows.size()), 4}, {}}};
    for (const Line& row : rows) {
      for (const Bits bits : bits_of(type, row)) x.tile.data.push_back(bits);
    }
    const auto check = [&](const char* what, auto fn, const auto& expected) {
      const Tile out = run_traced([&](const Values& v) { return Values{fn(v[0])}; }, {x}, {{type, expected.shape}})[0];
      expect_close(type, out, expected, what);
    };
    check(
        "softmax", [](Value v) { return lang::softmax(v, -1); }, reference::map_lines(reals(x), 1, reference::softmax));
    check(
        "log_softmax", [](Value v) { return lang::log_softmax(v, -1); },
        reference::map_lines(reals(x), 1, reference::log_softmax));
    check(
        "logsumexp", [](Value v) { return lang::logsumexp(v, -1); },
        reference::reduce_lines(reals(x), 1, reference::logsumexp));
  }
}

TEST(LibraryNorms, SoftmaxAndLogsumexpOfPlusInfinity) {
  const Input x = {Type::kF32, {{3}, bits_of(Type::kF32, {1, INFINITY, -INFINITY})}};
  const auto out = run_traced([](const Values& v) { return Values{lang::softmax(v[0], 0), lang::logsumexp(v[0], 0)}; },
                              {x}, {{Type::kF32, {3}}, {Type::kF32, {}}});
  expect_close(Type::kF32, out[0], reference::map_lines(reals(x), 0, reference::softmax), "softmax");
  expect_close(Type::kF32, out[1], reference::reduce_lines(reals(x), 0, reference::logsumexp), "logsumexp");
}

TEST(LibraryNorms, SoftmaxOfRowsAtTheEndsOfF32) {
  const Input x = {Type::kF32, {{4}, bits_of(Type::kF32, {3.4e38L, -3.4e38L, 3.4e38L, 0})}};
  const Tile out =
      run_traced([](const Values& v) { return Values{lang::softmax(v[0], 0)}; }, {x}, {{Type::kF32, {4}}})[0];
  expect_close(Type::kF32, out, reference::map_lines(reals(x), 0, reference::softmax), "softmax");
}

TEST(LibraryNorms, MeanAndVarOfEveryAxis) {
  check_reductions("mean", [](Value x, int axis) { return lang::mean(x, axis); }, reference::mean);
  check_reductions(
      "var", [](Value x, int axis) { return lang::var(x, axis); }, [](const Line& x) { return reference::var(x); });
  // A sample of one has no variance: 0/0.
  check_reductions(
      "sample var", [](Value x, int axis) { return lang::var(x, axis, {.mask = {}, .correction = 1}); },
      [](const Line& x) { return x.size() == 1 ? static_cast<long double>(NAN) : reference::var(x, 1); });
}

TEST(LibraryNorms, MeanAndVarOfIntsGiveF32) {
  const Input x = {Type::kI16, {{2, 50}, reference::random_ints(Type::kI16, 100, -300, 300, 1)}};
  const auto out = run_traced([](const Values& v) { return Values{lang::mean(v[0], 1), lang::var(v[0], 1)}; }, {x},
                              {{Type::kF32, {2}}, {Type::kF32, {2}}});
  expect_close(Type::kF32, out[0], reference::reduce_lines(reals(x), 1, reference::mean), "mean");
  expect_close(Type::kF32, out[1],
               reference::reduce_lines(reals(x), 1, [](const Line& l) { return reference::var(l); }), "var");
}

TEST(LibraryNorms, VarDoesNotCancelWhereTheMeanIsLarge) {
  Input x = random_input(Type::kF32, {257}, 3, false);
  for (Bits& bits : x.tile.data) {
    bits = reference::element_of(Type::kF32, 1e6L + reference::real_value(Type::kF32, bits));
  }
  const Tile out = run_traced([](const Values& v) { return Values{lang::var(v[0], 0)}; }, {x}, {{Type::kF32, {}}})[0];
  expect_close(Type::kF32, out, reference::reduce_lines(reals(x), 0, [](const Line& l) { return reference::var(l); }),
               "var");
}

// The mean in f32 errs by up to half its last place, which is a good part of a distance from it. What is far from 0
// together is normalised as well as what is near 0: within the rounding of the mean.
TEST(LibraryNorms, LayerNormOfRowsFarFromZeroErrsByTheRoundingOfTheMean) {
  Input x = random_input(Type::kF32, {4, 257}, 3, false);
  for (Bits& bits : x.tile.data) {
    bits = reference::element_of(Type::kF32, 1000 + reference::real_value(Type::kF32, bits));
  }
  const Tile out = run_traced([](const Values& v) { return Values{lang::layer_norm(v[0], {}, {}, 1, 1e-5)}; }, {x},
                              {{Type::kF32, {4, 257}}})[0];
  const auto expected =
      reference::map_lines(reals(x), 1, [](const Line& l) { return reference::layer_norm(l, {}, {}, 1e-5L); });
  for (size_t i = 0; i < expected.data.size(); ++i) {
    ASSERT_NEAR(static_cast<double>(reference::real_value(Type::kF32, out.data[i])),
                static_cast<double>(expected.data[i]), 1000 * 0x1p-24 * 1.5);
  }
}

// Rows times 1000 and a thousandth too: the norms undo the scale.
Input scaled_rows(Type type, const Shape& shape, uint64_t seed) {
  Input x = random_input(type, shape, seed, false);
  const long double scales[] = {1, 1000, 0.001L};
  const auto row = static_cast<size_t>(shape.back());
  for (size_t i = 0; i < x.tile.data.size(); ++i) {
    x.tile.data[i] = reference::element_of(type, scales[i / row % 3] * reference::real_value(type, x.tile.data[i]));
  }
  return x;
}

TEST(LibraryNorms, LayerNormAndRmsNormWithAndWithoutWeights) {
  constexpr double kEps = 1e-5;
  uint64_t seed = 500;
  for (const Type type : kTypes) {
    for (const Shape& shape : {Shape{64}, Shape{6, 17}, Shape{3, 128}, Shape{2, 3, 5}}) {
      const int64_t n = shape.back();
      const size_t last = shape.size() - 1;
      const Input x = scaled_rows(type, shape, ++seed);
      const Input w = random_input(type, {n}, ++seed, false), b = random_input(type, {n}, ++seed, false);
      // eps takes the type of the computation.
      const auto eps = static_cast<long double>(type == Type::kF64 ? kEps : static_cast<float>(kEps));
      const auto out = run_traced(
          [&](const Values& v) {
            return Values{lang::layer_norm(v[0], v[1], v[2], -1, kEps), lang::layer_norm(v[0], {}, {}, -1, kEps),
                          lang::rms_norm(v[0], v[1], -1, kEps), lang::rms_norm(v[0], {}, -1, kEps)};
          },
          {x, w, b}, std::vector<Output>(4, {type, shape}));
      const Line weight = reals(w).data, bias = reals(b).data;
      const auto check = [&](size_t which, const std::string& what, auto line) {
        expect_close(type, out.at(which), reference::map_lines(reals(x), last, line), what + " of " + list(shape));
      };
      check(0, "layer_norm", [&](const Line& l) { return reference::layer_norm(l, weight, bias, eps); });
      check(1, "plain layer_norm", [&](const Line& l) { return reference::layer_norm(l, {}, {}, eps); });
      check(2, "rms_norm", [&](const Line& l) { return reference::rms_norm(l, weight, eps); });
      check(3, "plain rms_norm", [&](const Line& l) { return reference::rms_norm(l, {}, eps); });
    }
  }
}

// Tails by a mask, with NaN in the lanes that do not count.
TEST(LibraryNorms, LanesOutsideTheMaskDoNotCountWhateverTheyHold) {
  constexpr double kEps = 1e-5;
  for (const Type type : kTypes) {
    const auto eps = static_cast<long double>(type == Type::kF64 ? kEps : static_cast<float>(kEps));
    for (const int64_t valid : {1, 2, 7, 15, 16}) {
      Input x = random_input(type, {3, 16}, 900 + static_cast<uint64_t>(valid), false);
      for (size_t i = 0; i < 48; ++i) {
        if (static_cast<int64_t>(i % 16) >= valid)
          x.tile.data[i] = reference::element_of(type, i % 2 == 0 ? NAN : INFINITY);
      }
      const auto out = run_traced(
          [&](const Values& v) {
            const Value mask = lang::arange(0, 16) < valid;
            return Values{lang::mean(v[0], 1, {.mask = mask}), lang::var(v[0], 1, {.mask = mask}),
                          lang::layer_norm(v[0], {}, {}, 1, kEps, {.mask = mask}),
                          lang::rms_norm(v[0], {}, 1, kEps, {.mask = mask})};
          },
          {x}, {{type, {3}}, {type, {3}}, {type, {3, 16}}, {type, {3, 16}}});
      const auto lines = reference::slice(reals(x), {0, 0}, {3, valid});
      expect_close(type, out[0], reference::reduce_lines(lines, 1, reference::mean), "mean");
      expect_close(type, out[1], reference::reduce_lines(lines, 1, [](const Line& l) { return reference::var(l); }),
                   "var");
      const auto head = [&](const Tile& tile) { return reference::slice(tile, {0, 0}, {3, valid}); };
      expect_close(type, head(out[2]),
                   reference::map_lines(lines, 1, [&](const Line& l) { return reference::layer_norm(l, {}, {}, eps); }),
                   "layer_norm");
      expect_close(type, head(out[3]),
                   reference::map_lines(lines, 1, [&](const Line& l) { return reference::rms_norm(l, {}, eps); }),
                   "rms_norm");
    }
  }
}

TEST(LibraryNorms, CumsumAndCumprodInBothDirections) {
  for (const bool reverse : {false, true}) {
    check_lines(
        "cumsum", [&](Value x, int axis) { return lang::cumsum(x, axis, {.reverse = reverse}); },
        [&](const Line& x) { return reference::cumsum(x, reverse); });
    check_lines(
        "cumprod", [&](Value x, int axis) { return lang::cumprod(x, axis, {.reverse = reverse}); },
        [&](const Line& x) { return reference::cumprod(x, reverse); });
  }
}

}  // namespace
}  // namespace kiln::oracle

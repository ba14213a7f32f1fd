// Products whose rows of A lie anywhere, whose sums go through loops in loops, whose operands end before their tiles
// do.
#include <limits>

#include "differential.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using dsl::ElementType;
using lang::Value;

const Match kNear{1e-5, 1e-4, true};

template <class Def>
void check(const Def& def, std::vector<TestArgument> arguments) {
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  Trial run;
  run.arguments = std::move(arguments);
  run.match = kNear;
  run.targets = cpu_targets();
  expect_same(*def.ir(), "", run);
}

TestArgument random(ElementType type, int64_t count, uint32_t seed) {
  return random_buffer(type, static_cast<size_t>(count), seed, false);
}

// y[m] = x[ids[m]]·w, of tables whose rows are `distance` apart. Rows of one element, whole rows and masked ones.
template <class T>
void check_chosen(int32_t m, int32_t n, int32_t k, int32_t distance) {
  SCOPED_TRACE(std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k));
  const auto def = lang::kernel(
      "chosen", {"x", "ids", "w", "y", "M", "N", "K", "distance", "BM=16", "BN=32", "BK=16"},
      [](lang::Ptr<const T> x, lang::Ptr<const lang::i32> ids, lang::Ptr<const T> w, lang::Ptr<lang::f32> y,
         lang::i32 M, lang::i32 N, lang::i32 K, lang::i32 distance, lang::Const BM, lang::Const BN, lang::Const BK) {
        lang::grid(lang::cdiv(M, BM), lang::cdiv(N, BN));
        const Value first = lang::program_id(0) * BM, n = lang::program_id(1) * BN;
        const Value m = first + lang::arange(0, BM);
        const Value row = lang::load(ids + m, {.mask = m < M});
        lang::Var acc = lang::zeros(lang::f32_t, {BM, BN});
        for (Value k : lang::range(0, K, BK)) {
          const Value at = k + lang::arange(0, BK);
          const Value a = lang::load(x + lang::expand_dims(row * distance, 1) + lang::expand_dims(at, 0),
                                     {.mask = lang::expand_dims(m < M, 1) & lang::expand_dims(at < K, 0)});
          acc = lang::dot(a, lang::tile(w, {K, N}).load({k, n}, {BK, BN}), acc);
        }
        lang::tile(y, {M, N}).store({first, n}, acc);
      });
  const int32_t rows = 9;
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < m; ++i) ids.push_back((i * 5 + 3) % rows);
  check(def, {random(lang::element_v<T>, int64_t{rows - 1} * distance + k, 1), buffer(ids),
              random(lang::element_v<T>, int64_t{k} * n, 2), random(ElementType::kF32, int64_t{m} * n, 3),
              int_scalar(m), int_scalar(n), int_scalar(k), int_scalar(distance)});
}

TEST(DotRows, OfATableAreChosenByIndices) {
  for (const auto& [m, n] : {std::pair<int32_t, int32_t>{16, 32}, {37, 45}, {3, 1}}) {
    for (const int32_t k : {1, 16, 35}) {
      check_chosen<lang::f32>(m, n, k, k + 3);
      check_chosen<lang::bf16>(m, n, k, k);
    }
  }
  // More turns than wait for each other.
  check_chosen<lang::f32>(20, 33, 16 * 9 + 5, 160);
  check_chosen<lang::bf16>(20, 33, 16 * 9 + 5, 160);
}

// A mask may end a row between any two units of several elements: the row is read no further, whatever lies there.
template <class A, class B, class Sum>
void check_ends(ElementType sum) {
  const auto def = lang::kernel("ends", {"x", "ids", "w", "y", "K", "BM=16", "BN=32", "BK=16"},
                                [sum](lang::Ptr<const A> x, lang::Ptr<const lang::i32> ids, lang::Ptr<const B> w,
                                      lang::Ptr<Sum> y, lang::i32 K, lang::Const BM, lang::Const BN, lang::Const BK) {
                                  lang::grid(1);
                                  const Value row = lang::load(ids + lang::arange(0, BM)), at = lang::arange(0, BK);
                                  const Value a =
                                      lang::load(x + lang::expand_dims(row * BK, 1) + lang::expand_dims(at, 0),
                                                 {.mask = lang::expand_dims(at < K, 0)});
                                  const Value b = lang::tile(w, {BK, BN}).load({0, 0}, {BK, BN});
                                  lang::tile(y, {BM, BN}).store({0, 0}, lang::dot(a, b, lang::zeros(sum, {BM, BN})));
                                });
  std::vector<int32_t> ids;
  for (int32_t i = 0; i < 16; ++i) ids.push_back(i * 7 % 16);
  for (const int32_t k : {1, 7, 8, 13, 15}) {
    SCOPED_TRACE(k);
    check(def, {random(lang::element_v<A>, 16 * 16, 1), buffer(ids), random(lang::element_v<B>, 16 * 32, 2),
                random(lang::element_v<Sum>, 16 * 32, 3), int_scalar(k)});
  }
}
TEST(DotRows, EndWhereTheirMaskDoes) {
  check_ends<lang::f32, lang::f32, lang::f32>(lang::f32_t);
  check_ends<lang::bf16, lang::bf16, lang::f32>(lang::f32_t);
  check_ends<lang::i8, lang::u8, lang::i32>(lang::i32_t);
}

// Turns wait for each other only where nothing that they read changes meanwhile: not where B is in scratch, or in
// memory that the kernel may write, or A's rows are written by the turn.
TEST(DotRows, AreReadBeforeTheyChange) {
  for (const bool in_scratch : {true, false}) {
    const auto def = lang::kernel(
        "changes", {"x", "ids", "w", "y", "turns", "BM=16", "BN=32", "BK=8"},
        [in_scratch](lang::Ptr<lang::f32> x, lang::Ptr<const lang::i32> ids, lang::Ptr<lang::f32> w,
                     lang::Ptr<lang::f32> y, lang::i32 turns, lang::Const BM, lang::Const BN, lang::Const BK) {
          lang::grid(1);
          const Value row = lang::load(ids + lang::arange(0, BM));
          lang::Var acc = lang::zeros(lang::f32_t, {BM, BN});
          for (Value turn : lang::range(0, turns)) {
            const Value a = lang::load(x + lang::expand_dims(row * BK, 1) + lang::expand_dims(lang::arange(0, BK), 0));
            const Value b = in_scratch
                                ? lang::reshape(lang::load(w + turn * BK * BN + lang::arange(0, BK * BN)), {BK, BN})
                                : lang::load(w + turn * BK * BN + lang::expand_dims(lang::arange(0, BK) * BN, 1) +
                                             lang::expand_dims(lang::arange(0, BN), 0));
            acc = lang::dot(a, b, acc);
            if (in_scratch) continue;
            const lang::Tile rows = lang::tile(x, {16, BK});
            rows.store({0, 0}, rows.load({0, 0}, {BM, BK}) * 0.5f);
          }
          lang::tile(y, {BM, BN}).store({0, 0}, acc);
        });
    std::vector<int32_t> ids;
    for (int32_t i = 0; i < 16; ++i) ids.push_back(i * 7 % 16);
    check(def, {random(ElementType::kF32, 16 * 8, 1), buffer(ids), random(ElementType::kF32, 3 * 8 * 32, 2),
                random(ElementType::kF32, 16 * 32, 3), int_scalar(3)});
  }
}

// y of images a line high, side by side, with K in two loops: over the taps of a filter, and over channels.
const auto& filter() {
  static const auto def = lang::kernel(
      "filter", {"x", "w", "y", "N", "W", "C", "K", "S", "stride", "pad", "BM=20", "BN=24", "BK=8"},
      [](lang::Ptr<const lang::f32> x, lang::Ptr<const lang::f32> w, lang::Ptr<lang::f32> y, lang::i32 N, lang::i32 W,
         lang::i32 C, lang::i32 K, lang::i32 S, lang::i32 stride, lang::i32 pad, lang::Const BM, lang::Const BN,
         lang::Const BK) {
        const Value Q = (W + 2 * pad - S) / stride + 1;
        lang::grid(lang::cdiv(N * Q, BM), lang::cdiv(K, BN));
        const Value m = lang::program_id(0) * BM, n = lang::program_id(1) * BN;
        const Value pixel = m + lang::arange(0, BM);
        const Value image = pixel / Q, left = (pixel - image * Q) * stride - pad;
        lang::Var acc = lang::zeros(lang::f32_t, {BM, BN});
        for (Value s : lang::range(0, S)) {
          const Value at = left + s;
          for (Value k : lang::range(0, C, BK)) {
            const Value lane = k + lang::arange(0, BK);
            const Value inside = (pixel < N * Q) & (at >= 0) & (at < W);
            const Value a = lang::load(x + lang::expand_dims((image * W + at) * C, 1) + lang::expand_dims(lane, 0),
                                       {.mask = lang::expand_dims(inside, 1) & lang::expand_dims(lane < C, 0)});
            const Value b = lang::tile(w + s * C, {K, C}, {S * C, 1}).load({n, k}, {BN, BK});
            acc = lang::dot(a, lang::trans(b), acc);
          }
        }
        lang::tile(y, {N * Q, K}).store({m, n}, acc * 2.0f + 1.0f);
      });
  return def;
}

struct Line {
  int32_t n, w, c, k, s, stride, pad;
};
void check_filter(const Line& v, TestArgument weights) {
  SCOPED_TRACE(std::to_string(v.n) + " lines of " + std::to_string(v.w) + ", filter " + std::to_string(v.s));
  const int32_t q = (v.w + 2 * v.pad - v.s) / v.stride + 1;
  check(filter(), {random(ElementType::kF32, int64_t{v.n} * v.w * v.c, 1), std::move(weights),
                   random(ElementType::kF32, int64_t{v.n} * q * v.k, 3), int_scalar(v.n), int_scalar(v.w),
                   int_scalar(v.c), int_scalar(v.k), int_scalar(v.s), int_scalar(v.stride), int_scalar(v.pad)});
}

TEST(DotRows, AreWhatAFilterSees) {
  for (const Line& v : {Line{3, 11, 8, 24, 3, 1, 1}, Line{2, 20, 3, 30, 7, 2, 3}, Line{5, 4, 17, 5, 1, 1, 0},
                        Line{1, 1, 1, 1, 3, 1, 1}, Line{4, 6, 16, 48, 2, 3, 2}, Line{2, 9, 17, 25, 5, 1, 2},
                        // Blocks that consist of zeros in some turns.
                        Line{40, 1, 8, 24, 3, 1, 1}, Line{37, 2, 9, 30, 9, 1, 4}}) {
    check_filter(v, random(ElementType::kF32, int64_t{v.k} * v.s * v.c, 2));
  }
}

// A zero beside the image times an infinity is NaN, and so is one times NaN: products are left out where there are
// none. Programs that share weights know it, whichever of them packed these.
TEST(DotRows, OfZerosCountWhereWeightsAreNotFinite) {
  const Line v{40, 3, 9, 30, 3, 1, 1};
  for (const float strange : {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
                              std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::max()}) {
    for (const size_t place : {size_t{0}, size_t{29 * 27 + 26}, size_t{13 * 27 + 10}}) {
      std::vector<float> weights(static_cast<size_t>(v.k) * v.s * v.c);
      for (size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<float>(i % 7) - 3;
      weights[place] = strange;
      check_filter(v, buffer(weights));
    }
  }
}

// Some turns of the outer loop, the first ones or all of them, have no turn of the inner one. A's rows lie in order, or
// anywhere.
TEST(DotInLoops, TurnsMayBeEmpty) {
  struct Turns {
    int32_t r, first, slope;
  };
  for (const bool anywhere : {false, true}) {
    const auto def = lang::kernel(
        "nested", {"x", "w", "y", "M", "R", "first", "slope", "BM=16", "BN=64", "BK=16"},
        [anywhere](lang::Ptr<const lang::f32> x, lang::Ptr<const lang::f32> w, lang::Ptr<lang::f32> y, lang::i32 M,
                   lang::i32 R, lang::i32 first, lang::i32 slope, lang::Const BM, lang::Const BN, lang::Const BK) {
          lang::grid(lang::cdiv(M, BM));
          const Value m = lang::program_id(0) * BM, row = (m + lang::arange(0, BM)) % M;
          lang::Var acc = lang::zeros(lang::f32_t, {BM, BN});
          for (Value r : lang::range(0, R)) {
            for (Value k : lang::range(0, (first + r * slope) * BK, BK)) {
              const Value at = k + lang::arange(0, BK);
              const Value a = anywhere ? lang::load(x + lang::expand_dims(row * (4 * BK), 1) + lang::expand_dims(at, 0))
                                       : lang::tile(x, {M, 4 * BK}).load({m, k}, {BM, BK});
              acc = lang::dot(a, lang::tile(w, {4 * BK, BN}).load({k, 0}, {BK, BN}), acc);
            }
          }
          lang::tile(y, {M, BN}).store({m, 0}, acc);
        });
    for (const int32_t m : {16, 21}) {
      for (const Turns& t : {Turns{3, 2, 0}, Turns{4, -1, 1}, Turns{3, 2, -1}, Turns{2, 0, 0}, Turns{0, 1, 0}}) {
        check(def, {random(ElementType::kF32, int64_t{m} * 64, 1), random(ElementType::kF32, 64 * 64, 2),
                    random(ElementType::kF32, int64_t{m} * 64, 3), int_scalar(m), int_scalar(t.r), int_scalar(t.first),
                    int_scalar(t.slope)});
      }
    }
  }
}

// Where one operand has ended and the other has not, an infinity times that zero is NaN.
TEST(DotDepth, IsThatOfTheLongerOperand) {
  const auto def = lang::kernel("depths", {"x", "w", "y", "X", "W", "BM=8", "BN=16", "BK=32"},
                                [](lang::Ptr<const lang::f32> x, lang::Ptr<const lang::f32> w, lang::Ptr<lang::f32> y,
                                   lang::i32 X, lang::i32 W, lang::Const BM, lang::Const BN, lang::Const BK) {
                                  lang::grid(1);
                                  const Value sums = lang::dot(lang::tile(x, {BM, X}).load({0, 0}, {BM, BK}),
                                                               lang::tile(w, {W, BN}).load({0, 0}, {BK, BN}),
                                                               lang::zeros(lang::f32_t, {BM, BN}));
                                  lang::tile(y, {BM, BN}).store({0, 0}, sums);
                                });
  for (const auto& [x, w] : {std::pair<int32_t, int32_t>{5, 5}, {5, 9}, {9, 5}, {0, 0}, {31, 40}, {40, 31}, {0, 3}}) {
    auto with_infinity = [](int32_t rows, int32_t columns, size_t at) {
      std::vector<float> out(static_cast<size_t>(rows * columns), 0.5f);
      if (at < out.size()) out[at] = std::numeric_limits<float>::infinity();
      return buffer(out);
    };
    // In the last column of x, and the last row of w.
    check(def, {with_infinity(8, x, static_cast<size_t>(std::max(4 * x - 1, 0))),
                with_infinity(w, 16, static_cast<size_t>(std::max(16 * w - 3, 0))), random(ElementType::kF32, 128, 3),
                int_scalar(x), int_scalar(w)});
  }
}

}  // namespace
}  // namespace kiln::test

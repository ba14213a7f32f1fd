// Stores whose rows decide where they read and whether they do, and what is the same in all rows.
#include "differential.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {
namespace {

namespace lang = dsl::lang;
using dsl::ElementType;
using lang::Value;

struct Lines {
  int32_t count, width, channels;  // lines of pixels, side by side
  int taps;                        // neighbours of a pixel in its line
  float other = 0;                 // what lies outside of a line
};

// y[pixel, c] = Σ over taps t of x[pixel + t - taps/2, c] · w[t, c], each line by itself; `flags` (one a pixel) leave
// pixels out.
template <class T>
auto stencil(const Lines& v) {
  return lang::kernel("stencil", {"x", "w", "flags", "y", "N", "W", "C", "BM=32", "BC=48"},
                      [v](lang::Ptr<const T> x, lang::Ptr<const T> w, lang::Ptr<const lang::i32> flags, lang::Ptr<T> y,
                          lang::i32 N, lang::i32 W, lang::i32 C, lang::Const BM, lang::Const BC) {
                        lang::grid(lang::cdiv(N * W, BM), lang::cdiv(C, BC));
                        const Value m = lang::program_id(0) * BM, first = lang::program_id(1) * BC;
                        const Value pixel = m + lang::arange(0, BM), line = pixel / W, place = pixel - line * W;
                        const Value channel = lang::expand_dims(first + lang::arange(0, BC), 0);
                        const Value on = lang::load(flags + pixel, {.mask = pixel < N * W}) > 0;
                        Value sum = lang::zeros(lang::f32_t, {BM, BC});
                        for (int t = 0; t < v.taps; ++t) {
                          const Value at = place + (t - v.taps / 2);
                          Value inside = (pixel < N * W) & (at >= 0) & (at < W);
                          if (t == 1) inside = inside & on;
                          const Value mask = lang::expand_dims(inside, 1) & (channel < C);
                          const Value from = x + lang::expand_dims((line * W + at) * C, 1) + channel;
                          const Value a =
                              v.other == 0
                                  ? lang::load(from, {.mask = mask})
                                  : lang::load(from, {.mask = mask, .other = lang::cast(v.other, lang::element_v<T>)});
                          const Value b = lang::load(w + t * C + channel, {.mask = channel < C});
                          sum = sum + lang::cast(a, lang::f32_t) * lang::cast(b, lang::f32_t);
                        }
                        lang::tile(y, {N * W, C}).store({m, first}, lang::cast(sum, lang::element_v<T>));
                      });
}

template <class T>
void check(const Lines& v) {
  SCOPED_TRACE(std::to_string(v.count) + "x" + std::to_string(v.width) + "x" + std::to_string(v.channels) + " " +
               std::to_string(v.taps));
  const auto def = stencil<T>(v);
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  const auto pixels = static_cast<size_t>(v.count * v.width), channels = static_cast<size_t>(v.channels);
  std::vector<int32_t> flags;
  for (size_t i = 0; i < pixels; ++i) flags.push_back(i % 5 == 0 ? 0 : 1);
  Trial run;
  // Reads outside of an array are a crash.
  run.arguments = {random_buffer(lang::element_v<T>, pixels * channels, 1, false),
                   random_buffer(lang::element_v<T>, static_cast<size_t>(v.taps) * channels, 2, false),
                   buffer(flags),
                   random_buffer(lang::element_v<T>, pixels * channels, 3),
                   int_scalar(v.count),
                   int_scalar(v.width),
                   int_scalar(v.channels)};
  run.match = {1e-5, 1e-2, true};
  run.targets = cpu_targets();
  expect_same(*def.ir(), "", run);
}

TEST(RowsOnCpu, HaveNeighboursOrNot) {
  for (const int taps : {1, 2, 3, 5, 9}) {
    check<lang::f32>({3, 11, 48, taps});
    check<lang::f32>({2, 40, 75, taps});
  }
  check<lang::f32>({70, 1, 16, 3});
  check<lang::f16>({3, 11, 50, 5});
}

TEST(RowsOnCpu, OfManyNeighbours) { check<lang::f32>({1, 50, 20, 40}); }

TEST(RowsOnCpu, HaveAValueOutside) {
  check<lang::f32>({3, 11, 48, 3, 2.5f});
  check<lang::f32>({3, 11, 75, 5, -1});
}

}  // namespace
}  // namespace kiln::test

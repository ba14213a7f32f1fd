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

// Four at a time where the conditions of all four hold: what they share is loaded once.
TEST(RowsOnCpu, ThatShareManyLoadsGoTogether) {
  const auto code_of = [](int taps) {
    auto artifact = compile(*stencil<lang::f32>({1, 64, 48, taps}).ir(), {}, {}, "cpu:x86-64-v3", "llvm");
    EXPECT_TRUE(artifact.ok()) << artifact.error().message;
    return std::string(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  };
  EXPECT_NE(code_of(5).find("\ntogether"), std::string::npos);
  EXPECT_NE(code_of(9).find("\ntogether"), std::string::npos);
  EXPECT_EQ(code_of(3).find("\ntogether"), std::string::npos);
  EXPECT_EQ(code_of(11).find("\ntogether"), std::string::npos) << "sixteen registers do not hold them";
  for (const int channels : {16, 33, 48}) check<lang::f32>({4, 24, channels, 5});
  check<lang::f32>({1, 3, 48, 5});
  check<lang::f32>({1, 37, 17, 7, 1.5f});
}

// A program has a line of an image: whether the lines beside it are there is the same for all of its pixels. Where a
// pixel has all of its neighbours nothing chooses.
TEST(RowsOnCpu, HaveLinesBesideThem) {
  const auto def = lang::kernel(
      "image", {"x", "w", "y", "H", "W", "C", "BM=16", "BC=32"},
      [](lang::Ptr<const lang::f32> x, lang::Ptr<const lang::f32> w, lang::Ptr<lang::f32> y, lang::i32 H, lang::i32 W,
         lang::i32 C, lang::Const BM, lang::Const BC) {
        lang::grid(H);
        const Value line = lang::program_id(0), place = lang::expand_dims(lang::arange(0, BM), 1);
        const Value channel = lang::expand_dims(lang::arange(0, BC), 0);
        const Value mask = (place < W) & (channel < C);
        Value sum = lang::zeros(lang::f32_t, {BM, BC});
        for (int t = 0; t < 9; ++t) {
          const int down = t / 3 - 1, right = t % 3 - 1;
          const Value is_line = (line + down >= 0) & (line + down < H);
          const Value inside = mask & (place + right >= 0) & (place + right < W) & is_line;
          const Value from = ((line + down) * W + place + right) * C + channel;
          sum = sum + lang::load(x + from, {.mask = inside}) * lang::load(w + t * C + channel, {.mask = channel < C});
        }
        lang::store(y + (line * W + place) * C + channel, sum, {.mask = mask});
      });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  for (const int32_t lines : {1, 2, 5}) {
    const auto count = static_cast<size_t>(lines) * 13 * 29;
    Trial run;
    run.arguments = {random_buffer(ElementType::kF32, count, 1, false),
                     random_buffer(ElementType::kF32, 9 * 29, 2, false),
                     random_buffer(ElementType::kF32, count, 3),
                     int_scalar(lines),
                     int_scalar(13),
                     int_scalar(29)};
    run.match = {1e-5, 0, true};
    run.targets = cpu_targets();
    expect_same(*def.ir(), "", run);
  }
  auto artifact = compile(*def.ir(), {}, {}, "cpu:x86-64-v4", "llvm");
  ASSERT_TRUE(artifact.ok()) << artifact.error().message;
  const std::string code(reinterpret_cast<const char*>(artifact->code.data()), artifact->code.size());
  const size_t first = code.find("\nall.hold:"), last = code.find("\nsome.hold:");
  ASSERT_TRUE(first < last && last != std::string::npos);
  EXPECT_EQ(code.substr(first, last - first).find("kiln.zeros"), std::string::npos) << code.substr(first, last - first);
}

// Of two arrays by one walk, the second in place of what is read.
TEST(RowsOnCpu, GoTogetherForTwoStores) {
  const auto def = lang::kernel("two", {"x", "w", "y", "z", "N", "C", "BM=16", "BC=32"},
                                [](lang::Ptr<const lang::f32> x, lang::Ptr<const lang::f32> w, lang::Ptr<lang::f32> y,
                                   lang::Ptr<lang::f32> z, lang::i32 N, lang::i32 C, lang::Const BM, lang::Const BC) {
                                  lang::grid(lang::cdiv(N, BM));
                                  const Value row = lang::program_id(0) * BM + lang::arange(0, BM);
                                  const Value channel = lang::expand_dims(lang::arange(0, BC), 0);
                                  const Value own = lang::expand_dims(row * C, 1) + channel;
                                  const Value mask = lang::expand_dims(row < N, 1) & (channel < C);
                                  const Value old = lang::load(z + own, {.mask = mask});
                                  Value sum = old;
                                  for (int t = 0; t < 5; ++t) {
                                    const Value inside =
                                        lang::expand_dims((row + (t - 2) >= 0) & (row + (t - 2) < N), 1) & mask;
                                    sum = sum + lang::load(x + own + (t - 2) * C, {.mask = inside}) *
                                                    lang::load(w + t * C + channel, {.mask = channel < C});
                                  }
                                  lang::store(y + own, sum * 2, {.mask = mask});
                                  lang::store(z + own, sum + old, {.mask = mask});
                                });
  ASSERT_TRUE(def.ir().ok()) << def.ir().error().message;
  for (const int32_t rows : {1, 4, 19, 64}) {
    const auto count = static_cast<size_t>(rows) * 21;
    Trial run;
    run.arguments = {random_buffer(ElementType::kF32, count, 1, false),
                     random_buffer(ElementType::kF32, 5 * 21, 2, false),
                     random_buffer(ElementType::kF32, count, 3),
                     random_buffer(ElementType::kF32, count, 4),
                     int_scalar(rows),
                     int_scalar(21)};
    run.match = {1e-5, 0, true};
    run.targets = cpu_targets();
    expect_same(*def.ir(), "", run);
  }
}

TEST(RowsOnCpu, OfManyNeighbours) { check<lang::f32>({1, 50, 20, 40}); }

TEST(RowsOnCpu, HaveAValueOutside) {
  check<lang::f32>({3, 11, 48, 3, 2.5f});
  check<lang::f32>({3, 11, 75, 5, -1});
}

}  // namespace
}  // namespace kiln::test

// Kernels with small last axes and with several sums in one loop, beside plain loops by the same host's compiler
// (small_axes_plain.h): µs on one thread, in cache, by turns, medians; results are compared. One line a case:
// area,case,dtype,who,metric,value; a table of ratios at the end.
//   bench-small-axes [case…]
#include <time.h>

#include <cmath>
#include <functional>
#include <numbers>
#include <random>
#include <set>

#include "bench_tools.h"
#include "cpu/lines.h"
#include "kiln/client/client.h"
#include "kiln/dsl/kernel.h"
#include "small_axes_plain.h"

namespace {

namespace plain = kiln::bench::plain;
using namespace kiln::dsl::lang;
using kiln::bench::need;

constexpr int kRounds = 41;
// Sizes that stay in the second-level cache.
constexpr int32_t kCount = 1 << 14, kInt4Rows = 16, kInt4Cols = 4096, kFfts = 64, kBodies = 1024, kSystems = 64,
                  kSteps = 128, kWidth = 256;

std::vector<float> numbers(size_t count, uint32_t seed, float low = -1, float high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> of(low, high);
  std::vector<float> out(count);
  for (float& x : out) x = of(random);
  return out;
}

// That this thread ran, of one of several calls.
double seconds(const std::function<void()>& work) {
  constexpr int kCalls = 20;
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  };
  const double start = now();
  for (int i = 0; i < kCalls; ++i) work();
  return (now() - start) / kCalls;
}

// What both sides compute, each into an array of its own.
struct Case {
  std::string name;
  std::vector<float> ours, theirs;
  std::function<void()> kiln, loop;
  double tolerance;  // of the largest difference, relative to the largest number
};

double difference(const Case& test) {
  double most = 0, largest = 1e-30;
  for (size_t i = 0; i < test.ours.size(); ++i) {
    most = std::max(most, static_cast<double>(std::fabs(test.ours[i] - test.theirs[i])));
    largest = std::max(largest, static_cast<double>(std::fabs(test.theirs[i])));
    if (std::isnan(test.ours[i])) return INFINITY;
  }
  return most / largest;
}

template <class Kernel>
auto compiled(kiln::Client& client, const Kernel& kernel) {
  return need(client.get(kernel, {}));
}

std::unique_ptr<Case> make_case(std::string name, size_t count, double tolerance) {
  return std::make_unique<Case>(
      Case{std::move(name), std::vector<float>(count), std::vector<float>(count), {}, {}, tolerance});
}

std::unique_ptr<Case> complex_product(kiln::Client& client) {
  auto def = kernel("complex_product", {"x", "y", "z", "n", "B=1024"},
                    [](Ptr<const f32> x, Ptr<const f32> y, Ptr<f32> z, i32 n, Const B) {
                      grid(cdiv(n, B));
                      const Value at = program_id(0) * B;
                      const auto [a, b] = split(tile(x, {n, 2}).load({at, 0}, {B, 2}));
                      const auto [c, d] = split(tile(y, {n, 2}).load({at, 0}, {B, 2}));
                      tile(z, {n, 2}).store({at, 0}, join(a * c - b * d, a * d + b * c));
                    });
  auto test = make_case("complex product", 2 * kCount, 1e-6);
  auto x = numbers(2 * kCount, 1), y = numbers(2 * kCount, 2);
  test->kiln = [f = compiled(client, def), x, y, to = test->ours.data()]() mutable {
    need(f.launch({.threads = 1}, x.data(), y.data(), to, kCount));
  };
  test->loop = [=, to = test->theirs.data()] { plain::complex_product(x.data(), y.data(), to, kCount); };
  return test;
}

std::unique_ptr<Case> unpack_int4(kiln::Client& client) {
  auto def = kernel("unpack_int4", {"x", "scale", "y", "cols", "B=2048"},
                    [](Ptr<const u8> x, Ptr<const f32> scale, Ptr<f32> y, i32 cols, Const B) {
                      grid(kInt4Rows);
                      const Value row = program_id(0);
                      const Value factor = load(scale + row);
                      for (Value at : range(0, cols / 2, B)) {
                        const Value pairs = tile(x + row * (cols / 2), {cols / 2}).load({at}, {B});
                        const Value all = interleave(pairs & 15, pairs >> 4);
                        tile(y + row * cols, {cols}).store({at * 2}, (cast(all, f32_t) - 8.0f) * factor);
                      }
                    });
  auto test = make_case("packed int4", size_t{kInt4Rows} * kInt4Cols, 0);
  std::vector<uint8_t> x(size_t{kInt4Rows} * kInt4Cols / 2);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(i * 167 + i / 256);
  auto scale = numbers(kInt4Rows, 3);
  test->kiln = [f = compiled(client, def), x, scale, to = test->ours.data()]() mutable {
    need(f.launch({.threads = 1}, x.data(), scale.data(), to, kInt4Cols));
  };
  test->loop = [=, to = test->theirs.data()] { plain::unpack_int4(x.data(), scale.data(), to, kInt4Rows, kInt4Cols); };
  return test;
}

// Stockham's form: x of [2, l, m] becomes [l, 2, m], l from 128 down to 1.
std::unique_ptr<Case> fft256(kiln::Client& client) {
  auto def = kernel("fft256", {"x", "w", "y", "rows"}, [](Ptr<const f32> x, Ptr<const f32> w, Ptr<f32> y, i32 rows) {
    grid(rows);
    const Value at = program_id(0) * 256;
    auto [re, im] = split(tile(x, {rows * 256, 2}).load({at, 0}, {256, 2}));
    for (int l = 128, m = 1; l >= 1; l /= 2, m *= 2) {
      const auto half = [&](const Value& v, int i) {
        return reshape(slice(reshape(v, {2, 128}), 0, i, i + 1), {l, m});
      };
      const Value real = half(re, 0) + half(re, 1), imaginary = half(im, 0) + half(im, 1);
      const Value dr = half(re, 0) - half(re, 1), di = half(im, 0) - half(im, 1);
      const Value turn = expand_dims(arange(0, l) * (2 * m), 1);
      const Value wr = load(w + turn), wi = load(w + turn + 1);
      const auto merged = [&](const Value& a, const Value& b) {
        return reshape(permute(join(a, b), {0, 2, 1}), {256});
      };
      const Value next_re = merged(real, dr * wr - di * wi);
      im = merged(imaginary, dr * wi + di * wr);
      re = next_re;
    }
    tile(y, {rows * 256, 2}).store({at, 0}, join(re, im));
  });
  auto test = make_case("fft of 256", size_t{kFfts} * 512, 1e-5);
  auto x = numbers(size_t{kFfts} * 512, 4);
  std::vector<float> w;
  for (int j = 0; j < 128; ++j) {
    w.push_back(static_cast<float>(std::cos(-2 * std::numbers::pi * j / 256)));
    w.push_back(static_cast<float>(std::sin(-2 * std::numbers::pi * j / 256)));
  }
  test->kiln = [f = compiled(client, def), x, w, to = test->ours.data()]() mutable {
    need(f.launch({.threads = 1}, x.data(), w.data(), to, kFfts));
  };
  test->loop = [=, to = test->theirs.data()] { plain::fft256(x.data(), w.data(), to, kFfts); };
  return test;
}

std::unique_ptr<Case> nbody(kiln::Client& client) {
  auto def = kernel("nbody", {"at", "mass", "pull", "n", "B=64"},
                    [](Ptr<const f32> at, Ptr<const f32> mass, Ptr<f32> pull, i32 n, Const B) {
                      grid(cdiv(n, B));
                      const Value i = program_id(0) * B + arange(0, B);
                      const Value here = i < n;
                      const Value x = load(at + i, {.mask = here}), y = load(at + n + i, {.mask = here}),
                                  z = load(at + 2 * n + i, {.mask = here});
                      Var ax = zeros(f32_t, {B}), ay = zeros(f32_t, {B}), az = zeros(f32_t, {B});
                      for (Value j : range(0, n)) {
                        const Value dx = load(at + j) - x, dy = load(at + n + j) - y, dz = load(at + 2 * n + j) - z;
                        const Value inverse = rsqrt(dx * dx + dy * dy + dz * dz + 1e-3f, kiln::dsl::lang::fast);
                        const Value f = load(mass + j) * inverse * inverse * inverse;
                        ax += f * dx;
                        ay += f * dy;
                        az += f * dz;
                      }
                      store(pull + i, ax, {.mask = here});
                      store(pull + n + i, ay, {.mask = here});
                      store(pull + 2 * n + i, az, {.mask = here});
                    });
  auto test = make_case("n-body", 3 * kBodies, 1e-4);
  auto at = numbers(3 * kBodies, 5), mass = numbers(kBodies, 6, 0, 1);
  test->kiln = [f = compiled(client, def), at, mass, to = test->ours.data()]() mutable {
    need(f.launch({.threads = 1}, at.data(), mass.data(), to, kBodies));
  };
  test->loop = [=, to = test->theirs.data()] { plain::nbody(at.data(), mass.data(), to, kBodies); };
  return test;
}

// Row by row: what is known of x stands in a tile, the rows to come are zeros.
std::unique_ptr<Case> triangular(kiln::Client& client) {
  auto def = kernel("triangular", {"l", "b", "x", "count", "N=16", "M=32"},
                    [](Ptr<const f32> l, Ptr<const f32> b, Ptr<f32> x, i32 count, Const N, Const M) {
                      grid(count);
                      const Value s = program_id(0);
                      const Value rows = arange(0, N), cols = arange(0, M);
                      const Value matrix = l + s * (N * N), right = b + s * (N * M);
                      Var known = zeros(f32_t, {N, M});
                      for (Value i : range(0, N)) {
                        const Value factors = load(matrix + i * N + rows, {.mask = rows < i});
                        const Value known_part = sum(expand_dims(factors, 1) * known, 0);
                        const Value next =
                            (load(right + i * M + cols) - known_part) * (1.0f / load(matrix + i * N + i));
                        known = where(expand_dims(rows == i, 1), expand_dims(next, 0), known);
                      }
                      store(x + s * (N * M) + expand_dims(rows * M, 1) + expand_dims(cols, 0), known);
                    });
  auto test = make_case("triangular solve", size_t{kSystems} * 512, 1e-5);
  auto l = numbers(size_t{kSystems} * 256, 7, -0.2f, 0.2f), b = numbers(size_t{kSystems} * 512, 8);
  for (size_t s = 0; s < kSystems; ++s) {
    for (size_t i = 0; i < 16; ++i) l[s * 256 + i * 17] += 1;
  }
  test->kiln = [f = compiled(client, def), l, b, to = test->ours.data()]() mutable {
    need(f.launch({.threads = 1}, l.data(), b.data(), to, kSystems));
  };
  test->loop = [=, to = test->theirs.data()] { plain::triangular(l.data(), b.data(), to, kSystems); };
  return test;
}

std::unique_ptr<Case> selective_scan(kiln::Client& client) {
  auto def = kernel("selective_scan", {"a", "x", "b", "c", "y", "steps", "width", "B=64", "N=16"},
                    [](Ptr<const f32> a, Ptr<const f32> x, Ptr<const f32> b, Ptr<const f32> c, Ptr<f32> y, i32 steps,
                       i32 width, Const B, Const N) {
                      grid(cdiv(width, B));
                      const Value at = program_id(0) * B;
                      Var h = zeros(f32_t, {B, N});
                      for (Value t : range(0, steps)) {
                        const Value decay = tile(a + t * width, {width}).load({at}, {B});
                        const Value in = tile(x + t * width, {width}).load({at}, {B});
                        const Value into = load(b + t * N + arange(0, N)), from = load(c + t * N + arange(0, N));
                        h = expand_dims(decay, 1) * h + expand_dims(in, 1) * expand_dims(into, 0);
                        tile(y + t * width, {width}).store({at}, sum(expand_dims(from, 0) * h, 1));
                      }
                    });
  auto test = make_case("selective scan", size_t{kSteps} * kWidth, 1e-5);
  auto a = numbers(size_t{kSteps} * kWidth, 9, 0, 1), x = numbers(size_t{kSteps} * kWidth, 10);
  auto b = numbers(size_t{kSteps} * 16, 11), from = numbers(size_t{kSteps} * 16, 12);
  test->kiln = [f = compiled(client, def), a, x, b, from, to = test->ours.data()]() mutable {
    need(f.launch({.threads = 1}, a.data(), x.data(), b.data(), from.data(), to, kSteps, kWidth));
  };
  test->loop = [=, to = test->theirs.data()] {
    plain::selective_scan(a.data(), x.data(), b.data(), from.data(), to, kSteps, kWidth);
  };
  return test;
}

}  // namespace

int main(int argc, char** argv) {
  using namespace kiln::bench;
  const std::set<std::string> only(argv + 1, argv + argc);
  kiln::Client client;
  Report report;
  bool fine = true;
  for (const auto make : {complex_product, unpack_int4, fft256, nbody, triangular, selective_scan}) {
    const auto test = make(client);
    if (!only.empty() && !only.contains(test->name)) continue;
    test->kiln();
    test->loop();
    const double apart = difference(*test);
    if (apart > test->tolerance) {
      std::fprintf(stderr, "%s: the results differ by %g\n", test->name.c_str(), apart);
      fine = false;
    }
    std::vector<double> ours, theirs;
    for (int round = 0; round < kRounds; ++round) {
      ours.push_back(seconds(test->kiln) * 1e6);
      theirs.push_back(seconds(test->loop) * 1e6);
    }
    const auto add = [&](const char* who, std::vector<double> times) {
      report.measurements.push_back(
          {"small axes", test->name, "f32", who, "us", kiln::bench::median(std::move(times))});
      std::printf("%s\n", line_of(report.measurements.back()).c_str());
    };
    add("kiln", std::move(ours));
    add("g++", std::move(theirs));
    std::fflush(stdout);
  }
  std::printf("%s", table_of(compare(report)).c_str());
  return fine ? 0 : 1;
}

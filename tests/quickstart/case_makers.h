// What the cases are made of: inputs, comparisons with float64, and the form in which they are written down.
#pragma once

#include <cmath>
#include <cstdlib>
#include <tuple>

#include "buffer.h"
#include "cases.h"
#include "machine.h"

namespace kiln::quickstart {

// One list per family.
std::vector<Case> element_cases(Size size);
std::vector<Case> row_cases(Size size);
std::vector<Case> order_cases(Size size);
std::vector<Case> product_cases(Size size);
std::vector<Case> convolution_cases(Size size);
std::vector<Case> attention_cases(Size size);
std::vector<Case> image_cases(Size size);
std::vector<Case> training_cases(Size size);
std::vector<Case> quantised_cases(Size size);

// --- inputs ---

template <class M>
Buffer<M> allocate(size_t count) {
  return Buffer<M>(count);
}
// N(0, 1), the same on every run, written by all threads first.
Buffer<float> normals(size_t count, uint32_t seed);
// The same in a small float; of i8 the whole range.
template <class M>
Buffer<M> elements(size_t count, uint32_t seed);
Buffer<int32_t> ints(size_t count, int32_t low, int32_t high, uint32_t seed);  // of [low, high)
template <class M>
Buffer<M> zeros(size_t count) {
  Buffer<M> out = allocate<M>(count);
  std::fill_n(out.get(), count, M{});
  return out;
}

// --- comparisons; f32 tolerances of docs/reference/ops.md ---

template <class M>
double real(M x) {
  if constexpr (std::is_arithmetic_v<M>)
    return static_cast<double>(x);
  else
    return static_cast<float>(x);
}

inline constexpr double kRtol = 1.3e-6, kAtol = 1e-5;

// Element by element: `reference(i)` in float64.
template <class M, class F>
Check compare(const M* out, size_t count, F reference) {
  double worst = 0;
  bool passed = true;
#pragma omp parallel for schedule(static) reduction(max : worst) reduction(&& : passed)
  for (size_t i = 0; i < count; ++i) {
    const double expected = reference(i), error = std::fabs(real(out[i]) - expected);
    passed = passed && error <= kAtol + kRtol * std::fabs(expected);  // false for NaN
    worst = std::max(worst, error);
  }
  return {worst, passed};
}
// Row by row: `reference(row, values)` fills one row in float64. `magnitude` of a row: where sums are compared, what
// they add up is what the tolerance is relative to.
template <class F>
Check compare_rows(const float* out, size_t rows, size_t cols, F reference, double magnitude = 0) {
  double worst = 0;
  bool passed = true;
#pragma omp parallel reduction(max : worst) reduction(&& : passed)
  {
    std::vector<double> expected(cols);
#pragma omp for schedule(static)
    for (size_t r = 0; r < rows; ++r) {
      reference(r, expected.data());
      for (size_t i = 0; i < cols; ++i) {
        const double error = std::fabs(out[r * cols + i] - expected[i]);
        passed = passed && error <= kAtol + kRtol * (std::fabs(expected[i]) + magnitude);
        worst = std::max(worst, error);
      }
    }
  }
  return {worst, passed};
}
// ‖out - ref‖ / ‖ref‖ over random places of [0, count): all of them would take a float64 product of the same size. A
// dot of this depth; `bound` of results in small types.
struct Expected {
  size_t at;
  double value;
};
template <class M, class F>
Check compare_norm(const M* out, size_t samples, double bound, F reference) {
  double difference = 0, norm = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : difference, norm)
  for (size_t sample = 0; sample < samples; ++sample) {
    const Expected expected = reference(sample);
    const double error = real(out[expected.at]) - expected.value;
    difference += error * error;
    norm += expected.value * expected.value;
  }
  const double error = std::sqrt(difference / norm);
  return {error, error <= bound};
}
inline double dot_bound(size_t depth) { return 3e-8 * std::sqrt(static_cast<double>(depth)) + 1e-7; }
// A place for a sample, spread over [0, limit).
size_t place(size_t sample, size_t salt, size_t limit);
Check both(const Check& a, const Check& b);

// --- cases ---

std::string shape_text(std::initializer_list<int64_t> extents);

// What must move, or be computed, at least.
struct Work {
  double bytes = 0, flops = 0;
  bool reads_only = false;
};
inline Work moves(double bytes) { return {bytes, 0, false}; }
inline Work reads(double bytes) { return {bytes, 0, true}; }
inline Work computes(double flops) { return {0, flops, false}; }

// The arguments of a launch, buffers kept alive, and what judges the result.
template <class... Args>
struct Launch {
  std::function<Check()> check;
  std::tuple<Args...> arguments;
};
template <class... Args>
Launch<Args...> launch(std::function<Check()> check, Args... arguments) {
  return {std::move(check), {arguments...}};
}

// An argument where the kernel runs: numbers are what they are, arrays move to a device and back.
template <class M>
struct Placed {
  M number;
  Result<void> upload(const Machine&) { return {}; }
  Result<void> download() const { return {}; }
  M raw() const { return number; }
};
template <class M>
struct Placed<Buffer<M>> {
  Buffer<M> host;
  std::shared_ptr<DeviceBuffer<M>> there = {};
  Result<void> upload(const Machine& machine) {
    if (!machine.device) return {};
    auto allocated = DeviceBuffer<M>::allocate(*machine.device, host.size());
    if (!allocated) return allocated.error();
    there = std::make_shared<DeviceBuffer<M>>(std::move(*allocated));
    return there->copy_from(std::span<const M>(host.get(), host.size()));
  }
  Result<void> download() const {
    return there ? there->copy_to(std::span<M>(host.get(), host.size())) : Result<void>();
  }
  M* raw() const { return there ? there->data() : host.get(); }
};

// The same for each argument, up to the first error.
template <class Arguments, class F>
Result<void> for_each_argument(Arguments& arguments, F f) {
  Result<void> status;
  std::apply([&](auto&... each) { ((status = status ? f(each) : status), ...); }, arguments);
  return status;
}

// `make` gives the Launch; it runs once the kernel is compiled.
template <class Def, class Make>
Case make_case(const Def& def, std::string shape, const dsl::ConstexprValues& config, const Work& work, Make make) {
  Case out{"",
           def.ir().ok() ? def.ir()->name : "?",
           std::move(shape),
           &*def.ir(),
           config,
           work.bytes,
           work.flops,
           work.reads_only,
           {}};
  out.prepare = [&def, config, make](const Machine& machine) -> Result<Case::Prepared> {
    auto fn =
        machine.client.get(def, {.target = machine.target, .constexprs = config_on(machine.target, *def.ir(), config)});
    if (!fn) return fn.error();
    auto made = make();
    auto placed = std::apply(
        [](const auto&... each) { return std::tuple{Placed<std::decay_t<decltype(each)>>{each}...}; }, made.arguments);
    if (auto there = for_each_argument(placed, [&](auto& each) { return each.upload(machine); }); !there) {
      return there.error();
    }
    // On a device for what holds of these arguments: it decides how wide accesses are.
    auto prepare = [&](const auto&... each) { return machine.device ? fn->prepare(each.raw()...) : Result<void>(); };
    if (auto ready = std::apply(prepare, placed); !ready) return ready.error();
    auto run = [handle = *fn, placed] {
      return std::apply([&](const auto&... each) { return handle(each.raw()...); }, placed);
    };
    auto check = [check = std::move(made.check), placed]() -> Result<Check> {
      if (auto back = for_each_argument(placed, [](const auto& each) { return each.download(); }); !back) {
        return back.error();
      }
      return check();
    };
    return Case::Prepared{std::move(run), std::move(check), fn->untyped().metadata()};
  };
  return out;
}

}  // namespace kiln::quickstart

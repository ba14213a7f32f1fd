// The roofs of a machine, measured with kernels of the library through the same compiler and runner as everything else:
// so they are what a good kernel reaches, and the same code serves CPUs and GPUs.
#include <algorithm>
#include <chrono>
#include <cmath>

#include "kiln/autotune/tune.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/kernels.h"

namespace kiln::autotune {
namespace {

namespace lang = dsl::lang;
using nlohmann::json;

constexpr int kGpuRounds = 9, kCpuRounds = 25;  // a CPU has other things to do
constexpr Seconds kDeadline = Seconds(20);
constexpr int kChain = 64;  // exps of each element

// y[i] = exp(-exp(-… x[i])), so that numbers stay in (0, 1].
const Result<dsl::Kernel>& exp_chain() {
  using namespace kiln::lang;
  static const auto def = kernel("exp_chain", {"x", "y", "n", "BLOCK=4096"},
                                 [](Ptr<const f32> x, Ptr<f32> y, i32 n, Const BLOCK) {
                                   grid(cdiv(n, BLOCK));
                                   const Value start = program_id(0) * BLOCK;
                                   Var v = tile(x, {n}).load({start}, {BLOCK});
                                   for ([[maybe_unused]] Value i : range(0, kChain, 1)) v = exp(-v);
                                   tile(y, {n}).store({start}, v);
                                 })
                              .array("x", "n")
                              .array("y", "n");
  return def.ir();
}

class Calibration {
 public:
  Calibration(Compiler& compiler, Runner& runner, std::string target, std::stop_token stop, Seconds budget)
      : compiler_(compiler),
        runner_(runner),
        target_(std::move(target)),
        stop_(std::move(stop)),
        budget_(budget),
        gpu_(dsl::target_family(target_) != "cpu") {}

  Result<Machine> run() {
    out_.target = target_;
    for (auto step : {&Calibration::launch, &Calibration::memory, &Calibration::cache, &Calibration::products,
                      &Calibration::mathematics, &Calibration::processors}) {
      if (auto done = (this->*step)(); !done) {
        Error failed = done.error();
        failed.message = "calibrating " + runner_.info().device + ": " + failed.message;
        return failed;
      }
    }
    return out_;
  }

 private:
  // The least time of a launch of the kernel's default config: a roof is what can be reached.
  Result<double> time(const Result<dsl::Kernel>& ir, const json& scalars, Cache cache,
                      const Config& schedule_options = {}) {
    if (!ir) return ir.error();
    auto workload = make_workload(*ir, scalars);
    if (!workload) return workload.error();
    auto config = dsl::complete_constexprs(*ir, schedule_options, target_);
    if (!config) return config.error();
    if (auto open = goes_on(); !open) return open.error();
    auto artifact = compile(*ir, *config, *workload);
    if (!artifact) return artifact.error();
    if (auto begun = runner_.begin(*ir, *workload, cache); !begun) return begun.error();
    auto loaded = runner_.load(0, *config, *artifact, kDeadline);
    if (!loaded) return loaded.error();
    if (loaded->failure != Failure::kNone) return refused(ir->name, *loaded);
    const CandidateId id = 0;
    auto measured = runner_.measure({&id, 1}, gpu_ ? kGpuRounds : kCpuRounds, kDeadline);
    if (!measured) return measured.error();
    if (measured->status.at(0).failure != Failure::kNone) return refused(ir->name, measured->status[0]);
    double least = INFINITY;
    for (const Round& round : measured->rounds) {
      if (round.us.at(0) > 0) least = std::min(least, round.us[0]);
    }
    if (!std::isfinite(least)) return error(ErrorCode::kInternal, ir->name + ": the runner gave no times");
    return least;
  }

  Result<Artifact> compile(const dsl::Kernel& kernel, const Config& config, const Workload& workload) {
    auto flight = compiler_.compile(kernel, target_, config, facts_of(kernel, workload));
    while (flight.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
      if (auto open = goes_on(); !open) return open.error();
    }
    return flight.get();
  }

  Result<void> goes_on() const {
    if (stop_.stop_requested()) return error(ErrorCode::kCancelled, "it was stopped");
    if (std::chrono::steady_clock::now() - start_ < budget_) return {};
    return error(ErrorCode::kDeadlineExceeded,
                 "it takes longer than the budget, once for a device and compiler; give more");
  }

  static Error refused(const std::string& kernel, const CandidateStatus& status) {
    return error(ErrorCode::kCompileFailed, kernel + ": " + status.message);
  }

  Result<void> launch() {
    auto us = time(lang::kernels::vector_add<lang::f32>().ir(), {{"n", 16}}, Cache::kHot);
    if (!us) return us.error();
    out_.launch_us = *us;
    return {};
  }

  double without_launch(double us) const { return std::max(us - out_.launch_us, us / 10); }

  Result<void> memory() {
    const int64_t n = gpu_ ? int64_t{1} << 26 : int64_t{1} << 24, cols = 4096;
    auto copy = time(lang::kernels::vector_add<lang::f32>().ir(), {{"n", n}}, Cache::kCold);
    if (!copy) return copy.error();
    auto read = time(lang::kernels::row_sum<lang::f32>().ir(), {{"rows", n / cols}, {"cols", cols}, {"stride", cols}},
                     Cache::kCold);
    if (!read) return read.error();
    out_.copy_bytes_per_us = 12.0 * static_cast<double>(n) / without_launch(*copy);
    out_.read_bytes_per_us = std::max(4.0 * static_cast<double>(n) / without_launch(*read), out_.copy_bytes_per_us);
    return {};
  }

  // From what more bytes cost more, since a launch takes about as long as these.
  Result<void> cache() {
    const int64_t small = gpu_ ? int64_t{1} << 19 : int64_t{1} << 14, large = 4 * small;
    auto less = time(lang::kernels::vector_add<lang::f32>().ir(), {{"n", small}}, Cache::kHot);
    if (!less) return less.error();
    auto more = time(lang::kernels::vector_add<lang::f32>().ir(), {{"n", large}}, Cache::kHot);
    if (!more) return more.error();
    const double slope = 12.0 * static_cast<double>(large - small) / std::max(*more - *less, *more / 10);
    out_.cache_bytes_per_us = std::max(slope, out_.read_bytes_per_us);
    return {};
  }

  Result<void> products() {
    const int64_t n = gpu_ ? 4096 : 1024;
    const double flops = 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n);
    const std::pair<const char*, const Result<dsl::Kernel>*> kernels[] = {
        {"f32", &lang::kernels::matmul<lang::f32>().ir()},
        {"bf16", &lang::kernels::matmul<lang::bf16>().ir()},
        {"f16", &lang::kernels::matmul<lang::f16>().ir()},
        {"i8", &lang::kernels::matmul<lang::i8>().ir()},
    };
    for (const auto& [type, ir] : kernels) {
      auto us = time(*ir, {{"M", n}, {"N", n}, {"K", n}}, Cache::kHot);
      // A target may lack a type.
      if (!us && us.error().code != ErrorCode::kCompileFailed) return us.error();
      if (us) out_.dot_flops_per_us[type] = flops / without_launch(*us);
    }
    if (!out_.dot_flops_per_us.contains("f32")) return error(ErrorCode::kCompileFailed, "no product of f32 matrices");
    out_.f32_flops_per_us = out_.dot_flops_per_us["f32"];
    return {};
  }

  Result<void> mathematics() {
    const int64_t n = gpu_ ? int64_t{1} << 24 : int64_t{1} << 18;
    auto us = time(exp_chain(), {{"n", n}}, Cache::kHot);
    if (!us) return us.error();
    out_.math_per_us = kChain * static_cast<double>(n) / without_launch(*us);
    return {};
  }

  // Of a device that does not say: the most programs of full size that take no longer than few do.
  Result<void> processors() {
    out_.parallel = std::max(1, runner_.info().threads);
    if (runner_.info().threads > 0) return {};
    constexpr int64_t kFew = 8, kMany = 4096, kBlock = 4096;
    constexpr double kLonger = 1.35;
    const Config full = {{std::string(dsl::kNumWarps), 16}};
    auto programs_us = [&](int64_t programs) {
      return time(exp_chain(), {{"n", programs * kBlock}}, Cache::kHot, full);
    };
    auto few = programs_us(kFew);
    if (!few) return few.error();
    int64_t low = kFew, high = 2 * kFew;
    for (; high < kMany; high *= 2) {
      auto us = programs_us(high);
      if (!us) return us.error();
      if (*us > kLonger * *few) break;
      low = high;
    }
    while (high - low > 1) {
      const int64_t middle = (low + high) / 2;
      auto us = programs_us(middle);
      if (!us) return us.error();
      (*us > kLonger * *few ? high : low) = middle;
    }
    out_.parallel = static_cast<int>(low);
    return {};
  }

  Compiler& compiler_;
  Runner& runner_;
  const std::string target_;
  const std::stop_token stop_;
  const Seconds budget_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  const bool gpu_;
  Machine out_;
};

}  // namespace

Result<Machine> calibrate(Compiler& compiler, Runner& runner, Records& records, std::stop_token stop, Seconds budget) {
  const std::string hardware = runner.info().fingerprint, builder = compiler.builder_id();
  auto known = records.machine(hardware, builder);
  if (!known) return known.error();
  if (!known->is_null()) {
    auto machine = parse_machine(*known);
    if (machine) return machine;
  }
  auto target = compiler.resolve_target(runner.info().target);
  if (!target) return target.error();
  auto machine = Calibration(compiler, runner, *target, std::move(stop), budget).run();
  if (!machine) return machine;
  if (auto kept = records.put_machine(hardware, builder, to_json(*machine)); !kept) return kept.error();
  return machine;
}

}  // namespace kiln::autotune

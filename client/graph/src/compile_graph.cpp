// From a graph to a handle: its plan, then all kernels of that at once.
#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "core.h"
#include "function_state.h"
#include "graph_state.h"
#include "kernel_files.h"
#include "kiln/client/artifact.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "profile/recorder.h"
#include "tune_graph.h"

namespace kiln::client {
namespace {

// Of a kernel, beside the first one: a graph has many kernels, and sees many sizes.
constexpr size_t kMostVariants = 2;

// What is left of the caller's time, which is for all requests together.
class Time {
 public:
  explicit Time(const GraphOptions& options)
      : deadline_ms_(options.deadline_ms), cancel_(options.cancel), begun_(std::chrono::steady_clock::now()) {}

  Result<CompileOptions> left() const {
    CompileOptions out{.cancel = cancel_};
    if (cancel_.stop_requested()) return error(ErrorCode::kCancelled, "cancelled");
    if (deadline_ms_ == 0) return out;
    const auto used = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begun_);
    if (used.count() >= deadline_ms_) return error(ErrorCode::kDeadlineExceeded, "no time is left");
    out.deadline_ms = deadline_ms_ - static_cast<uint32_t>(used.count());
    return out;
  }

 private:
  const uint32_t deadline_ms_;
  const std::stop_token cancel_;
  const std::chrono::steady_clock::time_point begun_;
};

Error of_graph(const std::string& name, Error failure) {
  failure.message = "graph `" + name + "`: " + failure.message;
  return failure;
}

// The first launch of a kernel says what it is for.
Error of_kernel(const graph::Plan& plan, size_t kernel, Error failure) {
  for (size_t i = 0; i < plan.launches.size(); ++i) {
    if (plan.launches[i].kernel != kernel) continue;
    failure.message = launch_text(plan, i) + ": " + failure.message;
    break;
  }
  return of_graph(plan.name, std::move(failure));
}

Result<graph::Plan> plan_of(Core& core, const graph::PlanRequest& request, const CompileOptions& options,
                            bool with_ops) {
  auto bytes = graph::encode_plan_request(request);
  if (!bytes) return bytes.error();
  const TimedCompile timed("plan");
  auto artifact = core.fetch(*bytes, options);
  if (!artifact) return artifact.error();
  if (artifact->metadata.emit != graph::kPlanEmit) return internal_error("the daemon sent no plan");
  auto plan = with_ops ? graph::decode_plan(artifact->code) : graph::decode_plan_heads(artifact->code);
  if (!plan) return internal_error("the daemon sent a plan that is wrong: " + plan.error().message);
  if (plan->target != request.target) return internal_error("the daemon sent a plan for another target");
  return plan;
}

Result<std::vector<CompileSpec>> specs_of(const graph::Plan& plan, uint32_t deadline_ms) {
  std::vector<CompileSpec> out;
  std::vector<dsl::Facts> facts = graph::facts_of(plan);
  for (size_t i = 0; i < plan.kernels.size(); ++i) {
    const graph::PlannedKernel& kernel = plan.kernels[i];
    auto constexprs = dsl::complete_constexprs(kernel.kernel, kernel.constexprs, plan.target);
    if (!constexprs) return of_kernel(plan, i, constexprs.error());
    CompileSpec& spec = out.emplace_back();
    const bool with_lines = keeps_kernel_files() && !kernel.code;
    spec.kernel = std::make_shared<const dsl::Kernel>(with_lines ? with_lines_of_text(kernel.kernel) : kernel.kernel);
    spec.code = kernel.code;
    if (!kernel.encoded.empty() && !kernel.code) {
      auto requests = dsl::RequestEncoder::of_encoded(spec.kernel, kernel.encoded);
      if (!requests) return of_kernel(plan, i, requests.error());
      spec.requests = std::make_shared<const dsl::RequestEncoder>(std::move(*requests));
    }
    spec.target = plan.target;
    spec.constexprs = std::move(*constexprs);
    spec.deadline_ms = deadline_ms;
    spec.base = std::move(facts[i]);
    spec.most_variants = kMostVariants;
  }
  return out;
}

Result<CompiledGraph> finish(graph::Plan plan, std::vector<UntypedFunction> kernels,
                             std::vector<std::string> unused = {}, std::vector<std::string> fallbacks = {},
                             GraphTuning tuning = {}) {
  auto state = GraphState::make(std::move(plan), std::move(kernels), std::move(unused), std::move(fallbacks), tuning);
  if (!state) return state.error();
  return CompiledGraph(std::move(*state));
}

// Dims that a graph declares, and nothing in its plan mentions.
std::vector<std::string> unused_dims(const graph::Graph& graph, const graph::Plan& plan) {
  std::vector<std::string> out;
  for (const graph::DimInfo& dim : graph.dims) {
    const bool is_used = std::ranges::any_of(plan.dims, [&](const auto& used) { return used.name == dim.name; });
    if (!is_used) out.push_back(dim.name);
  }
  return out;
}

// A plan whose kernels are being compiled, and what failed of it.
struct Attempt {
  std::vector<UntypedFunction> kernels;
  std::optional<Error> failure;
  size_t failed = 0;  // the kernel
};

Attempt compile_kernels(const std::shared_ptr<Core>& core, const graph::Plan& plan, const GraphOptions& options,
                        const Time& time) {
  Attempt out;
  auto specs = specs_of(plan, options.deadline_ms);
  auto left = time.left();
  if (!specs || !left) {
    out.failure = specs ? of_graph(plan.name, left.error()) : specs.error();
    out.failed = plan.kernels.size();
    return out;
  }
  auto variants = core->compile_all(*specs, *left, out.failed);
  if (!variants) {
    out.failure = variants.error();
    return out;
  }
  for (size_t i = 0; i < specs->size(); ++i) {
    auto function = FunctionState::make(core, std::move((*specs)[i]), std::move((*variants)[i]));
    make_tunable(function, plan.kernels[i].constexprs, options);
    out.kernels.emplace_back(std::move(function));
  }
  return out;
}

// Whether the kernel is at fault, and not the daemon, the machine or the caller's time.
bool is_of_kernel(const Error& failure) {
  return failure.code == ErrorCode::kCompileFailed || failure.code == ErrorCode::kWorkerCrashed ||
         failure.code == ErrorCode::kPoisoned || failure.code == ErrorCode::kOutOfMemory ||
         failure.code == ErrorCode::kDeadlineExceeded;
}

// The ops that are in one kernel with others; empty where it has but one.
std::set<uint32_t> ops_of_kernel(const graph::Plan& plan, size_t kernel) {
  std::set<uint32_t> out;
  for (const graph::PlannedLaunch& launch : plan.launches) {
    if (launch.kernel == kernel && launch.ops.size() > 1) out.insert(launch.ops.begin(), launch.ops.end());
  }
  return out;
}

// Whether the kernel is of a loop's body, whose ops have no numbers here.
bool is_in_loop(const graph::Plan& plan, size_t kernel) {
  return std::ranges::any_of(plan.loops, [&](const graph::PlannedLoop& loop) {
    const auto launches = std::span(plan.launches).subspan(loop.first, loop.count);
    return std::ranges::any_of(launches, [&](const auto& launch) { return launch.kernel == kernel; });
  });
}

// What to ask for in place of a plan with a kernel that fails; false: there is nothing else.
bool ask_for_less(const graph::Plan& plan, size_t kernel, graph::PlanOptions& options) {
  if (is_in_loop(plan, kernel)) return std::exchange(options.fuse, false);
  const std::set<uint32_t> ops = ops_of_kernel(plan, kernel);
  std::set<uint32_t> apart(options.apart.begin(), options.apart.end());
  apart.insert(ops.begin(), ops.end());
  if (apart.size() == options.apart.size()) return false;
  options.apart.assign(apart.begin(), apart.end());
  return true;
}

constexpr int kMostFallbacks = 16;

}  // namespace

// Where a kernel fails, its ops go apart, and the rest is as before: slower, and right. Where it is of a loop, all do.
Result<CompiledGraph> Client::compile(const graph::Graph& graph, const GraphOptions& options) {
  const Time time(options);
  const std::string name = graph.bodies.empty() ? "" : graph.main().name;
  const TimedCompile timed(name);
  const std::shared_ptr<Core> shared = core();
  auto target = shared->resolve_target(options.target, options.deadline_ms);
  if (!target) return of_graph(name, target.error());
  graph::PlanRequest request{graph, std::move(*target), {.fuse = options.fuse}};
  std::vector<std::string> fallbacks;
  std::optional<Error> last;
  for (int round = 0;; ++round) {
    auto left = time.left();
    if (!left) return last ? *last : of_graph(name, left.error());
    // The interpreter runs kernels' ops, what fails on a GPU is named by the first of them, and files have their text.
    const bool with_ops = !request.target.starts_with("cpu:") || keeps_kernel_files();
    auto plan = plan_of(*shared, request, *left, with_ops);
    if (!plan) return of_graph(name, plan.error());
    Attempt attempt = compile_kernels(shared, *plan, options, time);
    if (!attempt.failure) {
      std::vector<std::string> unused = unused_dims(graph, *plan);
      return finish(std::move(*plan), std::move(attempt.kernels), std::move(unused), std::move(fallbacks),
                    {options.mode, options.tune_wait_ms});
    }
    if (attempt.failed >= plan->kernels.size()) return *attempt.failure;
    const Error failure = of_kernel(*plan, attempt.failed, *attempt.failure);
    if (options.full || !is_of_kernel(failure) || round == kMostFallbacks) return failure;
    if (!ask_for_less(*plan, attempt.failed, request.options)) return failure;
    fallbacks.push_back("not fused: " + failure.message);
    profile::fallback(name, fallbacks.back());
    last = failure;
  }
}

Result<CompiledGraph> Client::compile(const graph::GraphDef& graph, const GraphOptions& options) {
  if (!graph.ir()) return graph.ir().error();
  return compile(*graph.ir(), options);
}

Result<CompiledGraph> Client::compile(const graph::GraphDef& graph) { return compile(graph, GraphOptions{}); }

Result<graph::Plan> Client::plan(const graph::Graph& graph, const GraphOptions& options) {
  const Time time(options);
  const std::string name = graph.bodies.empty() ? "" : graph.main().name;
  const std::shared_ptr<Core> shared = core();
  auto target = shared->resolve_target(options.target, options.deadline_ms);
  if (!target) return of_graph(name, target.error());
  auto left = time.left();
  if (!left) return of_graph(name, left.error());
  auto plan = plan_of(*shared, {graph, std::move(*target), {.fuse = options.fuse}}, *left, true);
  if (!plan) return of_graph(name, plan.error());
  return plan;
}

Result<CompiledGraph> load_plan(const graph::Plan& plan, std::span<const Artifact> artifacts) {
  // As of a plan from anywhere: what a runner relies on is checked in one place.
  auto sound = graph::decode_plan(graph::encode_plan(plan));
  if (!sound) return sound.error();
  std::vector<UntypedFunction> kernels;
  if (plan.target == kInterpreter) {
    ConnectOptions nowhere;
    nowhere.autostart = nowhere.allow_pipe = false;
    Attempt attempt =
        compile_kernels(std::make_shared<Core>(std::move(nowhere), /*specialise=*/false), *sound, {}, Time({}));
    if (attempt.failure) return of_kernel(*sound, attempt.failed, *attempt.failure);
    return finish(std::move(*sound), std::move(attempt.kernels));
  }
  if (artifacts.size() != plan.kernels.size()) {
    return invalid_argument("the plan of graph `" + plan.name + "` has " + std::to_string(plan.kernels.size()) +
                            " kernels, and there is code of " + std::to_string(artifacts.size()));
  }
  for (size_t i = 0; i < artifacts.size(); ++i) {
    auto function = load_artifact(sound->kernels[i].kernel, artifacts[i]);
    if (!function) return of_kernel(*sound, i, function.error());
    kernels.push_back(std::move(*function));
  }
  return finish(std::move(*sound), std::move(kernels));
}

}  // namespace kiln::client

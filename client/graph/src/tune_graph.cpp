#include "tune_graph.h"

#include <algorithm>
#include <chrono>
#include <set>
#include <utility>

#include "at_once.h"
#include "graph_state.h"
#include "tuned.h"

namespace kiln::client {
namespace {

using Clock = std::chrono::steady_clock;

struct Question {
  TunedConfigs* kernel;
  std::span<const Argument> arguments;
};

std::vector<Question> questions_of(const GraphState& state, std::span<const std::vector<Argument>> launches) {
  std::vector<Question> out;
  std::set<std::pair<TunedConfigs*, std::vector<uint64_t>>> known;
  for (size_t i = 0; i < launches.size(); ++i) {
    const std::shared_ptr<FunctionState>& kernel = state.kernels[state.plan.launches[i].kernel].state();
    if (!kernel || !kernel->tuned || launches[i].empty()) continue;
    std::vector<uint64_t> ints;
    for (const Argument& argument : launches[i]) ints.push_back(argument.bits);
    if (known.emplace(kernel->tuned.get(), std::move(ints)).second) out.push_back({kernel->tuned.get(), launches[i]});
  }
  return out;
}

}  // namespace

void make_tunable(const std::shared_ptr<FunctionState>& kernel, const dsl::ConstexprValues& fixed,
                  const GraphOptions& options) {
  const dsl::Kernel& what = *kernel->spec.kernel;
  if (!asks_tuner(options.mode) || kernel->spec.target == kInterpreter) return;
  if (what.space.empty() || what.options.deterministic || array_of_unknown_size(what) != nullptr) return;
  std::vector<std::string> names;
  for (const auto& [name, value] : fixed) names.push_back(name);
  // The run asks, for all of its kernels.
  const GetOptions asks_nobody{.mode = Mode::kFixed, .tune_budget_ms = options.tune_budget_ms};
  kernel->tuned = std::make_shared<TunedConfigs>(kernel, std::move(names), asks_nobody);
}

Result<void> ask_tuner(const GraphState& state, std::span<const std::vector<Argument>> launches, bool waits,
                       const std::stop_token& cancel) {
  const uint32_t device = state.device ? static_cast<uint32_t>(state.device->info().ordinal) : 0;
  const std::vector<Question> questions = questions_of(state, launches);
  const uint32_t wait_ms = state.tuning.wait_ms;
  const auto end = Clock::now() + std::chrono::milliseconds(wait_ms);
  const auto ask = [&](size_t i) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()).count();
    if (cancel.stop_requested()) return;
    if (!waits || (wait_ms > 0 && left <= 0)) return questions[i].kernel->ask_behind(questions[i].arguments, device);
    // What went wrong costs this kernel its better config, and nothing else.
    (void)questions[i].kernel->wait(questions[i].arguments, device,
                                    {cancel, wait_ms > 0 ? static_cast<uint32_t>(left) : 0});
  };
  if (waits) {
    at_once(questions.size(), ask);
  } else {
    for (size_t i = 0; i < questions.size(); ++i) ask(i);
  }
  if (!cancel.stop_requested()) return {};
  return error(ErrorCode::kCancelled, "graph `" + state.plan.name + "`: cancelled while its kernels were tuned");
}

std::vector<std::string> tuned_text(const GraphState& state) {
  std::vector<std::string> out;
  for (size_t i = 0; i < state.kernels.size(); ++i) {
    const std::shared_ptr<FunctionState>& kernel = state.kernels[i].state();
    if (!kernel || !kernel->tuned) continue;
    for (const dsl::ConstexprValues& config : kernel->tuned->configs()) {
      std::string differences;
      for (const auto& [name, value] : config) {
        const auto usual = kernel->spec.constexprs.find(name);
        if (usual != kernel->spec.constexprs.end() && usual->second == value) continue;
        differences += (differences.empty() ? " has " : ", ") + name + "=" + std::to_string(value);
        if (usual != kernel->spec.constexprs.end()) differences += " in place of " + std::to_string(usual->second);
      }
      out.push_back("tuned: " + state.plan.kernels[i].kernel.name + differences);
    }
  }
  return out;
}

}  // namespace kiln::client

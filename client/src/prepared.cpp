#include "prepared.h"

#include <string>

#include "kiln/dsl/conditions.h"
#include "kiln/dsl/instantiate.h"
#include "tuned.h"

namespace kiln::client {

std::optional<PreparedLaunch> prepare_on_cpu(FunctionState& function, std::span<const Argument> arguments) {
  const dsl::Kernel& kernel = *function.spec.kernel;
  function.birth().used();
  if (kernel.options.check_bounds || arguments.size() != kernel.params.size()) return std::nullopt;
  PreparedLaunch out;
  if (function.tuned) out.configs = function.tuned->version();  // first: one that comes now is seen in the next run
  FunctionState* const chosen = function.tuned ? function.tuned->for_launch(arguments, 0) : nullptr;
  FunctionState& state = chosen != nullptr ? *chosen : function;
  out.state = &state;
  const dsl::Facts exact = exact_facts(kernel, arguments);
  const Variant* variant = &state.best(exact);
  if (variant->facts != exact && !variant->concrete && state.core->specialises()) state.specialise_later(exact);
  if (variant->quick) state.replace_later();
  out.version = state.version();  // likewise of a variant
  variant = out.variant = &state.best(exact);
  if (variant->concrete || variant->device_code || !variant->reports.prints.empty()) return std::nullopt;
  if (!is_sound(variant->facts, exact)) return std::nullopt;
  dsl::Bindings bindings;
  bindings.constexprs = variant->config;
  dsl::bind_ints(kernel, arguments, bindings.params);
  if (!dsl::check_conditions(kernel, bindings)) return std::nullopt;
  const auto grid = dsl::evaluate_grid(variant->grid, bindings, &kernel);
  if (!grid) return std::nullopt;
  out.grid = *grid;
  out.has_programs = out.grid[0] != 0 && out.grid[1] != 0 && out.grid[2] != 0;
  return out;
}

bool append_steps(const PreparedLaunch& launch, uint32_t params, uint32_t number, bool is_wide,
                  std::vector<SequenceStep>& steps) {
  const size_t before = steps.size();
  for (const LaunchStep& step : launch.variant->steps) {
    const uint64_t first_axis = launch.grid[0] * step.chunks;
    if (first_axis > INT32_MAX) {
      steps.resize(before);
      return false;
    }
    SequenceStep& out = steps.emplace_back();
    out.entry = step.entry;
    out.grid = {static_cast<uint32_t>(first_axis), launch.grid[1], launch.grid[2]};
    out.programs = first_axis * launch.grid[1] * launch.grid[2];
    out.scratch_bytes = launch.variant->scratch_bytes;
    out.params = params;
    out.launch = number;
    out.is_wide = is_wide && out.programs > 1;
  }
  return true;
}

std::optional<uint64_t> workspace_of(const PreparedLaunch& launch) {
  const uint64_t programs = uint64_t{launch.grid[0]} * launch.grid[1] * launch.grid[2];
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(launch.variant->workspace_bytes, programs, &bytes)) return std::nullopt;
  return bytes;
}

Error failure_of(const FunctionState& state, const PreparedLaunch& launch, const SequenceEnd& end,
                 std::span<const Argument> arguments) {
  const dsl::Kernel& kernel = *state.spec.kernel;
  if (end.code == kNoScratchMemory) {
    return error(ErrorCode::kOutOfMemory, "kernel `" + kernel.name + "`: no memory for " +
                                              std::to_string(launch.variant->scratch_bytes) +
                                              " bytes of scratch a thread");
  }
  return failure_of(kernel, launch.variant->reports, end.code, end.failure, launch.grid, arguments);
}

}  // namespace kiln::client

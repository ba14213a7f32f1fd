// Configs of a plan's kernels: the service's tuner is asked for what a run launches.
#pragma once

#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "core.h"
#include "kiln/client/graph.h"
#include "kiln/client/handle.h"

namespace kiln::client {

struct GraphState;

// Lets a kernel take the tuner's configs, if it can be tuned: it has a space, its arrays' sizes are known, and no
// config may be any other than the author's.
void make_tunable(const std::shared_ptr<FunctionState>& kernel, const dsl::ConstexprValues& fixed,
                  const GraphOptions& options);

// By launch what a run passes to it; empty: it does not run. Each kernel is asked for once for the same ints. Waits for
// the answers if `waits`, as long as GraphTuning says; what is found later is taken later, and a kernel that cannot be
// tuned keeps its default. Error: cancelled.
Result<void> ask_tuner(const GraphState& state, std::span<const std::vector<Argument>> launches, bool waits,
                       const std::stop_token& cancel);

// "tuned: linear has BM=64 in place of 128", a line for each config that some launch takes.
std::vector<std::string> tuned_text(const GraphState& state);

}  // namespace kiln::client

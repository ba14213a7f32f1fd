// The public face of a handle.
#include "graph_state.h"

namespace kiln::client {
namespace {

Error no_graph() { return invalid_argument("run of an empty handle of a graph"); }

}  // namespace

Result<std::vector<OwnedArray>> CompiledGraph::operator()(std::span<const ArrayView> inputs,
                                                          const RunOptions& options) const {
  if (!state_) return no_graph();
  state_->birth().used();
  return run_graph(*state_, inputs, {}, options);
}

Result<void> CompiledGraph::run_into(std::span<const ArrayView> inputs, std::span<const ArrayView> outputs,
                                     const RunOptions& options) const {
  if (!state_) return no_graph();
  state_->birth().used();
  if (outputs.size() != state_->plan.outputs.size()) {
    return invalid_argument("graph `" + state_->plan.name + "` has " + std::to_string(state_->plan.outputs.size()) +
                            " outputs, not " + std::to_string(outputs.size()));
  }
  auto done = run_graph(*state_, inputs, outputs, options);
  if (!done) return done.error();
  return {};
}

Result<void> CompiledGraph::prepare(std::span<const ArrayView> inputs, const RunOptions& options) const {
  if (!state_) return no_graph();
  state_->birth().used();
  return prepare_graph(*state_, inputs, options);
}

Result<GraphMemory> CompiledGraph::memory(std::span<const ArrayView> inputs, const RunOptions& options) const {
  if (!state_) return no_graph();
  auto sized = sizes_of(*state_, inputs, options);
  if (!sized) return sized.error();
  return GraphMemory{(*sized)->arena_bytes, (*sized)->output_bytes, state_->bound.kept_bytes};
}

Result<std::vector<std::vector<int64_t>>> CompiledGraph::output_shapes(std::span<const ArrayView> inputs,
                                                                       const RunOptions& options) const {
  if (!state_) return no_graph();
  auto sized = sizes_of(*state_, inputs, options);
  if (!sized) return sized.error();
  std::vector<std::vector<int64_t>> out;
  for (const SizedPlan::Tensor& output : (*sized)->outputs) out.push_back(output.shape);
  return out;
}

Result<CompiledGraph> CompiledGraph::bind(const std::map<std::string, ArrayView>& inputs,
                                          const RunOptions& options) const {
  if (!state_) return no_graph();
  state_->birth().used();
  auto bound = bind_graph(*state_, inputs, options);
  if (!bound) return bound.error();
  return CompiledGraph(std::move(*bound));
}

const graph::Plan& CompiledGraph::plan() const { return state_->plan; }

}  // namespace kiln::client

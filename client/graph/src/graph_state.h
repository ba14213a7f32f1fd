// What lies behind a handle of a graph.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>
#include <vector>

#include "blocks.h"
#include "gpu/memory_book.h"
#include "kiln/client/graph.h"
#include "kiln/client/handle.h"
#include "lifetime.h"
#include "sized_plan.h"

namespace kiln::client {

// The plans for sizes that were met last.
class KnownSizes {
 public:
  // Null: not known. Neither call waits for one that writes: who finds it busy makes the plan anew.
  std::shared_ptr<const SizedPlan> find(std::span<const int64_t> sizes) const;
  void insert(std::shared_ptr<const SizedPlan> plan);

 private:
  static constexpr size_t kMost = 16;
  mutable std::shared_mutex mutex_;
  std::vector<std::shared_ptr<const SizedPlan>> plans_;
  size_t next_ = 0;  // is replaced when there is no room
};

// An input that is bound to a handle.
struct BoundInput {
  std::string name;
  const void* data = nullptr;  // the caller's, or of a copy
  uint64_t bytes = 0;
};

// What a handle with bound inputs has beside its plan, whose constants are all in `constants`.
struct Binding {
  std::vector<Block> constants;
  std::vector<BoundInput> inputs;
  std::map<std::string, int64_t> sizes;  // of dims that they say
  uint64_t kept_bytes = 0;               // that the handle keeps beside the caller's arrays
};

// How the tuner is asked, as GraphOptions say.
struct GraphTuning {
  Mode mode = Mode::kDefault;
  uint32_t wait_ms = 0;
};

struct GraphState {
  // `unused`: names of dims that the graph has and its plan does not need. `fallbacks`: of kernels that could not be
  // compiled, for people.
  static Result<std::shared_ptr<const GraphState>> make(graph::Plan plan, std::vector<UntypedFunction> kernels,
                                                        std::vector<std::string> unused = {},
                                                        std::vector<std::string> fallbacks = {},
                                                        GraphTuning tuning = {});
  // Of a plan whose constants are elsewhere; the rest is as of `whole`.
  static std::shared_ptr<const GraphState> make_bound(const GraphState& whole, graph::Plan plan,
                                                      std::span<const uint32_t> kernels, Binding binding,
                                                      GraphTuning tuning);

  const Birth& birth() const { return birth_; }
  void keep() const { birth_.keep(); }

  const graph::Plan plan;
  const std::vector<UntypedFunction> kernels;  // by Plan::kernels
  const std::vector<std::string> unused_dims;  // may be given sizes all the same
  const std::vector<std::string> fallbacks;
  const std::optional<Device> device;  // of a plan for a GPU
  const std::vector<Block> constants;
  const std::vector<uint64_t> constant_bytes;
  const Binding bound;
  const GraphTuning tuning;
  mutable BlockPool arenas;
  mutable KnownSizes sizes;

 private:
  friend DeleteUnlessItStays;
  GraphState(graph::Plan what, std::vector<UntypedFunction> functions, std::vector<std::string> unused,
             std::vector<std::string> notes, std::optional<Device> on, std::vector<Block> data, Binding binding,
             GraphTuning how);
  ~GraphState() = default;

  const Birth birth_;
  std::optional<gpu::MemoryBook::Cache> cache_;  // the arenas that wait, while the device is short of memory
};

// One run. Outputs: none, or as many as the plan has, to write to.
Result<std::vector<OwnedArray>> run_graph(const GraphState& state, std::span<const ArrayView> inputs,
                                          std::span<const ArrayView> outputs, const RunOptions& options);
// Compiles what a run would launch, in its variants.
Result<void> prepare_graph(const GraphState& state, std::span<const ArrayView> inputs, const RunOptions& options);
// A handle with these inputs bound, by name.
Result<std::shared_ptr<const GraphState>> bind_graph(const GraphState& state,
                                                     const std::map<std::string, ArrayView>& inputs,
                                                     const RunOptions& options);
// What the types of an array say nothing about: strides, and bytes behind its data. `name` is how errors call it.
Result<void> check_array(const ArrayView& array, uint64_t bytes, const std::string& name);
// What is known of the sizes before a run; checks the inputs.
Result<std::shared_ptr<const SizedPlan>> sizes_of(const GraphState& state, std::span<const ArrayView> inputs,
                                                  const RunOptions& options);

}  // namespace kiln::client

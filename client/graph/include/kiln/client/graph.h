// Graphs in, handles out: what a Client compiles of a graph, and how it runs.
//
//   kiln::Client client;
//   auto fn = client.compile(mlp, {.target = "cpu"});       // kiln/graph/graph.h says how a graph is written
//   if (!fn) …fn.error().message…
//   auto y = (*fn)({array(x, {8, 784}), array(w, {256, 784}), array(b, {256})});
//   if (!y) …y.error().message…
//   std::span<const float> first = (*y)[0].as<float>();
//
// Link Kiln::client_graph. docs/use/graphs.md, "Compiling and running".
#pragma once

#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "kiln/client/array.h"
#include "kiln/client/client.h"
#include "kiln/graph/evaluate.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/plan.h"
#include "kiln/graph/plan_request.h"

namespace kiln::client {

struct GraphState;

// As the evaluator has it, whose memory it shares.
inline ArrayView array(const graph::Array& elements) {
  return {.element = elements.element,
          .shape = elements.shape,
          .strides = elements.strides,
          .data = elements.data,
          .owner = elements.storage};
}

// Of Client::compile(graph, options).
struct GraphOptions {
  std::string target = "cpu";  // as in GetOptions
  bool fuse = true;            // false: a launch for each op, to see what fusion does
  // Where a kernel cannot be compiled, its ops run apart from each other, and explain() says so. true: it is an error.
  bool full = false;
  uint32_t deadline_ms = 0;  // of all of it together; 0: the daemon's default for each request
  std::stop_token cancel = {};
  // Who chooses configs of the kernels, by the sizes of a run: their defaults, or the service's tuner
  // (docs/use/tuning.md). On CPUs a config that it finds gives the bits of the default. kAutotune: the first run of
  // some sizes has it asked behind it, and runs take better configs as they are found. kMax: the first run waits for
  // all of them.
  Mode mode = Mode::kDefault;
  uint32_t tune_budget_ms = 0;  // of each kernel and its sizes; 0: the tuner's default
  uint32_t tune_wait_ms = 0;    // how long kMax waits for all kernels together; 0: until the tuner has answered
};

struct RunOptions {
  int threads = 0;                            // 0: OpenMP's default
  std::map<std::string, int64_t> sizes = {};  // of dims that no input says
  // Most bytes that a run may ask for: arena, results, and copies of inputs; more is kOutOfMemory before anything is
  // allocated, and the error names the three largest values at the arena's peak. 0: no limit.
  uint64_t memory_limit = 0;
  std::stop_token cancel = {};                                   // is looked at between launches
  std::function<void(const dsl::PrintRecord&)> print = nullptr;  // as in LaunchOptions
  // Of the device that the graph is compiled for (kiln/client/gpu.h): the run is queued behind what the stream has, and
  // returns. All arrays are the caller's, row-major, of a GPU on_device, and stay until the stream is done; so does the
  // handle. The stream's synchronise() says what failed. Within Recording::capture() the run is recorded, with an arena
  // of its own, and a replay is one call of the driver. Absent: the run is done on return.
  const Stream* stream = nullptr;
  // How long each launch took, in milliseconds of the device's clock, one in a loop all its passes together.
  std::vector<double>* launch_ms = nullptr;
};

// What a run needs for given sizes, known before it.
struct GraphMemory {
  uint64_t arena = 0;
  uint64_t results = 0;
  uint64_t bound = 0;  // that the handle keeps of bound inputs, whatever runs: what is computed of them, and copies
};

// A handle of a compiled graph: a plan with its kernels. Cheap to copy; any number of threads may run it at once, each
// run in memory of its own, which later runs take over. It outlives its client.
class CompiledGraph {
 public:
  CompiledGraph() = default;  // of no graph; may only be assigned to
  explicit CompiledGraph(std::shared_ptr<const GraphState> state) : state_(std::move(state)) {}

  // Inputs in the order of the graph's; sizes of dims come from their shapes. Results in the order of the outputs.
  // Inputs that are not row-major, or not aligned to their elements, are copied first. A result shares the memory of an
  // input that is donated to it by the graph and writable here, and that no other input overlaps; else it has its own.
  // On a GPU arrays are copied to it and back, but for those that are on_device, which are row-major; the run is done
  // on return.
  // Errors name the input with its shape and what the graph declares, or the launch with its source line.
  Result<std::vector<OwnedArray>> operator()(std::span<const ArrayView> inputs, const RunOptions& options = {}) const;
  Result<std::vector<OwnedArray>> operator()(std::initializer_list<ArrayView> inputs,
                                             const RunOptions& options = {}) const {
    return (*this)(std::span(inputs.begin(), inputs.size()), options);
  }
  // The same into arrays of the caller's, row-major and of the shapes that the sizes give. One may be an input that is
  // donated to it; else it overlaps neither inputs nor other outputs.
  Result<void> run_into(std::span<const ArrayView> inputs, std::span<const ArrayView> outputs,
                        const RunOptions& options = {}) const;

  // A handle in which these inputs, by name, stay as they are: weights. Its runs take the other inputs, in their order.
  // What the plan computes of bound inputs and constants alone is computed here, once, and kept with the handle; later
  // runs have no such launches, and plan(), explain() and launch_ms no longer count them. Arrays are borrowed, and must
  // stay and stay unchanged as long as any copy of the handle does, unless they have an owner, which the handle keeps.
  // Those that are not row-major or aligned are copied once; on a GPU those that are not on_device. Dims whose sizes
  // the bound inputs say, or `options.sizes`, are fixed; a loop runs once only if all of it does. An input that an
  // output may take over cannot be bound. Of a handle with bound inputs more can be bound. Of the options, `stream` and
  // `launch_ms` are of no use here; `memory_limit` is for what is kept and an arena. Done on return.
  Result<CompiledGraph> bind(const std::map<std::string, ArrayView>& inputs, const RunOptions& options = {}) const;

  // Compiles the variants of the kernels for exactly what a run with these inputs allows, its sizes and alignment, and
  // waits. Without it runs begin with code for all sizes and arrays aligned to 16 bytes, and better code follows behind
  // them; one with other arrays waits for generic code. Nothing runs. Of a graph with a mode it waits for the tuner
  // too, no longer than GraphOptions say. A kernel that could not be tuned is no error.
  Result<void> prepare(std::span<const ArrayView> inputs, const RunOptions& options = {}) const;

  Result<GraphMemory> memory(std::span<const ArrayView> inputs, const RunOptions& options = {}) const;
  // Of all outputs, for inputs of these types and shapes, whose data are not looked at.
  Result<std::vector<std::vector<int64_t>>> output_shapes(std::span<const ArrayView> inputs,
                                                          const RunOptions& options = {}) const;

  // Of what a run does. Kernels that are compiled for CPUs have no ops here, but the bytes that have (PlannedKernel).
  // Bound inputs are among the constants, whose bytes are not here.
  const graph::Plan& plan() const;
  // The launches, for people: what each computes, where it comes from, and the bytes that it moves, for sizes by name
  // where all are given, else as formulas; then the planner's log, and what the tuner chose so far.
  std::string explain(const std::map<std::string, int64_t>& sizes = {}) const;
  // The arena over the launches, for people: who lives when and where, the launch at which most bytes live, and the
  // three largest values there. Sizes as explain() takes them, of all dims.
  Result<std::string> memory_timeline(const std::map<std::string, int64_t>& sizes = {}) const;

 private:
  std::shared_ptr<const GraphState> state_;
};

// A plan that is there already with the code of its kernels, in their order: without a daemon. Of a plan for the
// interpreter, whose kernels run as they are, none.
Result<CompiledGraph> load_plan(const graph::Plan& plan, std::span<const Artifact> kernels = {});

}  // namespace kiln::client

namespace kiln {
using client::CompiledGraph;
using client::GraphMemory;
using client::GraphOptions;
using client::RunOptions;
}  // namespace kiln

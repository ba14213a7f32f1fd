// `kiln graph run --target`, `explain`, `memory`, `bench` and `draw`: graphs compiled by the daemon.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "kiln/client/graph.h"
#include "kiln/dsl/result.h"
#include "kiln/graph/evaluate.h"

namespace kiln::cli {

struct GraphTargetFlags {
  std::string target;  // empty: none
  bool fuse = true, full = false;
  uint32_t deadline_ms = 0;
  int threads = 0;
  std::vector<std::string> bind = {};  // names of inputs
  std::string mode = "default";        // "autotune", "max"
  uint32_t tune_budget_ms = 0, tune_wait_ms = 0;
};

Result<client::CompiledGraph> compile_graph(const graph::Graph& graph, const GraphTargetFlags& flags);

// The handle with the inputs of `flags.bind` bound to their arrays, which must stay, and the other inputs.
struct BoundGraph {
  client::CompiledGraph fn;
  std::vector<graph::Array> inputs;
};
Result<BoundGraph> bind_inputs(const graph::Graph& graph, client::CompiledGraph fn,
                               const std::vector<graph::Array>& inputs, const GraphTargetFlags& flags,
                               const client::RunOptions& options);

// Compiles a graph, where `compiled` is null, and runs it.
Result<std::vector<graph::Array>> run_compiled(const graph::Graph& graph, const std::vector<graph::Array>& inputs,
                                               const std::map<std::string, int64_t>& sizes, uint64_t memory_bytes,
                                               const GraphTargetFlags& flags, const client::CompiledGraph* compiled);

struct GraphExplainFlags {
  std::string file;  // .kg
  GraphTargetFlags compiled = {.target = "cpu"};
  std::vector<std::string> sizes;  // "n=128"
};
Result<void> explain_graph(const GraphExplainFlags& flags);

struct GraphMemoryFlags {
  std::string file;  // .kg
  GraphTargetFlags compiled = {.target = "cpu"};
  std::vector<std::string> sizes;  // "n=128": of all dims
};
Result<void> print_graph_memory(const GraphMemoryFlags& flags);

struct GraphBenchFlags {
  std::string file;  // .kg
  GraphTargetFlags compiled = {.target = "cpu"};
  std::vector<std::string> sizes;  // "n=128": of all dims
  int repeat = 20;
  bool launches = false;  // what each launch takes
  bool replay = false;    // record a run, and time replays
};
Result<void> bench_graph(const GraphBenchFlags& flags);
// Microseconds of each launch on random inputs: the median of some runs.
Result<std::vector<double>> time_launches(const graph::Graph& graph, const client::CompiledGraph& fn,
                                          const std::map<std::string, int64_t>& sizes);

// With a target the page shows what the graph is compiled to.
struct GraphDrawFlags {
  std::string file;    // .kg
  std::string output;  // .dot, .svg or .html
  bool no_views = false;
  GraphTargetFlags compiled = {};
  std::vector<std::string> sizes;  // "n=128"
  bool time = false;
};
Result<void> draw_graph(const GraphDrawFlags& flags);

}  // namespace kiln::cli

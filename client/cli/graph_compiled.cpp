#include "graph_compiled.h"

#include <algorithm>
#include <cstdio>

#include "graph_run.h"
#include "kiln/client/graph.h"
#include "kiln/graph/sizes.h"
#include "kiln/wire/printable.h"
#include "load_program.h"

namespace kiln::cli {
namespace {

// The tuner answers to it as long as graphs run.
client::Client& process_client() {
  static client::Client client = [] {
    client::ClientOptions options;
    options.connect.client_name = "kiln graph";
    options.specialise_in_background = false;  // this process is gone before it would help
    return client::Client(std::move(options));
  }();
  return client;
}

client::Mode mode_of(const GraphTargetFlags& flags) {
  if (flags.mode == "max") return client::Mode::kMax;
  return flags.mode == "autotune" ? client::Mode::kAutotune : client::Mode::kDefault;
}

}  // namespace

Result<client::CompiledGraph> compile_graph(const graph::Graph& graph, const GraphTargetFlags& flags) {
  return process_client().compile(graph, {.target = flags.target,
                                          .fuse = flags.fuse,
                                          .full = flags.full,
                                          .deadline_ms = flags.deadline_ms,
                                          .mode = mode_of(flags),
                                          .tune_budget_ms = flags.tune_budget_ms,
                                          .tune_wait_ms = flags.tune_wait_ms});
}

namespace {

std::vector<client::ArrayView> views_of(const std::vector<graph::Array>& arrays) {
  std::vector<client::ArrayView> out;
  for (const graph::Array& array : arrays) out.push_back(client::array(array));
  return out;
}

}  // namespace

Result<BoundGraph> bind_inputs(const graph::Graph& graph, client::CompiledGraph fn,
                               const std::vector<graph::Array>& inputs, const GraphTargetFlags& flags,
                               const client::RunOptions& options) {
  if (flags.bind.empty()) return BoundGraph{std::move(fn), inputs};
  const std::vector<graph::Input>& declared = graph.main().inputs;
  std::map<std::string, client::ArrayView> chosen;
  for (const std::string& name : flags.bind) {
    const auto found = std::ranges::find(declared, name, &graph::Input::name);
    if (found == declared.end()) return invalid_argument("--bind: the graph has no input `" + name + "`");
    if (!chosen.emplace(name, client::array(inputs[static_cast<size_t>(found - declared.begin())])).second) {
      return invalid_argument("--bind: `" + name + "` is given twice");
    }
  }
  auto bound = fn.bind(chosen, options);
  if (!bound) return bound.error();
  BoundGraph out{std::move(*bound), {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!chosen.contains(declared[i].name)) out.inputs.push_back(inputs[i]);
  }
  return out;
}

Result<std::vector<graph::Array>> run_compiled(const graph::Graph& graph, const std::vector<graph::Array>& inputs,
                                               const std::map<std::string, int64_t>& sizes, uint64_t memory_bytes,
                                               const GraphTargetFlags& flags, const client::CompiledGraph* compiled) {
  auto fn = compiled ? Result<client::CompiledGraph>(*compiled) : compile_graph(graph, flags);
  if (!fn) return fn.error();
  const client::RunOptions options{.threads = flags.threads, .sizes = sizes, .memory_limit = memory_bytes};
  auto bound = bind_inputs(graph, std::move(*fn), inputs, flags, options);
  if (!bound) return bound.error();
  auto results = bound->fn(views_of(bound->inputs), options);
  if (!results) return results.error();
  std::vector<graph::Array> out;
  for (const client::OwnedArray& result : *results) {
    graph::Array array = graph::own(result.element(), result.shape());
    const auto* from = static_cast<const std::byte*>(result.data());
    std::copy(from, from + result.bytes(), array.storage->begin());
    out.push_back(std::move(array));
  }
  return out;
}

Result<void> explain_graph(const GraphExplainFlags& flags) {
  auto graph = load_graph(flags.file);
  if (!graph) return graph.error();
  auto sizes = read_sizes(flags.sizes);
  if (!sizes) return sizes.error();
  // As a run checks them.
  if (auto known = graph::bind_sizes(graph->main().name, graph->dims, {}, {}, *sizes); !known) return known.error();
  auto fn = compile_graph(*graph, flags.compiled);
  if (!fn) return fn.error();
  std::printf("%s", wire::printable_lines(fn->explain(*sizes)).c_str());
  return {};
}

Result<void> print_graph_memory(const GraphMemoryFlags& flags) {
  auto graph = load_graph(flags.file);
  if (!graph) return graph.error();
  auto sizes = read_sizes(flags.sizes);
  if (!sizes) return sizes.error();
  auto fn = compile_graph(*graph, flags.compiled);
  if (!fn) return fn.error();
  auto text = fn->memory_timeline(*sizes);
  if (!text) return text.error();
  std::printf("%s", wire::printable_lines(*text).c_str());
  return {};
}

}  // namespace kiln::cli

#include "graph_cut.h"

#include <cstdio>

#include "graph_run.h"
#include "kiln/graph/differentiate.h"
#include "kiln/wire/printable.h"
#include "load_program.h"

namespace kiln::cli {

Result<void> cut_graph(const GraphCutFlags& flags) {
  auto graph = load_graph(flags.file);
  if (!graph) return graph.error();
  auto sizes = read_sizes(flags.sizes);
  if (!sizes) return sizes.error();
  std::vector<std::string> by = flags.by;
  for (const graph::Input& input : graph->main().inputs) {
    const graph::TensorType& type = graph->type(graph->main(), input.value);
    if (flags.by.empty() && dsl::is_float(type.element)) by.push_back(input.name);
  }
  auto cut = graph::cut_vjp(*graph, by, {.memory_budget = flags.budget_bytes.value_or(-1), .sizes = *sizes});
  if (!cut) return cut.error();
  std::printf("%s", wire::printable_lines(cut->report()).c_str());
  return {};
}

}  // namespace kiln::cli

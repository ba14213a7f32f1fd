#include "graph_file.h"

#include <cstdio>

#include "kiln/graph/binary.h"
#include "kiln/graph/text.h"
#include "kiln/wire/printable.h"
#include "load_program.h"

namespace kiln::cli {

Result<void> print_graph(const GraphFileFlags& flags) {
  auto graph = load_graph(flags.file);
  if (!graph) return graph.error();
  std::fputs(graph::print(*graph, {.locations = flags.locations}).c_str(), stdout);
  return {};
}

Result<void> verify_graph(const GraphFileFlags& flags) {
  auto graph = load_graph(flags.file);
  if (!graph) return graph.error();
  size_t nodes = 0;
  for (const graph::Body& body : graph->bodies) nodes += body.nodes.size();
  std::printf("%s: graph `%s` of %zu node%s is valid\n", wire::printable(flags.file).c_str(),
              wire::printable(graph->main().name).c_str(), nodes, nodes == 1 ? "" : "s");
  return {};
}

Result<void> hash_graph(const GraphFileFlags& flags) {
  auto graph = load_graph(flags.file);
  if (!graph) return graph.error();
  std::printf("%s\n", graph::key(*graph).c_str());
  return {};
}

}  // namespace kiln::cli

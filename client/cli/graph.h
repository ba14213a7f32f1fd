// `kiln graph …`: commands on graphs (.kg).
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>

#include "graph_compiled.h"
#include "graph_cut.h"
#include "graph_file.h"
#include "graph_run.h"
#include "kiln/graph/ir.h"

namespace kiln::cli {

struct GraphFlags {
  GraphFileFlags file;
  GraphRunFlags run;
  GraphExplainFlags explain;
  GraphMemoryFlags memory;
  GraphBenchFlags bench;
  GraphDrawFlags draw;
  GraphCutFlags cut;
};
void add_graph_commands(CLI::App& app, GraphFlags& flags, std::function<Result<void>()>& action);

}  // namespace kiln::cli

#include <chrono>
#include <csignal>
#include <filesystem>

#include "graph_run.h"
#include "kiln/graph/draw.h"
#include "kiln/graph/sizes.h"
#include "kiln/wire/files.h"
#include "kiln/wire/process.h"
#include "kiln/wire/trusted.h"
#include "load_program.h"
#include "scratch_directory.h"

namespace kiln::cli {
namespace {

// Graphviz places some thousand boxes in this time; more are a picture that nobody reads.
constexpr std::chrono::seconds kPatience{60};

// Graphviz' drawing, by its program.
Result<std::string> svg_of(const std::string& program, const std::string& dot) {
  const ScratchDirectory scratch("kiln-draw");
  if (!scratch.is_there()) return invalid_argument("no directory for temporary files can be made");
  const std::string in = scratch / "graph.dot", out = scratch / "graph.svg";
  if (auto written = wire::write_text(in, dot); !written) return written.error();
  auto process = wire::spawn({.command = {program, "-Tsvg", "-o", out, in}, .group = wire::ProcessGroup::kOwn});
  if (!process) return process.error();
  const auto status = wire::wait_for_exit(*process, kPatience);
  if (!status) {
    ::kill(-*process, SIGKILL);
    wire::wait_for_exit(*process, kPatience);
    return error(ErrorCode::kDeadlineExceeded, "Graphviz has not drawn the graph in 60 s; write a .dot file instead");
  }
  if (*status != 0) return invalid_argument("Graphviz' dot failed: " + wire::exit_text(*status));
  return wire::read_text(out);
}

// With what the graph is compiled to.
Result<void> write_page(const graph::Graph& graph, const std::string& svg, const GraphDrawFlags& flags) {
  auto sizes = read_sizes(flags.sizes);
  if (!sizes) return sizes.error();
  if (auto known = graph::bind_sizes(graph.main().name, graph.dims, {}, {}, *sizes); !known) return known.error();
  auto fn = compile_graph(graph, flags.compiled);
  if (!fn) return fn.error();
  graph::PlanDrawing compiled{fn->plan(), *sizes, {}};
  if (flags.time) {
    auto us = time_launches(graph, *fn, *sizes);
    if (!us) return us.error();
    compiled.us = std::move(*us);
  }
  return wire::write_text(flags.output, graph::draw_html(graph, svg, &compiled));
}

}  // namespace

Result<void> draw_graph(const GraphDrawFlags& flags) {
  const std::string kind = std::filesystem::path(flags.output).extension().string();
  if (kind != ".dot" && kind != ".svg" && kind != ".html") {
    return invalid_argument(flags.output + ": a drawing is a .dot, .svg or .html file");
  }
  const auto graphviz = wire::find_program("dot");
  if (kind == ".svg" && !graphviz) {
    return error(ErrorCode::kNotFound, flags.output + ": an SVG is drawn by Graphviz: " + graphviz.error().message +
                                           "; write a .dot or .html file");
  }
  if (kind != ".html" && !flags.compiled.target.empty()) {
    return invalid_argument("--target: a .html file alone shows what a graph is compiled to");
  }
  if (flags.compiled.target.empty() && (flags.time || !flags.sizes.empty())) {
    return invalid_argument("--size, --time: a --target is missing");
  }
  auto graph = load_graph(flags.file);
  if (!graph) return graph.error();
  const std::string dot = graph::draw_dot(*graph, {.views = !flags.no_views});
  if (kind == ".dot") return wire::write_text(flags.output, dot);
  std::string svg;
  if (graphviz) {
    auto drawn = svg_of(*graphviz, dot);
    if (!drawn) return drawn.error();
    svg = std::move(*drawn);
  }
  if (kind == ".svg") return wire::write_text(flags.output, svg);
  if (flags.compiled.target.empty()) return wire::write_text(flags.output, graph::draw_html(*graph, svg));
  return write_page(*graph, svg, flags);
}

}  // namespace kiln::cli

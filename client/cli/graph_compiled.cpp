#include "graph_compiled.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <random>

#include "graph.h"
#include "kiln/client/graph.h"
#include "kiln/graph/sizes.h"
#include "kiln/wire/printable.h"

namespace kiln::cli {
namespace {

using dsl::ElementType;
using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

Result<client::CompiledGraph> compile_graph(const graph::Graph& graph, const GraphTargetFlags& flags) {
  client::ClientOptions options;
  options.connect.client_name = "kiln graph";
  options.specialise_in_background = false;  // this process is gone before it would help
  client::Client client(std::move(options));
  return client.compile(graph, {.target = flags.target, .fuse = flags.fuse, .deadline_ms = flags.deadline_ms});
}

std::vector<client::ArrayView> views_of(const std::vector<graph::Array>& arrays) {
  std::vector<client::ArrayView> out;
  for (const graph::Array& array : arrays) out.push_back(client::array(array));
  return out;
}

// Floats of a normal distribution; ints are 0 or 1, since they may be indices.
graph::Array random_array(ElementType element, std::vector<int64_t> shape, std::mt19937& random) {
  graph::Array out = graph::own(element, std::move(shape));
  std::normal_distribution<double> normal;
  for (int64_t i = 0; i < out.count(); ++i) {
    const uint64_t bits =
        dsl::is_float(element) ? dsl::bits_from_double(element, normal(random)) : uint64_t{random() % 2};
    graph::set_bits(out, i, bits);
  }
  return out;
}

Result<std::vector<graph::Array>> random_inputs(const graph::Graph& graph,
                                                const std::map<std::string, int64_t>& sizes) {
  const graph::Body& body = graph.main();
  auto dims = graph::bind_sizes(body.name, graph.dims, {}, {}, sizes);
  if (!dims) return dims.error();
  std::mt19937 random(1);
  std::vector<graph::Array> out;
  for (const graph::Input& input : body.inputs) {
    const graph::TensorType& type = graph.type(body, input.value);
    std::vector<int64_t> shape;
    int64_t count = 1;
    for (const graph::Expr& extent : type.shape) {
      auto size = extent.evaluate(*dims);
      const bool fits = size && !__builtin_mul_overflow(count, *size, &count) && count < (int64_t{1} << 40);
      if (!fits) {
        return invalid_argument("input `" + input.name + "` is " + to_string(type, graph.expr_names()) +
                                ": say the sizes of its dims by --size, of arrays that memory can have");
      }
      shape.push_back(*size);
    }
    out.push_back(random_array(type.element, std::move(shape), random));
  }
  return out;
}

}  // namespace

Result<std::vector<graph::Array>> run_compiled(const graph::Graph& graph, const std::vector<graph::Array>& inputs,
                                               const std::map<std::string, int64_t>& sizes, uint64_t memory_bytes,
                                               const GraphTargetFlags& flags) {
  auto fn = compile_graph(graph, flags);
  if (!fn) return fn.error();
  auto results = (*fn)(views_of(inputs), {.threads = flags.threads, .sizes = sizes, .memory_limit = memory_bytes});
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

Result<void> bench_graph(const GraphBenchFlags& flags) {
  auto graph = load_graph(flags.file);
  if (!graph) return graph.error();
  auto sizes = read_sizes(flags.sizes);
  if (!sizes) return sizes.error();
  auto inputs = random_inputs(*graph, *sizes);
  if (!inputs) return inputs.error();
  const auto begun = Clock::now();
  auto fn = compile_graph(*graph, flags.compiled);
  if (!fn) return fn.error();
  const double compiled = milliseconds(begun);
  const std::vector<client::ArrayView> views = views_of(*inputs);
  const client::RunOptions options{.threads = flags.compiled.threads, .sizes = *sizes};
  std::vector<double> times;
  for (int i = 0; i <= flags.repeat; ++i) {
    const auto start = Clock::now();
    if (auto done = (*fn)(views, options); !done) return done.error();
    if (i > 0) times.push_back(milliseconds(start));  // the first finds no arena yet
  }
  std::sort(times.begin(), times.end());
  std::printf("%s: ready in %.1f ms; median %.6f ms, fastest %.6f ms, slowest %.6f ms of %zu runs of %zu launches\n",
              wire::printable(graph->main().name).c_str(), compiled, times[times.size() / 2], times.front(),
              times.back(), times.size(), fn->plan().launches.size());
  return {};
}

}  // namespace kiln::cli

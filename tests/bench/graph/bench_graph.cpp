// bench-graph [NODES]: what graphs cost to build: time and memory of a node that is traced, verified, made canonical,
// printed, read and differentiated. Lines as of the other benchmarks: area,case,dtype,who,metric,value.
//
//   chain    elementwise ops, each on the one before: as deep as it has nodes
//   layers   blocks of a transformer: products, views, norms, attention, constants
//   bodies   a loop for each ten nodes, with captures
#include <malloc.h>
#include <time.h>

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kiln/graph/binary.h"
#include "kiln/graph/differentiate.h"
#include "kiln/graph/graph.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"

namespace kiln::graph {
namespace {

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// Of the processor: what else runs on the machine does not count.
double seconds_of(const std::function<void()>& work) {
  const double start = processor_seconds();
  work();
  return processor_seconds() - start;
}

void line(const char* name, const char* metric, double value) {
  std::printf("graph,%s,f32,kiln,%s,%.6g\n", name, metric, value);
}

size_t bytes_in_use() {
  const auto info = mallinfo2();
  return info.uordblks + info.hblkhd;
}

size_t node_count(const Graph& graph) {
  size_t count = 0;
  for (const Body& body : graph.bodies) count += body.nodes.size();
  return count;
}

GraphDef chain(size_t nodes) {
  const Dim n = dim("n", 1, 4096);
  return graph("chain", {input("x", f32, {n, 64}), input("w", f32, {n, 64})}, [&](Tensor x, Tensor w) {
    Tensor y = x;
    for (size_t i = 0; i + 3 < nodes; i += 4) {
      y = y * w;
      y = y + x;
      y = tanh(y);
      y = y - w;
    }
    return sum(y);
  });
}

// About 30 nodes a layer.
GraphDef layers(size_t nodes) {
  const Dim batch = dim("batch", 1, 64), places = dim("places", 1, 512);
  const int64_t width = 64, heads = 4;
  return graph("layers",
               {input("x", f32, {batch, places, width}), input("wqkv", f32, {3 * width, width}),
                input("wo", f32, {width, width}), input("w1", f32, {4 * width, width}),
                input("w2", f32, {width, 4 * width}), input("g", f32, {width})},
               [&](Tensor x, Tensor wqkv, Tensor wo, Tensor w1, Tensor w2, Tensor g) {
                 const auto apart = [&](const Tensor& t) {
                   return permute(reshape(t, {batch, places, heads, width / heads}), {0, 2, 1, 3});
                 };
                 for (size_t i = 0; i < nodes; i += 25) {
                   const std::vector<Tensor> qkv = split(linear(layer_norm(x, g), wqkv), 3, -1);
                   const Tensor mixed = attention(apart(qkv[0]), apart(qkv[1]), apart(qkv[2]), {.causal = true});
                   x = x + 0.5 * linear(flatten(permute(mixed, {0, 2, 1, 3}), 2), wo);
                   x = x + linear(gelu(linear(rms_norm(x, g), w1)), w2) * g;
                 }
                 return mean(square(x));
               });
}

GraphDef bodies(size_t nodes) {
  const Dim n = dim("n", 1, 4096);
  return graph("bodies", {input("x", f32, {64}), input("w", f32, {64})}, [&](Tensor x, Tensor w) {
    Tensor y = x;
    for (size_t i = 0; i < nodes; i += 10) {
      y = loop(n, {y}, {}, [&](Tensors carried, Tensors) {
            Tensor h = carried[0];
            for (int k = 0; k < 4; ++k) h = tanh(h * w) + x;
            return LoopStep{{h}, {}};
          }).carried[0];
    }
    return sum(y);
  });
}

struct Case {
  const char* name;
  GraphDef (*make)(size_t nodes);
  std::vector<std::string> by;  // inputs to differentiate by
};

int run(const Case& each, size_t nodes) {
  const size_t before = bytes_in_use();
  std::vector<GraphDef> made;
  const double traced = seconds_of([&] { made.push_back(each.make(nodes)); });
  if (!made[0].ir()) return std::fprintf(stderr, "%s\n", made[0].ir().error().message.c_str()), 1;
  const Graph& graph = *made[0].ir();
  const auto count = static_cast<double>(node_count(graph));
  const auto bytes = static_cast<double>(bytes_in_use() - before);
  const auto per_node = [&](const char* metric, double seconds) { line(each.name, metric, seconds * 1e9 / count); };
  line(each.name, "nodes", count);
  per_node("traced ns a node", traced);
  line(each.name, "bytes a node", bytes / count);
  bool fine = true;
  const double verified = seconds_of([&] { fine = verify(graph).ok(); });
  per_node("verified ns a node", verified);
  per_node("canonical ns a node", seconds_of([&] { canonical(graph); }));
  std::string text;
  per_node("printed ns a node", seconds_of([&] { text = print(graph); }));
  per_node("read ns a node", seconds_of([&] { fine = fine && parse(text, "bench.kg").ok(); }));
  size_t gradient_nodes = 0;
  const double differentiated = seconds_of([&] {
    const auto joint = value_and_gradient(graph, each.by);
    fine = fine && joint.ok();
    if (joint) gradient_nodes = node_count(*joint);
    if (!joint) std::fprintf(stderr, "%s\n", joint.error().message.c_str());
  });
  per_node("differentiated ns a node", differentiated);
  line(each.name, "gradient's nodes", static_cast<double>(gradient_nodes));
  line(each.name, "traced and verified s", traced + verified);
  return fine ? 0 : 1;
}

int main_of(int argc, char** argv) {
  const size_t nodes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 100'000;
  const Case cases[] = {{"chain", chain, {"x"}}, {"layers", layers, {"wqkv", "g"}}, {"bodies", bodies, {"w"}}};
  int failed = 0;
  for (const Case& each : cases) failed |= run(each, nodes);
  return failed;
}

}  // namespace
}  // namespace kiln::graph

int main(int argc, char** argv) { return kiln::graph::main_of(argc, argv); }

// bench-graph-run [SECONDS]: what the host does for a run of a compiled graph, beside its kernels. A chain of launches
// of 16 elements each, without fusion, by one thread and by OpenMP's default. Lines as of the other benchmarks:
// area,case,dtype,who,metric,value. A run is a constant and so much a launch: both by the slope of two chains' times.
//
//   chain   each launch on the result of the one before
//   wide    the same launches of 64 Ki elements each: what a region of threads costs between them
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kiln/client/graph.h"

namespace kiln {
namespace {

using Clock = std::chrono::steady_clock;

graph::GraphDef chain(int launches, int64_t elements) {
  return graph::graph("chain", {graph::input("x", graph::f32, {elements})}, [=](graph::Tensor x) {
    for (int i = 0; i < launches; ++i) x = i % 2 == 0 ? x + 1.0 : x * 0.5;
    return x;
  });
}

// Microseconds of a run: the median of batches, each long enough for the clock.
// `one_by_one`: without what is prepared, as launches that are timed go.
double microseconds(const CompiledGraph& fn, int64_t elements, int threads, bool one_by_one, double seconds) {
  std::vector<float> x(static_cast<size_t>(elements), 1), y(x.size());
  const std::vector<ArrayView> inputs = {array(x, {elements})}, outputs = {donated(y, {elements})};
  std::vector<double> ms;
  const RunOptions options{.threads = threads, .launch_ms = one_by_one ? &ms : nullptr};
  std::vector<double> times;
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  int batch = 1;
  while (times.size() < 5 || Clock::now() < end) {
    const auto begun = Clock::now();
    for (int i = 0; i < batch; ++i) {
      if (auto done = fn.run_into(inputs, outputs, options); !done) {
        std::fprintf(stderr, "%s\n", done.error().message.c_str());
        std::exit(1);
      }
    }
    const double took = std::chrono::duration<double, std::micro>(Clock::now() - begun).count();
    if (took < 200 && batch < 1 << 20) {
      batch *= 2;
      continue;
    }
    times.push_back(took / batch);
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

int run(double seconds) {
  Client client;
  const int few = 10, many = 210;
  for (const auto& [name, elements] : {std::pair<const char*, int64_t>{"chain", 16}, {"wide", 64 << 10}}) {
    std::vector<CompiledGraph> chains;
    for (const int launches : {few, many}) {
      auto fn = client.compile(chain(launches, elements), {.target = "cpu", .fuse = false});
      if (!fn) return std::fprintf(stderr, "%s\n", fn.error().message.c_str()), 1;
      const std::vector<float> x(static_cast<size_t>(elements));
      if (auto ready = fn->prepare(std::vector{array(x, {elements})}); !ready) {
        return std::fprintf(stderr, "%s\n", ready.error().message.c_str()), 1;
      }
      if (fn->plan().launches.size() != static_cast<size_t>(launches)) return std::fprintf(stderr, "fused\n"), 1;
      chains.push_back(std::move(*fn));
    }
    for (const int threads : {1, 0}) {
      for (const bool one_by_one : {false, true}) {
        const double a = microseconds(chains[0], elements, threads, one_by_one, seconds);
        const double b = microseconds(chains[1], elements, threads, one_by_one, seconds);
        const std::string who =
            std::string(threads == 1 ? "1 thread" : "all threads") + (one_by_one ? ", launch by launch" : "");
        const double each = (b - a) / (many - few);
        std::printf("graph run,%s,f32,%s,ns a launch,%.4g\n", name, who.c_str(), each * 1e3);
        std::printf("graph run,%s,f32,%s,us a run,%.4g\n", name, who.c_str(), a - few * each);
      }
    }
  }
  return 0;
}

}  // namespace
}  // namespace kiln

int main(int argc, char** argv) { return kiln::run(argc > 1 ? std::strtod(argv[1], nullptr) : 0.5); }

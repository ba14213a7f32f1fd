// `kiln graph bench`: what a run of a compiled graph takes, whole and launch by launch.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <random>
#include <sstream>

#include "graph_compiled.h"
#include "graph_run.h"
#include "kiln/client/graph.h"
#include "kiln/graph/sizes.h"
#include "kiln/wire/printable.h"
#include "load_program.h"

namespace kiln::cli {
namespace {

using dsl::ElementType;
using Clock = std::chrono::steady_clock;

double milliseconds(Clock::time_point from) {
  return std::chrono::duration<double, std::milli>(Clock::now() - from).count();
}

double median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// So many elements are drawn, and repeated: a prime, so that no axis sees the same ones again and again.
constexpr int64_t kDrawn = 65521;

// Floats of a normal distribution, those of matrices and the like as small as a layer's weights: what is computed of
// them is of usual size then. Subnormal numbers take some processors a hundred times as long. Ints are 0 or 1, since
// they may be indices.
graph::Array random_array(ElementType element, std::vector<int64_t> shape, std::mt19937& random) {
  graph::Array out = graph::own(element, std::move(shape));
  const double inputs = out.shape.size() < 2
                            ? 1.0
                            : std::accumulate(out.shape.begin() + 1, out.shape.end(), 1.0, std::multiplies<double>());
  std::normal_distribution<double> normal(0.0, 1.0 / std::sqrt(std::max(1.0, inputs)));
  for (int64_t i = 0; i < std::min(out.count(), kDrawn); ++i) {
    const uint64_t bits =
        dsl::is_float(element) ? dsl::bits_from_double(element, normal(random)) : uint64_t{random() % 2};
    graph::set_bits(out, i, bits);
  }
  std::vector<std::byte>& bytes = *out.storage;
  for (size_t done = std::min(bytes.size(), static_cast<size_t>(kDrawn * dsl::info(element).bytes));
       done < bytes.size();) {
    const size_t more = std::min(done, bytes.size() - done);
    std::memcpy(bytes.data() + done, bytes.data(), more);
    done += more;
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

// None of the interpreter.
Result<std::optional<client::Device>> device_of(const std::string& target) {
  const std::string kind = target.substr(0, target.find(':'));
  if (kind != "cuda" && kind != "amd" && kind != "cpu") return std::optional<client::Device>();
  auto device = client::Device::open(kind);
  if (!device) return device.error();
  return std::optional(std::move(*device));
}

// Inputs and outputs as a run takes them: on a GPU where that is the target.
class Arrays {
 public:
  static Result<Arrays> make(std::optional<client::Device> device, const client::CompiledGraph& fn,
                             const std::vector<graph::Array>& inputs, const client::RunOptions& options) {
    Arrays out;
    const bool moves = device && device->info().kind != "cpu";
    out.device_ = std::move(device);
    for (const graph::Array& input : inputs) {
      if (auto added = out.add_input(input, moves); !added) return added.error();
    }
    if (auto ready = fn.prepare(out.host_, options); !ready) return ready.error();
    auto results = fn(out.host_, options);  // also the first run, which finds no memory yet
    if (!results) return results.error();
    for (const client::OwnedArray& result : *results) {
      if (auto added = out.add_output(result, moves); !added) return added.error();
    }
    return out;
  }

  const std::vector<client::ArrayView>& inputs() const { return inputs_; }
  const std::vector<client::ArrayView>& outputs() const { return outputs_; }
  const std::optional<client::Device>& device() const { return device_; }

 private:
  Result<void> add_input(const graph::Array& input, bool moves) {
    host_.push_back(client::array(input));
    inputs_.push_back(host_.back());
    if (!moves) return {};
    auto memory = move_there(inputs_.back(), static_cast<uint64_t>(input.count() * dsl::info(input.element).bytes));
    if (!memory || input.count() == 0) return memory;
    const auto* bytes = reinterpret_cast<const std::byte*>(input.data);
    return memory_.back().copy_from({bytes, memory_.back().bytes()});
  }
  Result<void> add_output(const client::OwnedArray& result, bool moves) {
    outputs_.push_back(result.donate());
    return moves ? move_there(outputs_.back(), result.bytes()) : Result<void>();
  }
  Result<void> move_there(client::ArrayView& array, uint64_t bytes) {
    auto memory = client::DeviceMemory::allocate(*device_, std::max<uint64_t>(bytes, 1));
    if (!memory) return memory.error();
    array.data = memory->data();
    array.bytes = bytes;
    array.on_device = true;
    array.owner = nullptr;
    memory_.push_back(std::move(*memory));
    return {};
  }

  std::optional<client::Device> device_;  // none of the interpreter
  std::vector<client::DeviceMemory> memory_;
  std::vector<client::ArrayView> host_, inputs_, outputs_;
};

// Times of runs, each until its results are there.
Result<std::vector<double>> time_runs(const client::CompiledGraph& fn, const Arrays& arrays,
                                      const client::RunOptions& options, int repeat) {
  std::vector<double> out;
  for (int i = 0; i < repeat; ++i) {
    const auto start = Clock::now();
    if (auto done = fn.run_into(arrays.inputs(), arrays.outputs(), options); !done) return done.error();
    out.push_back(milliseconds(start));
  }
  return out;
}

Result<std::vector<double>> time_replays(const client::CompiledGraph& fn, const Arrays& arrays,
                                         client::RunOptions options, int repeat) {
  if (!arrays.device()) return invalid_argument("--replay: of the interpreter nothing is recorded");
  auto stream = client::Stream::create(*arrays.device());
  if (!stream) return stream.error();
  options.stream = &*stream;
  auto recording =
      client::Recording::capture(*stream, [&] { return fn.run_into(arrays.inputs(), arrays.outputs(), options); });
  if (!recording) return recording.error();
  std::vector<double> out;
  for (int i = 0; i <= repeat; ++i) {
    const auto start = Clock::now();
    if (auto queued = recording->replay(*stream); !queued) return queued.error();
    if (auto done = stream->synchronise(); !done) return done.error();
    if (i > 0) out.push_back(milliseconds(start));
  }
  return out;
}

// The bytes that a launch moves, if its formula can be evaluated.
std::optional<double> moved_bytes(const graph::Plan& plan, size_t launch, const std::map<std::string, int64_t>& sizes) {
  dsl::Bindings dims;
  for (const graph::DimInfo& dim : plan.dims) {
    const auto size = sizes.find(dim.name);
    dims.constexprs.push_back(size == sizes.end() ? std::optional<int64_t>() : size->second);
  }
  auto bytes = plan.launches[launch].moved.evaluate(dims);
  if (!bytes) return std::nullopt;
  return static_cast<double>(*bytes);
}

// What each launch takes, in milliseconds: the median of some runs.
Result<std::vector<double>> launch_times(const client::CompiledGraph& fn, const Arrays& arrays,
                                         client::RunOptions options, int repeat) {
  std::vector<std::vector<double>> times(fn.plan().launches.size());
  std::vector<double> once, out;
  options.launch_ms = &once;
  for (int i = 0; i < repeat; ++i) {
    if (auto done = fn.run_into(arrays.inputs(), arrays.outputs(), options); !done) return done.error();
    for (size_t launch = 0; launch < once.size(); ++launch) times[launch].push_back(once[launch]);
  }
  for (std::vector<double>& each : times) out.push_back(median(std::move(each)));
  return out;
}

Result<void> print_launches(const client::CompiledGraph& fn, const Arrays& arrays, const client::RunOptions& options,
                            int repeat) {
  const graph::Plan& plan = fn.plan();
  const auto times = launch_times(fn, arrays, options, repeat);
  if (!times) return times.error();
  for (size_t i = 0; i < times->size(); ++i) {
    const graph::PlannedLaunch& launch = plan.launches[i];
    const double ms = (*times)[i];
    const auto moved = moved_bytes(plan, i, options.sizes);
    char rate[40] = "";
    if (moved && ms > 0) std::snprintf(rate, sizeof rate, "%9.1f GB/s", *moved / ms / 1e6);
    std::printf("%4zu  %10.3f us %s  %s %s\n", i, ms * 1e3, rate, wire::printable(launch.name).c_str(),
                wire::printable(launch.place).c_str());
  }
  return {};
}

void print_tuned(const client::CompiledGraph& fn, double ms) {
  std::printf("tuned, and run once, in %.1f ms\n", ms);
  std::istringstream lines(fn.explain());
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("tuned: ")) std::printf("%s\n", wire::printable(line).c_str());
  }
}

}  // namespace

Result<void> bench_graph(const GraphBenchFlags& flags) {
  auto graph = load_graph(flags.file);
  if (!graph) return graph.error();
  auto sizes = read_sizes(flags.sizes);
  if (!sizes) return sizes.error();
  auto inputs = random_inputs(*graph, *sizes);
  if (!inputs) return inputs.error();
  auto device = device_of(flags.compiled.target);  // before the clock starts: a driver takes its time in each process
  if (!device) return device.error();
  const auto begun = Clock::now();
  auto fn = compile_graph(*graph, flags.compiled);
  if (!fn) return fn.error();
  const double compiled = milliseconds(begun);
  const client::RunOptions options{.threads = flags.compiled.threads, .sizes = *sizes};
  const size_t planned = fn->plan().launches.size();
  const auto binding = Clock::now();
  auto bound = bind_inputs(*graph, std::move(*fn), *inputs, flags.compiled, options);
  if (!bound) return bound.error();
  *fn = std::move(bound->fn);
  const double bound_ms = milliseconds(binding);
  const auto preparing = Clock::now();
  auto arrays = Arrays::make(std::move(*device), *fn, bound->inputs, options);
  if (!arrays) return arrays.error();
  const double prepared_ms = milliseconds(preparing);
  auto times =
      flags.replay ? time_replays(*fn, *arrays, options, flags.repeat) : time_runs(*fn, *arrays, options, flags.repeat);
  if (!times) return times.error();
  const auto [fastest, slowest] = std::minmax_element(times->begin(), times->end());
  std::printf("%s: ready in %.1f ms; median %.6f ms, fastest %.6f ms, slowest %.6f ms of %zu %s of %zu launches\n",
              wire::printable(graph->main().name).c_str(), compiled, median(*times), *fastest, *slowest, times->size(),
              flags.replay ? "replays" : "runs", fn->plan().launches.size());
  if (!flags.compiled.bind.empty()) {
    std::printf("bound %zu of %zu inputs in %.1f ms: %zu launches ran once\n", flags.compiled.bind.size(),
                inputs->size(), bound_ms, planned - fn->plan().launches.size());
  }
  if (flags.compiled.mode != "default") print_tuned(*fn, prepared_ms);
  return flags.launches ? print_launches(*fn, *arrays, options, flags.repeat) : Result<void>();
}

Result<std::vector<double>> time_launches(const graph::Graph& graph, const client::CompiledGraph& fn,
                                          const std::map<std::string, int64_t>& sizes) {
  constexpr int kRuns = 9;
  auto inputs = random_inputs(graph, sizes);
  if (!inputs) return inputs.error();
  auto device = device_of(fn.plan().target);
  if (!device) return device.error();
  const client::RunOptions options{.sizes = sizes};
  auto arrays = Arrays::make(std::move(*device), fn, *inputs, options);
  if (!arrays) return arrays.error();
  auto out = launch_times(fn, *arrays, options, kRuns);
  if (!out) return out;
  for (double& each : *out) each *= 1e3;
  return out;
}

}  // namespace kiln::cli

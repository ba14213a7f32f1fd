// `kiln run`: files in, a launch, files out.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>

#include "arguments.h"
#include "commands.h"
#include "custom_code.h"
#include "device_run.h"
#include "graph_run.h"
#include "kiln/client/client.h"
#include "kiln/dsl/facts.h"
#include "kiln/wire/printable.h"
#include "load_program.h"
#include "model_bundle.h"

namespace kiln::cli {
namespace {

// Facts that the arguments break would give a kernel compiled on a false promise.
Result<void> check_facts(const dsl::Kernel& kernel, const dsl::Facts& facts,
                         const std::vector<client::Argument>& arguments) {
  for (size_t i = 0; i < facts.size(); ++i) {
    if (kernel.params[i].type.pointer) continue;
    const auto value = static_cast<int64_t>(arguments[i].bits);
    if (!dsl::implies(dsl::fact_of_int(value), facts[i])) {
      const int64_t multiple = dsl::multiple_of(facts[i]);
      return invalid_argument("--facts: `" + kernel.params[i].name + "` is " + std::to_string(arguments[i].bits) +
                              ", which is not " + (multiple == 1 ? "1" : "a multiple of " + std::to_string(multiple)));
    }
  }
  return {};
}

bool any_fact(const dsl::Facts& facts) {
  for (dsl::ParamFact fact : facts) {
    if (fact != dsl::ParamFact::kNone) return true;
  }
  return false;
}

Result<client::UntypedFunction> compile_for_run(const dsl::Kernel& kernel, const RunFlags& flags,
                                                const dsl::ConstexprValues& values, const dsl::Facts& facts) {
  client::ClientOptions options;
  options.connect.client_name = "kiln run";
  options.specialise_in_background = false;  // this process is gone before it would help
  client::Client client(std::move(options));
  if (!flags.code.file.empty()) return get_code(client, kernel, flags);
  auto function = client.get(kernel, {flags.kernel.target, values, flags.kernel.deadline_ms});
  if (!function || !any_fact(facts)) return function;
  if (auto done = function->prepare_facts(facts); !done) return done.error();
  return function;
}

// Launches on the CPU or the interpreter; as launch_on_device() does on a GPU.
Result<std::vector<double>> launch_here(const client::UntypedFunction& function,
                                        const std::vector<client::Argument>& arguments, client::LaunchOptions options,
                                        int repeat, const std::function<Result<void>()>& write) {
  if (auto done = function.launch(arguments, options); !done) return done.error();
  if (auto written = write(); !written) return written.error();
  // What is timed is the code for just these arguments, as a program that launches often has it.
  if (repeat > 0) {
    if (auto ready = function.prepare(arguments); !ready) return ready.error();
  }
  options.print = [](const dsl::PrintRecord&) {};  // once is enough
  std::vector<double> times;
  for (int i = 0; i < repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (auto done = function.launch(arguments, options); !done) return done.error();
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return times;
}

void print_times(const dsl::Kernel& kernel, std::vector<double> times) {
  if (times.empty()) return;
  std::sort(times.begin(), times.end());
  std::printf("%s: median %.6f ms, fastest %.6f ms, slowest %.6f ms of %zu launches\n",
              wire::printable(kernel.name).c_str(), times[times.size() / 2], times.front(), times.back(), times.size());
}

}  // namespace

Result<GraphRunFlags> graph_run_flags(const RunFlags& flags) {
  const auto refuse = [&](const std::string& flag) {
    return invalid_argument(flag + ": kernels have it, and " + flags.kernel.file + " is a graph");
  };
  if (!flags.kernel.sets.empty()) return refuse("--set");
  if (!flags.kernel.facts.empty()) return refuse("--facts");
  if (!flags.grid.empty()) return refuse("--grid");
  if (!flags.code.file.empty()) return refuse("--code");
  if (flags.repeat > 0) return invalid_argument("--repeat: `kiln graph bench` times graphs");
  GraphRunFlags graph;
  graph.file = flags.kernel.file;
  graph.arguments = flags.arguments;
  graph.compiled.target = flags.kernel.target;
  graph.compiled.deadline_ms = flags.kernel.deadline_ms;
  graph.compiled.threads = flags.threads;
  return graph;
}

Result<void> run(const RunFlags& flags) {
  if (is_model_bundle(flags.kernel.file)) return run_bundle(flags);
  if (flags.trust || !flags.key_file.empty()) {
    return invalid_argument(flags.kernel.file + " is no bundle, which --key and --trust are for");
  }
  if (is_program_file(flags.kernel.file)) {
    auto graph = graph_run_flags(flags);
    if (!graph) return graph.error();
    return run_graph(std::move(*graph));
  }
  auto kernel = load_kernel(flags.kernel.file);
  if (!kernel) return kernel.error();
  auto values = parse_sets(*kernel, flags.kernel.sets);
  if (!values) return values.error();
  auto facts = parse_facts(*kernel, flags.kernel.facts);
  if (!facts) return facts.error();
  auto grid = parse_grid(flags.grid);
  if (!grid) return grid.error();
  auto parsed = parse_arguments(*kernel, flags.arguments);
  if (!parsed) return parsed.error();
  const std::vector<client::Argument> arguments = launch_arguments(*kernel, *parsed);
  if (auto sound = check_facts(*kernel, *facts, arguments); !sound) return sound;

  auto function = compile_for_run(*kernel, flags, *values, *facts);
  if (!function) return function.error();
  auto print = [](const dsl::PrintRecord& record) { std::cout << wire::printable_lines(dsl::to_string(record)); };
  const client::LaunchOptions options{flags.threads, *grid, print};
  const std::string kind = flags.kernel.target.substr(0, flags.kernel.target.find(':'));
  const bool on_device = kind == "cuda" || kind == "amd";
  // Before launches are repeated: those find what earlier ones left in the arrays.
  const auto write = [&]() -> Result<void> {
    for (const RunArgument& argument : *parsed) {
      if (argument.output.empty()) continue;
      if (auto done = client::write_npy(argument.output, argument.array); !done) return done;
    }
    return {};
  };
  if (!on_device) {
    auto times = launch_here(*function, arguments, options, flags.repeat, write);
    if (!times) return times.error();
    print_times(*kernel, std::move(*times));
    return {};
  }
  auto times = launch_on_device(kind, *function, arguments, options, flags.repeat);
  if (!times) return times.error();
  if (auto written = write(); !written) return written;
  print_times(*kernel, std::move(*times));
  return {};
}

}  // namespace kiln::cli

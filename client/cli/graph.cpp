#include "graph.h"

namespace kiln::cli {
namespace {

using Action = std::function<Result<void>()>;

constexpr const char* kFileHelp = "A graph as text (.kg), or a model of PyTorch's (.pt2)";

void add_file_commands(CLI::App& graph, GraphFileFlags& flags, Action& action) {
  const auto add = [&](const char* name, const char* help, Result<void> (*function)(const GraphFileFlags&)) {
    CLI::App* command = graph.add_subcommand(name, help);
    command->add_option("file", flags.file, kFileHelp)->required();
    command->callback([&flags, &action, function] { action = [&flags, function] { return function(flags); }; });
    return command;
  };
  CLI::App* print = add("print", "Print a graph in its usual form", print_graph);
  print->add_flag("--locations", flags.locations, "The source line behind each node");
  add("verify", "Check a graph against the rules of the language", verify_graph);
  add("hash", "Print a graph's identity: SHA-256 of its canonical form", hash_graph);
}

void add_target(CLI::App& command, GraphTargetFlags& flags, const char* help) {
  command.add_option("--target", flags.target, help);
  command.add_flag("!--no-fuse", flags.fuse, "A launch for each op, to see what fusion does");
  command.add_flag("--full", flags.full, "A kernel that cannot be compiled is an error, and its ops do not run apart");
  command.add_option("--deadline-ms", flags.deadline_ms, "Give up compiling after this long");
}

void add_bind(CLI::App& command, GraphTargetFlags& flags) {
  command.add_option("--bind", flags.bind, "x,w: inputs that stay; what is computed of them alone runs once")
      ->delimiter(',')
      ->allow_extra_args(false);
}

void add_mode(CLI::App& command, GraphTargetFlags& flags, const char* help) {
  command.add_option("--mode", flags.mode, help)->check(CLI::IsMember({"default", "autotune", "max"}));
  command.add_option("--tune-budget-ms", flags.tune_budget_ms, "Tune each kernel for so long; 0: as the tuner likes");
  command.add_option("--tune-wait-ms", flags.tune_wait_ms, "Wait so long for all kernels together; 0: to the end");
}

constexpr const char* kTargetHelp = "cpu, cuda, amd or interp, or one in full as `kiln ping` names it";

void add_compiled_commands(CLI::App& graph, GraphFlags& flags, Action& action) {
  CLI::App* explain = graph.add_subcommand("explain", "Print what a graph is compiled to: launches, bytes, and why");
  explain->add_option("file", flags.explain.file, kFileHelp)->required();
  explain->add_option("--size", flags.explain.sizes, "n=128: bytes as numbers, of dims that are given")
      ->allow_extra_args(false);
  add_target(*explain, flags.explain.compiled, kTargetHelp);
  explain->callback([&] { action = [&] { return explain_graph(flags.explain); }; });

  CLI::App* memory = graph.add_subcommand("memory", "Print who lies in a compiled graph's arena when, and its peak");
  memory->add_option("file", flags.memory.file, kFileHelp)->required();
  memory->add_option("--size", flags.memory.sizes, "n=128: of each dim")->allow_extra_args(false);
  add_target(*memory, flags.memory.compiled, kTargetHelp);
  memory->callback([&] { action = [&] { return print_graph_memory(flags.memory); }; });

  CLI::App* draw = graph.add_subcommand("draw", "Draw a graph, or write a page with text, drawing and launches");
  draw->add_option("file", flags.draw.file, kFileHelp)->required();
  draw->add_option("-o,--output", flags.draw.output, "FILE.dot, FILE.svg (by Graphviz) or FILE.html")->required();
  draw->add_flag("--no-views", flags.draw.no_views, "Views as labels of edges");
  draw->add_option("--size", flags.draw.sizes, "n=128: bytes as numbers, of dims that are given")
      ->allow_extra_args(false);
  draw->add_flag("--time", flags.draw.time, "What each launch takes on random inputs; --size says each dim");
  add_target(*draw, flags.draw.compiled, "Compile for cpu, cuda, amd or interp, and show the launches too");
  draw->callback([&] { action = [&] { return draw_graph(flags.draw); }; });

  CLI::App* bench = graph.add_subcommand("bench", "Time a graph, compiled, on random inputs");
  bench->add_option("file", flags.bench.file, kFileHelp)->required();
  bench->add_option("--size", flags.bench.sizes, "n=128: of each dim that the inputs mention")->allow_extra_args(false);
  bench->add_option("--repeat", flags.bench.repeat, "Runs that are timed")->check(CLI::Range(1, 1'000'000));
  bench->add_option("--threads", flags.bench.compiled.threads, "0: as OpenMP likes")->check(CLI::NonNegativeNumber);
  bench->add_flag("--launches", flags.bench.launches, "What each launch takes, and at how many bytes a second");
  bench->add_flag("--replay", flags.bench.replay, "Record a run, and time replays of it");
  add_bind(*bench, flags.bench.compiled);
  add_mode(*bench, flags.bench.compiled,
           "Who chooses the kernels' configs; the tuner is waited for before runs are timed");
  add_target(*bench, flags.bench.compiled, kTargetHelp);
  bench->callback([&] { action = [&] { return bench_graph(flags.bench); }; });
}

void add_cut_command(CLI::App& graph, GraphCutFlags& flags, Action& action) {
  CLI::App* cut = graph.add_subcommand("cut", "Print what a gradient keeps from the forward pass and computes again");
  cut->add_option("file", flags.file, kFileHelp)->required();
  cut->add_option("--by", flags.by, "An input that gradients are taken by; without it all of floats")
      ->allow_extra_args(false);
  cut->add_option("--budget", flags.budget_bytes, "Keep at most so many bytes beside inputs and outputs")
      ->transform(CLI::AsSizeValue(false));
  cut->add_option("--size", flags.sizes, "n=128: a dim's size, for costs")->allow_extra_args(false);
  cut->callback([&] { action = [&] { return cut_graph(flags); }; });
}

}  // namespace

void add_graph_commands(CLI::App& app, GraphFlags& flags, Action& action) {
  CLI::App* graph = app.add_subcommand("graph", "Graphs: as text (.kg), or of PyTorch (.pt2)");
  graph->require_subcommand(1);
  add_file_commands(*graph, flags.file, action);
  add_compiled_commands(*graph, flags, action);
  add_cut_command(*graph, flags.cut, action);

  CLI::App* run = graph->add_subcommand("run", "Run a graph on .npy files: by plain loops, or compiled for a target");
  run->add_option("file", flags.run.file, kFileHelp)->required();
  run->add_option("--input", flags.run.inputs, "x=@in.npy, or lr=0.1 of a scalar; repeated")->allow_extra_args(false);
  run->add_option("--output", flags.run.outputs, "y=@out.npy; outputs without a file are printed")
      ->allow_extra_args(false);
  run->add_option("--size", flags.run.sizes, "n=128: a dim that no input's shape says")->allow_extra_args(false);
  run->add_flag("--wide", flags.run.wide, "Compute and keep floats of all types in f64");
  run->add_flag("!--no-index-checks", flags.run.check_indices, "Let indices outside read anything instead of failing");
  run->add_option("--memory", flags.run.memory_bytes, "Refuse graphs that need more")
      ->transform(CLI::AsSizeValue(false))
      ->default_str("8GiB");
  run->add_option("--threads", flags.run.compiled.threads, "Of a compiled graph; 0: as OpenMP likes")
      ->check(CLI::NonNegativeNumber);
  add_bind(*run, flags.run.compiled);
  add_mode(*run, flags.run.compiled, "Who chooses the kernels' configs; by max the run waits for the tuner");
  add_target(*run, flags.run.compiled, "Compile for cpu, cuda, amd or interp; without it plain loops: exact, and slow");
  run->callback([&] { action = [&] { return run_graph(flags.run); }; });
}

}  // namespace kiln::cli

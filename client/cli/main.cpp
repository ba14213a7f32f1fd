// The command line: `kiln COMMAND …`. docs/use/cli.md is the manual.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <functional>

#include "answers.h"
#include "calibrate.h"
#include "commands.h"
#include "graph.h"
#include "kiln/cmdline/reference.h"
#include "kiln/wire/crash_report.h"
#include "kiln/wire/printable.h"
#include "targets.h"

namespace {

using kiln::Result;
using Action = std::function<Result<void>()>;

void add_kernel_flags(CLI::App& command, kiln::cli::KernelFlags& flags) {
  command.add_option("file", flags.file, "Kernel in text form (.kiln)")->required();
  command.add_option("--target", flags.target, "cpu, cuda, interp, or a resolved target")->capture_default_str();
  command.add_option("--set", flags.sets, "Constexprs: NAME=VALUE, several by commas or repetition")
      ->allow_extra_args(false);
  command.add_option("--facts", flags.facts, "Facts about arguments: A=align16,K=x16,N=one");
}

void add_deadline(CLI::App& command, kiln::cli::KernelFlags& flags) {
  command.add_option("--deadline-ms", flags.deadline_ms, "Give up compiling after this long");
}

struct Flags {
  kiln::cli::RunFlags run;
  kiln::cli::CompileFlags compile;
  kiln::cli::KernelFlags hash;
  std::string file, directory, cache_directory;
  std::vector<std::string> program;  // and its arguments
  uint32_t last = 0;
  kiln::cli::StatsFlags stats;
  kiln::cli::ExplainFlags explain;
  kiln::cli::ReproduceFlags reproduce;
  kiln::cli::BundleFlags bundle;
  kiln::cli::ModelBundleFlags model_bundle;
  kiln::cli::TopFlags top;
  kiln::cli::ProfileFlags profile;
  kiln::cli::ExecFlags exec;
  kiln::cli::GraphFlags graph;
  kiln::cli::CalibrateFlags calibrate;
  kiln::cli::TargetsFlags targets;
};

void add_kernel_commands(CLI::App& app, Flags& flags, Action& action) {
  CLI::App* run = app.add_subcommand("run", "Run a kernel, a graph (.kg), a model (.pt2) or its bundle on .npy files");
  add_kernel_flags(*run, flags.run.kernel);
  run->get_option("file")->description(
      "Kernel (.kiln) or graph (.kg) as text, a model of PyTorch's (.pt2), or a bundle");
  add_deadline(*run, flags.run.kernel);
  run->add_option("--grid", flags.run.grid, "X,Y,Z instead of the kernel's own grid");
  run->add_option("--threads", flags.run.threads, "CPU threads; 0: all")->check(CLI::Range(0, 4096));
  run->add_option("--repeat", flags.run.repeat, "Launch so many times more, and print what a launch takes")
      ->check(CLI::Range(0, 1'000'000));
  CLI::Option* code =
      run->add_option("--code", flags.run.code.file,
                      "Code of your own (.ll, .ptx, .s, .so) for a kernel without ops, which declares it");
  code->type_name("FILE");
  run->add_option("--entry", flags.run.code.entry, "The function in it; the kernel's name without it")->needs(code);
  run->add_option("--block-threads", flags.run.code.block_threads, "Of GPUs: threads of a block")
      ->needs(code)
      ->capture_default_str();
  run->add_option("--shared-bytes", flags.run.code.shared_bytes, "Of GPUs: shared memory beyond what the code declares")
      ->needs(code);
  CLI::Option* key =
      run->add_option("--key", flags.run.key_file, "Only run a bundle authenticated by this secret")->type_name("FILE");
  run->add_flag("--trust", flags.run.trust, "Without a key: execute what anybody wrote into a bundle")->excludes(key);
  run->add_option("arguments", flags.run.arguments, "x=@in.npy y=@out.npy:f32[4096,1024] z=@in.npy>@out.npy n=1024");
  run->callback([&] { action = [&] { return kiln::cli::run(flags.run); }; });

  CLI::App* compile = app.add_subcommand("compile", "Compile a kernel to a file");
  add_kernel_flags(*compile, flags.compile.kernel);
  add_deadline(*compile, flags.compile.kernel);
  compile->add_option("more", flags.compile.more, "Further kernels, of an archive (-o NAME.a)");
  compile->add_option("--entry", flags.compile.entry, "Name of the entry, for CPUs; kiln_entry without it");
  compile
      ->add_option("--emit", flags.compile.emit,
                   "ir, llvm, asm; for CPUs obj, so, quick; for NVIDIA ptx, cubin; for AMD obj, hsaco. so: what a "
                   "launcher loads; "
                   "quick: that in less time, of slower code")
      ->check(CLI::IsMember({"ir", "llvm", "asm", "obj", "so", "quick", "ptx", "cubin", "hsaco"}))
      ->capture_default_str();
  compile
      ->add_option("--worker-memory", flags.compile.memory_bytes,
                   "Address space for this compile; without it the daemon's --worker-memory")
      ->transform(CLI::AsSizeValue(false));
  compile->add_option("-o,--output", flags.compile.output,
                      "The file to write; text goes to the standard output without it");
  compile->add_option("--dump-after", flags.compile.dump_after,
                      "Print the tile IR after a pass, or after `all`, or the LLVM IR after `llvm`");
  compile->callback([&] { action = [&] { return kiln::cli::compile(flags.compile); }; });

  auto add_file_command = [&](const char* name, const char* help, Result<void> (*function)(const std::string&)) {
    CLI::App* command = app.add_subcommand(name, help);
    command->add_option("file", flags.file, "Kernel in text form (.kiln)")->required();
    command->callback([&flags, &action, function] { action = [&flags, function] { return function(flags.file); }; });
  };
  add_file_command("print", "Print a kernel in its usual form", kiln::cli::print_kernel);
  add_file_command("verify", "Check a kernel against the rules of the language", kiln::cli::verify_kernel);

  CLI::App* hash = app.add_subcommand("hash", "Print a kernel's identity: SHA-256 of its canonical form and config");
  add_kernel_flags(*hash, flags.hash);
  hash->callback([&] { action = [&] { return kiln::cli::hash_kernel(flags.hash); }; });

  CLI::App* library = app.add_subcommand("export-library", "Write the kernel library as .kiln files");
  library->add_option("directory", flags.directory)->required();
  library->callback([&] { action = [&] { return kiln::cli::export_library(flags.directory); }; });
}

// Questions about what has been compiled.
void add_entry_commands(CLI::App& app, Flags& flags, Action& action) {
  auto add_directory = [](CLI::App* command, std::string& directory) {
    command->add_option("--dir", directory, "Cache directory; default as for the daemon");
  };
  CLI::App* explain = app.add_subcommand("explain", "What is known of a compiled kernel, or why a request finds none");
  add_kernel_flags(*explain, flags.explain.kernel);
  explain->get_option("file")->description("A key, its first digits, or a kernel in text form (.kiln)");
  explain->add_option("--emit", flags.explain.emit, "What was to be emitted, as for `kiln compile`")
      ->capture_default_str();
  explain->add_option("--sizes", flags.explain.sizes,
                      "NAME=VALUE,… of all scalar parameters: which config a launch of these takes, and why");
  add_directory(explain, flags.explain.cache_directory);
  explain->callback([&] { action = [&] { return kiln::cli::explain(flags.explain); }; });

  CLI::App* reproduce = app.add_subcommand("reproduce", "Compile a stored request again, in the foreground");
  reproduce
      ->add_option("key", flags.reproduce.key,
                   "A key or its first digits; or a request's file beside a report of a crash")
      ->required();
  reproduce->add_option("--worker", flags.reproduce.worker, "Another kiln-worker than the installed");
  reproduce->add_option("-o,--output", flags.reproduce.output, "Where to write the code");
  add_directory(reproduce, flags.reproduce.cache_directory);
  reproduce->callback([&] { action = [&] { return kiln::cli::reproduce(flags.reproduce); }; });

  CLI::App* exporting = app.add_subcommand("export", "Write compiled kernels into one file, for other machines");
  exporting->add_option("file", flags.bundle.file, "The bundle to write")->required();
  exporting->add_option("--kernel", flags.bundle.kernels, "Only kernels of this name; may be repeated");
  exporting
      ->add_option("--key", flags.bundle.key_file,
                   "Authenticate it by this secret of 32 bytes or more, as kilnd's --remote-key does")
      ->type_name("FILE");
  add_directory(exporting, flags.bundle.cache_directory);
  exporting->callback([&] { action = [&] { return kiln::cli::export_bundle(flags.bundle); }; });

  CLI::App* importing = app.add_subcommand("import", "Take the compiled kernels of a bundle into the cache");
  importing->add_option("file", flags.bundle.file, "A bundle that `kiln export` wrote")->required();
  CLI::Option* key =
      importing->add_option("--key", flags.bundle.key_file, "Only take a bundle authenticated by this secret")
          ->type_name("FILE");
  importing->add_flag("--trust", flags.bundle.trust, "Without a key: execute what anybody wrote there")->excludes(key);
  add_directory(importing, flags.bundle.cache_directory);
  importing->callback([&] { action = [&] { return kiln::cli::import_bundle(flags.bundle); }; });
}

void add_bundle_command(CLI::App& app, kiln::cli::ModelBundleFlags& flags, Action& action) {
  CLI::App* bundle =
      app.add_subcommand("bundle", "Write a model with its code and weights into one file that `kiln run` takes");
  bundle->add_option("file", flags.file, "A model of PyTorch's (.pt2), or a graph as text (.kg)")->required();
  bundle->add_option("-o,--output", flags.output, "The bundle to write")->required();
  bundle->add_option("--target", flags.targets, "Code for cpu, cuda, amd, or a target in full; may be repeated")
      ->allow_extra_args(false)
      ->default_str("cpu");
  bundle->add_option("--weights", flags.weights, "inside, or beside: in the .pt2, which goes along")
      ->check(CLI::IsMember({"inside", "beside"}))
      ->capture_default_str();
  bundle->add_option("--key", flags.key_file, "Authenticate it by this secret of 32 bytes or more, as of `kiln export`")
      ->type_name("FILE");
  bundle->add_option("--deadline-ms", flags.deadline_ms, "Give up a plan after this long");
  bundle->callback([&] { action = [&] { return kiln::cli::bundle_model(flags); }; });
}

void add_tune_command(CLI::App& app, Action& action) {
  CLI::App* tune = app.add_subcommand("tune", "Find the best configs of kernels; words go to kiln-tune");
  tune->prefix_command();
  tune->set_help_flag();  // kiln-tune's own is asked for
  tune->callback([tune, &action] { action = [tune] { return kiln::cli::tune(tune->remaining()); }; });
}

// Behind `--`, so that its flags are its own.
void add_program(CLI::App& command, std::vector<std::string>& words) {
  command.add_option("program", words, "-- PROGRAM ARGUMENT…")->required();
}

void add_profile_command(CLI::App& app, Flags& flags, Action& action) {
  CLI::App* profile =
      app.add_subcommand("profile", "Run a program that uses Kiln, and say what its time there goes to");
  profile->add_option("--trace", flags.profile.trace, "Write a trace too, for ui.perfetto.dev")->type_name("FILE");
  profile->add_flag("--no-summary", flags.profile.no_summary, "Without the table");
  profile->add_flag("--roofline", flags.profile.roofline, "Which share of the memory's rate launches reach");
  profile->add_flag("--device", flags.profile.device_times, "Also when GPUs run launches");
  add_program(*profile, flags.program);
  profile->callback([&] { action = [&] { return kiln::cli::profile(flags.profile, flags.program); }; });
}

void add_exec_command(CLI::App& app, std::vector<std::string>& program, kiln::cli::ExecFlags& flags, Action& action) {
  CLI::App* exec = app.add_subcommand("exec", "Run instances of a program side by side, each on cores of its own");
  CLI::Option* latency = exec->add_flag("--latency", flags.latency, "Instances of four cores");
  exec->add_flag("--throughput", flags.throughput, "An instance for each memory node")->excludes(latency);
  exec->add_option("--instances", flags.instances, "So many")->check(CLI::Range(1, 4096));
  exec->add_option("--cores-per-instance", flags.cores_per_instance, "Cores of each")->check(CLI::Range(1, 4096));
  exec->add_option("--node-list", flags.nodes, "Only on these memory nodes: 0,1")
      ->delimiter(',')
      ->check(CLI::Range(0, 1023))
      ->allow_extra_args(false);
  exec->add_flag("--hardware-threads", flags.hardware_threads,
                 "Each core's hardware threads count, and not one of them");
  exec->add_option("--allocator", flags.allocator, "auto: the first of these that is installed")
      ->check(CLI::IsMember({"auto", "tcmalloc", "jemalloc", "none"}))
      ->capture_default_str();
  exec->add_option("--repeat", flags.repeat, "Runs of each instance, one after the other")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  add_program(*exec, program);
  exec->callback([&] {
    action = [&]() -> Result<void> {
      auto status = kiln::cli::exec(flags, program);
      if (!status) return status.error();
      if (*status != 0) std::exit(*status);
      return {};
    };
  });
}

void add_daemon_commands(CLI::App& app, Flags& flags, Action& action) {
  CLI::App* serve = app.add_subcommand("serve", "Run the daemon in the foreground; flags go to kilnd");
  serve->prefix_command();
  serve->callback([serve, &action] { action = [serve] { return kiln::cli::serve(serve->remaining()); }; });
  app.add_subcommand("ping", "Ask the running daemon who it is")->callback([&] { action = kiln::cli::ping; });
  app.add_subcommand("stop", "Let the running daemon finish its work and exit")->callback([&] {
    action = kiln::cli::stop;
  });
  CLI::App* stats = app.add_subcommand("stats", "Print the running daemon's counters");
  auto* formats = stats->add_option_group("format");
  formats->add_flag("--json", flags.stats.json, "As JSON");
  formats->add_flag("--prometheus", flags.stats.prometheus, "As Prometheus text");
  formats->add_flag("--poison", flags.stats.poison, "Only the kernels that are refused because they killed workers");
  formats->add_flag("--clear-poison", flags.stats.clear_poison, "Let those kernels be tried again");
  formats->require_option(0, 1);
  stats->callback([&] { action = [&] { return kiln::cli::stats(flags.stats); }; });
  CLI::App* trace =
      app.add_subcommand("trace", "Write the last requests' ways through the daemon, for ui.perfetto.dev");
  trace->add_option("-o,--output", flags.file, "The file; the standard output without it");
  trace->add_option("-n,--last", flags.last, "So many; all that it remembers without it");
  trace->callback([&] { action = [&] { return kiln::cli::trace(flags.file, flags.last); }; });

  CLI::App* top = app.add_subcommand("top", "Watch the daemon: hits, misses, queue and workers");
  top->add_option("--interval", flags.top.interval, "Seconds between two tables")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  top->add_option("--count", flags.top.count, "How many tables; 0: until interrupted")->check(CLI::Range(0, 1'000'000));
  top->callback([&] { action = [&] { return kiln::cli::top(flags.top); }; });

  CLI::App* cache = app.add_subcommand("cache", "The compiled kernels on disk");
  cache->require_subcommand(1);
  auto add_cache_command = [&](const char* name, const char* help, Result<void> (*function)(const std::string&)) {
    CLI::App* command = cache->add_subcommand(name, help);
    command->add_option("--dir", flags.cache_directory, "Cache directory; default as for the daemon");
    command->callback(
        [&flags, &action, function] { action = [&flags, function] { return function(flags.cache_directory); }; });
  };
  add_cache_command("ls", "List entries", kiln::cli::cache_list);
  add_cache_command("verify", "Check every entry's checksum", kiln::cli::cache_verify);
  add_cache_command("clear", "Remove all entries", kiln::cli::cache_clear);
}

// The last word on what others have written: commands say themselves which field is wrong.
Result<void> carry_out(const Action& action) {
  auto done = kiln::cli::reading("an answer or a file", action);
  return done ? *done : done.error();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Kiln: kernels over tiles, compiled by a service", "kiln");
  app.require_subcommand(1);
  Flags flags;
  Action action;
  add_kernel_commands(app, flags, action);
  kiln::cli::add_targets_command(app, flags.targets, action);
  add_entry_commands(app, flags, action);
  add_bundle_command(app, flags.model_bundle, action);
  kiln::cli::add_graph_commands(app, flags.graph, action);
  add_tune_command(app, action);
  kiln::cli::add_calibrate_command(app, flags.calibrate, action);
  add_profile_command(app, flags, action);
  add_exec_command(app, flags.program, flags.exec, action);
  add_daemon_commands(app, flags, action);
  if (auto printed = kiln::cmdline::print_reference(app, "kiln", argc, argv)) return *printed;
  CLI11_PARSE(app, argc, argv);
  kiln::wire::install_crash_report_of("kiln", KILN_VERSION);
  const Result<void> done = carry_out(action);
  if (done && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "kiln: %s\n",
               done ? "standard output cannot be written" : kiln::wire::printable_lines(done.error().message).c_str());
  if (!done && !done.error().trace_id.empty()) {
    std::fprintf(stderr, "kiln: trace id %s, for the daemon's log\n",
                 kiln::wire::printable(done.error().trace_id).c_str());
  }
  return 1;
}

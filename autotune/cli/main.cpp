// kiln-tune: batch runs of the tuner, and its records as files. `kiln tune …` is this program.
#include <sys/prctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <thread>

#include "flags.h"
#include "interrupt.h"
#include "kiln/autotune/predict.h"
#include "kiln/autotune/report.h"
#include "kiln/autotune/serve.h"
#include "kiln/autotune/shipped.h"
#include "kiln/cmdline/reference.h"
#include "kiln/confine/confine.h"
#include "kiln/wire/crash_report.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/printable.h"
#include "progress.h"
#include "report/text_files.h"

namespace kiln::autotune::cli {
namespace {

constexpr int kFailed = 1, kInterrupted = 130;
constexpr int kServiceFd = 3;

int fail(const Error& problem) {
  std::fprintf(stderr, "kiln tune: %s\n", wire::printable_lines(problem.message).c_str());
  return kFailed;
}

Result<std::unique_ptr<Records>> open_records(const Flags& flags) {
  auto database = Records::open(flags.database.empty() ? Records::default_path() : flags.database);
  if (!database || flags.golden.empty()) return database;
  auto golden = Records::open_golden(flags.golden);
  if (!golden) return golden;
  return Records::with_golden(std::move(*golden), std::move(*database));
}

void print_notes(const Records& records) {
  for (const std::string& note : records.notes()) {
    std::fprintf(stderr, "kiln tune: note: %s\n", wire::printable(note).c_str());
  }
}

Result<std::vector<JobSpec>> read_all_jobs(const std::vector<std::string>& files) {
  std::vector<JobSpec> out;
  for (const std::string& file : files) {
    const bool standard_input = file == "-";
    const std::string text = standard_input ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : std::string();
    auto jobs = standard_input ? parse_jobs(text, "<stdin>") : read_jobs(file);
    if (!jobs) return jobs;
    std::move(jobs->begin(), jobs->end(), std::back_inserter(out));
  }
  if (out.empty()) return invalid_argument("there are no jobs");
  return out;
}

// Found out before hours of measurements.
Result<void> check_outputs(const Flags& flags) {
  for (const auto& [flag, path] : {std::pair("--report ", &flags.report), std::pair("--ship ", &flags.ship)}) {
    if (path->empty() || ::access(directory_of(*path).c_str(), W_OK | X_OK) == 0) continue;
    return invalid_argument(flag + *path + ": cannot be written there");
  }
  return {};
}

StartRunner runners(const Flags& flags, const Interrupt& interrupt) {
  const std::string database = flags.database.empty() ? Records::default_path() : flags.database;
  RunnerOptions options;
  options.executable = flags.runner;
  options.threads = flags.threads;
  options.reproducer_dir = directory_of(database) + "/reproducers";
  options.stop = interrupt.token();
  return [options](const std::string& kind) mutable {
    options.kind = kind;
    return start_runner(options);
  };
}

Result<Shipped> read_shipped(const Flags& flags) {
  return Shipped::read(flags.shipped.empty() ? Shipped::default_directory() : flags.shipped);
}

// Whatever a batch chose, for a directory of --shipped.
Result<void> write_choices(const Flags& flags, const std::vector<JobSpec>& jobs, const BatchResult& result) {
  if (flags.ship.empty()) return {};
  return write_text_file(flags.ship, shipped_lines(jobs, result, !flags.predict.empty()));
}

int predict_jobs(const Flags& flags) {
  auto options = batch_options(flags);
  if (!options) return fail(options.error());
  auto device = known_device(flags.predict);
  if (!device) return fail(invalid_argument("--predict: " + device.error().message));
  auto jobs = read_all_jobs(flags.jobs);
  if (!jobs) return fail(jobs.error());
  if (auto checked = check_outputs(flags); !checked) return fail(checked.error());
  client::ConnectOptions connect;
  connect.client_name = "kiln-tune";
  auto compiler = daemon_compiler(connect, compiles_at_once());
  if (!compiler) return fail(compiler.error());
  const Interrupt interrupt;
  BatchProgress progress;
  progress.changed = [](const BatchResult& so_far, size_t index) {
    const JobOutcome& job = so_far.jobs[index];
    if (job.result) {
      std::printf("%s: %s, predicted %.1f us (the default %.1f)\n", wire::printable(job.name).c_str(),
                  wire::printable(to_string(job.result->best)).c_str(), job.result->best_us, job.result->default_us);
    } else {
      (void)fail(invalid_argument(job.place + ": " + job.name + ": " + job.error));
    }
  };
  const BatchResult result = predict_batch(*jobs, **compiler, *device, options->tune, progress, interrupt.token());
  if (auto written = write_choices(flags, *jobs, result); !written) return fail(written.error());
  if (result.stopped) return kInterrupted;
  return result.count(JobState::kFailed) > 0 ? kFailed : 0;
}

int tune_jobs(const Flags& flags) {
  auto options = batch_options(flags);
  if (!options) return fail(options.error());
  auto shipped = read_shipped(flags);
  if (!shipped) return fail(shipped.error());
  options->tune.shipped = &*shipped;
  auto jobs = read_all_jobs(flags.jobs);
  if (!jobs) return fail(jobs.error());
  if (auto checked = check_outputs(flags); !checked) return fail(checked.error());
  auto records = open_records(flags);
  if (!records) return fail(records.error());
  client::ConnectOptions connect;
  connect.client_name = "kiln-tune";
  auto compiler = daemon_compiler(connect, compiles_at_once());
  if (!compiler) return fail(compiler.error());
  const Interrupt interrupt;

  ProgressLines lines(stderr, ::isatty(STDERR_FILENO) != 0, flags.verbose, options->budget);
  BatchProgress progress;
  progress.changed = [&](const BatchResult& so_far, size_t job) { lines.changed(so_far, job); };
  progress.measured = [&](const BatchResult& so_far, size_t job, const Record& record) {
    lines.measured(so_far, job, record);
  };
  auto run = [&]() -> Result<BatchResult> {
    if (flags.fleet.empty()) {
      return run_batch(*jobs, **compiler, runners(flags, interrupt), **records, *options, progress, interrupt.token());
    }
    auto fleet = fleet_options(flags, (*compiler)->builder_id());
    if (!fleet) return fleet.error();
    fleet->notice = [&](const std::string& line) { lines.say("kiln tune: " + line); };
    return run_fleet_batch(*jobs, **records, *options, *fleet, progress, interrupt.token());
  };
  auto done = run();
  lines.finish();
  if (!done) return fail(done.error());
  const BatchResult& result = *done;
  print_notes(**records);

  const std::string text =
      flags.json ? wire::dump_ascii(summary_json(result), 2) + "\n" : wire::printable_lines(text_report(result));
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0) {
    return fail(invalid_argument("standard output cannot be written"));
  }
  if (!flags.report.empty()) {
    if (auto written = write_text_file(flags.report, html_report(result)); !written) return fail(written.error());
  }
  if (auto written = write_choices(flags, *jobs, result); !written) return fail(written.error());
  if (result.stopped) return kInterrupted;
  return result.count(JobState::kFailed) > 0 ? kFailed : 0;
}

int export_records(const Flags& flags, const std::string& file) {
  auto records = open_records(flags);
  if (!records) return fail(records.error());
  auto count = (*records)->export_lines(file);
  if (!count) return fail(count.error());
  print_notes(**records);
  std::fprintf(stderr, "%zu records written to %s\n", *count, wire::printable(file).c_str());
  return 0;
}

int import_records(const Flags& flags, const std::vector<std::string>& files) {
  auto records = open_records(flags);
  if (!records) return fail(records.error());
  for (const std::string& file : files) {
    auto count = (*records)->import_lines(file);
    if (!count) return fail(count.error());
    std::fprintf(stderr, "%zu records taken from %s\n", *count, wire::printable(file).c_str());
  }
  print_notes(**records);
  return 0;
}

// In the directory of the daemon, where it has one, beside the daemon's own.
void report_crashes(const std::string& runtime_dir) {
  if (runtime_dir.empty()) return wire::install_crash_report_of("kiln-tune", KILN_VERSION);
  wire::install_crash_report(runtime_dir + "/kiln-tune.crash",
                             "kiln-tune " KILN_VERSION ", build-id " + wire::read_build_id(wire::self_path()) + "\n");
}

// The tuner behind a daemon: its channel is descriptor 3.
int serve_daemon(const Flags& flags, const std::string& runtime_dir) {
  report_crashes(runtime_dir);
  auto options = batch_options(flags);
  if (!options) return fail(options.error());
  ServeOptions serving;
  serving.connect.client_name = "kiln-tune";
  serving.connect.runtime_dir = runtime_dir;
  serving.connect.autostart = serving.connect.allow_pipe = false;  // it ends with its daemon
  serving.connect.exact_build = false;
  serving.database = flags.database;
  serving.golden = flags.golden;
  serving.runner.executable = flags.runner;
  serving.runner.threads = flags.threads;
  serving.tune = options->tune;
  const auto shipped = read_shipped(flags);
  if (shipped)
    serving.tune.shipped = &*shipped;
  else
    (void)fail(shipped.error());  // the log has it; requests do without
  // A candidate that hangs must not keep this process when the daemon was killed.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  serve(wire::UniqueFd(kServiceFd), serving);
  return 0;
}

// Tunes what others ask for. Of a daemon's own: it ends with that one.
int work(const Flags& flags, const std::string& runtime_dir) {
  report_crashes(runtime_dir);
  client::ConnectOptions connect;
  connect.client_name = "kiln-tune";
  if (!runtime_dir.empty()) {
    connect.runtime_dir = runtime_dir;
    connect.autostart = connect.allow_pipe = false;
    connect.exact_build = false;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  }
  auto records = open_records(flags);
  if (!records) return fail(records.error());
  auto compiler = daemon_compiler(connect, compiles_at_once());
  if (!compiler) return fail(compiler.error());
  auto fleet = fleet_options(flags, (*compiler)->builder_id());
  if (!fleet) return fail(fleet.error());
  fleet->notice = [](const std::string& line) {
    std::fprintf(stderr, "kiln tune: %s\n", wire::printable(line).c_str());
  };
  const Interrupt interrupt;
  auto done = work_for_fleet(**compiler, runners(flags, interrupt), **records, *fleet, interrupt.token());
  return done ? 0 : fail(done.error());
}

void add_fleet_flags(CLI::App& app, Flags& flags) {
  auto* fleet = app.add_option("--fleet", flags.fleet,
                               "Let the workers there tune: redis://[USER@]HOST[:PORT][/DB], redis+unix:///PATH")
                    ->type_name("URL");
  auto* worker = app.add_option("--worker", flags.worker, "Tune what others ask for there by --fleet, until stopped")
                     ->type_name("URL")
                     ->excludes(fleet);
  app.add_option("--lease", flags.lease, "A worker that was not heard of for so long loses its job to another")
      ->needs(worker)
      ->capture_default_str();
  app.add_option("--remote-key", flags.access.key_file,
                 "Of --fleet and --worker: only take what is authenticated by this secret of 32 bytes or more")
      ->type_name("FILE");
  app.add_flag("--remote-trust", flags.access.trust, "Without a key: execute what anybody wrote there");
  app.add_option("--remote-password-file", flags.access.password_file,
                 "Redis' password; " + std::string(redis::kPasswordVariable) + " is another way")
      ->type_name("FILE");
  // These are the workers' affair.
  for (const char* name : {"--runner", "--threads", "--golden", "--frozen", "--shipped", "--ship", "--predict"})
    fleet->excludes(app.get_option(name));
}

void add_flags(CLI::App& app, Flags& flags) {
  app.add_option("jobs", flags.jobs, "Jobs files (JSON lines); - is standard input");
  app.add_option("--targets", flags.targets, "cpu, cuda, amd, or resolved targets: of jobs that name none")
      ->capture_default_str();
  app.add_option("--budget", flags.budget, "Time for all jobs: 90s, 30m, 1h30m");
  app.add_flag("--resume", flags.resume, "Take jobs whose search finished from the records, and go on with the others");
  app.add_option("--report", flags.report, "An HTML file to write");
  app.add_flag("--json", flags.json, "Print one JSON object in place of tables");
  app.add_option("--search", flags.search, "auto, exhaustive, random, halving or local")->capture_default_str();
  app.add_option("--seed", flags.seed, "Of the search")->capture_default_str();
  app.add_option("--share", flags.share, "Of a space that may be measured")->capture_default_str();
  app.add_flag("--frozen", flags.frozen, "Never measure: what the records say, else the default");
  app.add_option("--golden", flags.golden, "Records (JSON lines) that are only read and win over the database");
  app.add_option("--shipped", flags.shipped, "Choices that take the default's place; default share/kiln/tuned")
      ->type_name("DIR");
  app.add_option("--ship", flags.ship, "Write what was chosen as a file for such a directory")->type_name("FILE");
  app.add_option("--predict", flags.predict,
                 "Measure nothing: what the cost model chooses for a100, l40s, b200, gb200, "
                 "rtx5090, rtxpro6000 or mi350x")
      ->type_name("DEVICE");
  app.add_option("--db", flags.database, "The database of the records");
  app.add_option("--runner", flags.runner, "The program that measures; default kiln-runner beside this one");
  app.add_option("--threads", flags.threads, "CPU threads of a launch; 0: all")->check(CLI::Range(0, 4096));
  app.add_option("--cache", flags.cache, "cold or hot: whether inputs leave the caches between launches")
      ->capture_default_str();
  app.add_option("--bucket", flags.bucket, "exact, powers or facts: which shapes share their tuning")
      ->capture_default_str();
  app.add_flag("--verbose", flags.verbose, "A line for each measurement");
  add_fleet_flags(app, flags);
}

int main_of(int argc, char** argv) {
  confine::hide_from_others();  // it holds the secrets of a fleet, and starts runners, which read what their user can
  CLI::App app("Finds the best configs of kernels on this machine and keeps them", "kiln tune");
  Flags flags;
  std::string export_file;
  std::vector<std::string> import_files;
  add_flags(app, flags);
  CLI::App* exporting = app.add_subcommand("export", "Write all records as JSON lines");
  exporting->add_option("file", export_file)->required();
  CLI::App* importing = app.add_subcommand("import", "Merge records from JSON lines");
  importing->add_option("files", import_files)->required();
  for (CLI::App* command : {exporting, importing}) {
    command->add_option("--db", flags.database, "The database of the records");
  }
  bool serving = false;
  std::string runtime_dir;
  app.add_flag("--serve", serving, "Answer a daemon's requests on descriptor 3");
  app.add_option("--runtime-dir", runtime_dir, "Of that daemon");
  if (auto printed = cmdline::print_reference(app, "kiln-tune", argc, argv)) return *printed;
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& refused) {
    return app.exit(refused) == 0 ? 0 : kFailed;
  }
  if (serving) return serve_daemon(flags, runtime_dir);
  if (exporting->parsed()) return export_records(flags, export_file);
  if (importing->parsed()) return import_records(flags, import_files);
  if (!flags.worker.empty()) return work(flags, runtime_dir);
  report_crashes(runtime_dir);
  if (flags.jobs.empty()) return fail(invalid_argument("no jobs file is named; see --help"));
  if (!flags.predict.empty()) return predict_jobs(flags);
  return tune_jobs(flags);
}

}  // namespace
}  // namespace kiln::autotune::cli

int main(int argc, char** argv) { return kiln::autotune::cli::main_of(argc, argv); }

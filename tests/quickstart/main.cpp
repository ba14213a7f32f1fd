// The quickstart: starts a daemon of its own, compiles every kernel of the library cold, asks for it again from a
// second process, runs it on the CPU or on a GPU, checks the result, and prints the table.
#include <omp.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>

#include "cases.h"
#include "ceilings.h"
#include "kiln/client/connection.h"
#include "machine.h"
#include "warm.h"

namespace kiln::quickstart {
namespace {

struct Row {
  const Case* test;
  double cold_ms = 0, warm_us = 0, run_ms = 0;
  double ceiling = 0;                     // GB/s or GFLOP/s
  std::map<std::string, int64_t> phases;  // in microseconds
  Check check;
  std::string refusal;  // why it was not compiled or run; else empty
};

double milliseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

Limit limit_of(const Case& test) {
  if (test.flops > 0) return Limit::kFma;
  return test.reads_only ? Limit::kRead : Limit::kCopy;
}

// What the launches are compared with: GB/s or GFLOP/s; 0 where nothing is.
using Ceiling = std::function<double(Limit)>;

// Launches and readings of the ceiling by turns; medians of both.
Result<void> time_launches(const Machine& machine, const Case::Prepared& prepared, const Ceiling& ceiling, bool small,
                           Row& row) {
  std::vector<double> times, limits;
  const auto begin = std::chrono::steady_clock::now();
  const size_t most = small ? 3 : machine.device ? 50 : 9;
  while (times.size() < most && (times.size() < 3 || milliseconds_since(begin) < 600)) {
    auto time = time_ms(machine, prepared.run);
    if (!time) return time.error();
    times.push_back(*time);
    limits.push_back(ceiling(limit_of(*row.test)));
  }
  row.run_ms = median(times);
  row.ceiling = median(limits);
  return {};
}

Result<Row> measure(const Machine& machine, const Case& test, const WarmRequests& warm, const Ceiling& ceiling,
                    bool small) {
  Row row;
  row.test = &test;
  // The inputs are made inside prepare; the compile is timed by the daemon's answer alone.
  const auto handle_start = std::chrono::steady_clock::now();
  auto handle = machine.client.get(
      *test.ir, {.target = machine.target, .constexprs = config_on(machine.target, *test.ir, test.constexprs)});
  if (!handle) return handle.error();
  row.cold_ms = milliseconds_since(handle_start);
  auto prepared = test.prepare(machine);
  if (!prepared) return prepared.error();
  row.phases = prepared->metadata.phases_us;
  if (auto first = time_ms(machine, prepared->run); !first) return first.error();
  if (auto timed = time_launches(machine, *prepared, ceiling, small, row); !timed) return timed.error();
  auto check = prepared->check();
  if (!check) return check.error();
  row.check = *check;
  auto request_us = warm.median_us(test);
  if (!request_us) return request_us.error();
  row.warm_us = *request_us;
  return row;
}

double phase_ms(const Row& row, std::initializer_list<const char*> names) {
  double sum = 0;
  for (const char* name : names) {
    const auto found = row.phases.find(name);
    if (found != row.phases.end()) sum += static_cast<double>(found->second) / 1000;
  }
  return sum;
}

void print_header(const Machine& machine, double start_ms, const std::string& target) {
  std::printf("Daemon started in %.0f ms; target %s\n", start_ms, target.substr(0, 40).c_str());
  if (machine.device) {
    std::printf("%s\n\n", machine.device->info().name.c_str());
  } else {
    std::printf("This machine, %d threads\n\n", omp_get_max_threads());
  }
  std::printf("%-26s %-26s %8s %23s %8s %9s %14s %6s %10s\n", "kernel", "shape", "cold ms", "(IR + LLVM + code, ms)",
              "warm us", "run ms", "speed", "share", "max error");
  std::fflush(stdout);
}

void print_row(const Row& row) {
  const Case& test = *row.test;
  if (!row.refusal.empty()) {
    std::printf("%-26s %s  REFUSED: %s\n", test.kernel.c_str(), test.shape.c_str(),
                row.refusal.substr(0, row.refusal.find('\n')).c_str());
    return;
  }
  const bool product = test.flops > 0;
  const double rate = (product ? test.flops : test.bytes) / row.run_ms / 1e6;
  char speed[32], phases[32], share[16] = "-";
  std::snprintf(speed, sizeof speed, "%.1f %s", rate, product ? "GFLOP/s" : "GB/s");
  std::snprintf(phases, sizeof phases, "(%.1f + %.1f + %.1f)", phase_ms(row, {"decode", "instantiate", "lower"}),
                phase_ms(row, {"optimise"}), phase_ms(row, {"codegen", "link", "assemble"}));
  if (row.ceiling > 0) std::snprintf(share, sizeof share, "%.0f %%", 100 * rate / row.ceiling);
  // "×" takes two bytes and one column.
  const int extra = static_cast<int>(std::count(test.shape.begin(), test.shape.end(), '\xc3'));
  std::printf("%-26s %-*s %8.1f %23s %8.1f %9.3f %14s %6s %10.1e%s\n", test.kernel.c_str(), 26 + extra,
              test.shape.c_str(), row.cold_ms, phases, row.warm_us, row.run_ms, speed, share, row.check.error,
              row.check.passed ? "" : "  WRONG");
}

void print_ceilings(const Machine& machine, const std::vector<Row>& rows) {
  auto ceiling = [&](Limit limit) {
    std::vector<double> all;
    for (const Row& row : rows) {
      if (limit_of(*row.test) == limit && row.refusal.empty()) all.push_back(row.ceiling);
    }
    return all.empty() ? 0 : median(all);
  };
  std::printf("\nCeilings, medians of this run: copy %.1f GB/s", ceiling(Limit::kCopy));
  if (!machine.device) {
    std::printf(", read %.1f GB/s, f32 FMA %.0f GFLOP/s", ceiling(Limit::kRead), ceiling(Limit::kFma));
  }
  std::printf(
      ".\nShares are of the copy or read rate of arrays far larger than the caches%s; above 100 %% stands what "
      "stays in the last-level cache.\n",
      machine.device ? "" : ", products' of the FMA rate");
}

Result<Ceiling> cpu_ceiling(bool small) {
  return Ceiling([ceilings = std::make_shared<Ceilings>(small)](Limit limit) { return ceilings->measure(limit); });
}

// Of what moves: a copy by the device itself.
Result<Ceiling> device_ceiling(const Machine& machine, bool small) {
  auto made = DeviceCopy::create(machine, small);
  if (!made) return made.error();
  return Ceiling([&machine, copy = std::make_shared<DeviceCopy>(std::move(*made))](Limit limit) {
    if (limit == Limit::kFma) return 0.0;
    auto rate = copy->measure(machine);
    return rate ? *rate : 0.0;
  });
}

// A terminal shows what is being measured; its row takes that place.
void show_progress(size_t index, const std::vector<Case>& cases) {
  if (!isatty(STDERR_FILENO)) return;
  std::fprintf(stderr, "\r\033[K");
  if (index < cases.size()) {
    std::fprintf(stderr, "%zu/%zu %s %s", index + 1, cases.size(), cases[index].kernel.c_str(),
                 cases[index].shape.c_str());
  }
}

Row refused(const Case& test, const Error& why) {
  Row row;
  row.test = &test;
  row.refusal = why.message;
  return row;
}

Result<std::vector<Row>> measure_all(const Machine& machine, const WarmRequests& warm, const std::vector<Case>& cases,
                                     bool small) {
  auto ceiling = machine.device ? device_ceiling(machine, small) : cpu_ceiling(small);
  if (!ceiling) return ceiling.error();
  std::vector<Row> rows;
  for (const Case& test : cases) {
    show_progress(rows.size(), cases);
    auto row = measure(machine, test, warm, *ceiling, small);
    if (!row) row = refused(test, row.error());
    show_progress(cases.size(), cases);
    print_row(*row);
    std::fflush(stdout);
    rows.push_back(std::move(*row));
  }
  return rows;
}

// Whether all results are right.
Result<bool> run(const std::string& runtime_dir, bool small, bool gpu) {
  std::optional<Device> device;
  if (gpu) {
    auto opened = Device::open("cuda");
    if (!opened) return opened.error();
    device = std::move(*opened);
  }
  client::ConnectOptions connect;
  connect.runtime_dir = runtime_dir;
  connect.client_name = "kiln-quickstart";
  // A cache of its own: the compiles below are cold.
  connect.daemon_args = {"--cache-dir", runtime_dir + "/cache", "--idle-timeout", "60"};
  const auto start = std::chrono::steady_clock::now();
  auto connection = client::Connection::open(connect);
  if (!connection) return connection.error();
  const double start_ms = milliseconds_since(start);
  // Background compiles would run beside the measurements.
  Client client({.connect = connect, .specialise_in_background = false});
  const Machine machine{client, device ? device->info().target : "cpu", device};
  const std::string target = device ? machine.target : (*connection)->server().native_target;
  print_header(machine, start_ms, target);
  const std::vector<Case> cases = quickstart_cases(small ? Size::kSmall : Size::kReal);
  auto rows = measure_all(machine, {**connection, runtime_dir, target}, cases, small);
  if (!rows) return rows.error();
  print_ceilings(machine, *rows);
  (void)(*connection)->shutdown();
  const bool passed = std::all_of(rows->begin(), rows->end(), [](const Row& row) { return row.check.passed; });
  std::printf("%s\n", passed ? "All results agree with their float64 references."
                             : "Some results are WRONG, or kernels were REFUSED or not served.");
  return passed;
}

}  // namespace
}  // namespace kiln::quickstart

int main(int argc, char** argv) {
  bool small = false, gpu = false;
  const char *child_of = nullptr, *child_key = nullptr;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--small") == 0) {
      small = true;
    } else if (std::strcmp(argv[i], "--gpu") == 0) {
      gpu = true;
    } else if (std::strcmp(argv[i], "--warm-child") == 0 && i + 2 < argc) {
      child_of = argv[++i];
      child_key = argv[++i];
    } else {
      std::fprintf(stderr, "usage: kiln-quickstart [--small] [--gpu]\n");
      return 2;
    }
  }
  if (child_of) return kiln::quickstart::warm_child(child_of, child_key);
  char pattern[] = "/tmp/kiln-quickstart-XXXXXX";
  if (!mkdtemp(pattern)) {
    std::perror("kiln-quickstart: mkdtemp");
    return 1;
  }
  const auto passed = kiln::quickstart::run(pattern, small, gpu);
  if (!passed) std::fprintf(stderr, "kiln-quickstart: %s\n", passed.error().message.c_str());
  std::error_code ignored;
  std::filesystem::remove_all(pattern, ignored);
  return passed && *passed ? 0 : 1;
}

// Compile time of kernels of n ops, n doubled from line to line: each family of tests/growth, phase by phase, and how
// steep the last doubling was (1: twice the ops take twice the time; 2: four times). Every kernel is compiled in a
// process of its own with the stack of a worker, so that a crash is a line of the table; a family ends where a kernel
// takes longer than the limit.
#include "grow.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>

#include "bench_tools.h"
#include "growth/families.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/instantiate.h"
#include "kiln/dsl/interpreter.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"

namespace kiln::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Options {
  double limit = 10;
  int from = 500, most = 128000;
  bool table = false;  // of seconds, for documents
  int printed = 0;     // not measured: kernels of so many ops as text
  std::string target = "cpu";
  std::vector<const growth::Family*> families;
};

// Seconds by phase, in the order of the work.
struct Times {
  std::vector<std::pair<std::string, double>> phases;
  std::string failure;  // of the phase behind the last one
};

class Stopwatch {
 public:
  explicit Stopwatch(FILE* out) : out_(out) {}
  void lap(const char* phase) { put(phase, std::chrono::duration<double>(Clock::now() - since_).count()); }
  void put(const std::string& phase, double seconds) {
    std::fprintf(out_, "%s %.6f\n", phase.c_str(), seconds);
    std::fflush(out_);
    since_ = Clock::now();
  }
  [[noreturn]] void fail(const std::string& what) {
    std::fprintf(out_, "! %.200s\n", what.substr(0, what.find('\n')).c_str());
    std::fflush(out_);
    _exit(1);
  }

 private:
  FILE* out_;
  Clock::time_point since_ = Clock::now();
};

void interpret_once(const dsl::Kernel& kernel, const growth::Family& family, int count, Stopwatch& watch) {
  auto concrete = dsl::instantiate(kernel, {}, {});
  if (!concrete) watch.fail(concrete.error().message);
  const int64_t extent = growth::elements(family, count);
  std::vector<uint32_t> x(static_cast<size_t>(extent), 0x3f000000), y(x.size());
  const dsl::Argument arguments[] = {{x.data(), extent, 0}, {y.data(), extent, 0}, {nullptr, 0, 1}};
  watch.put("", 0);
  if (auto done = dsl::interpret(*concrete, arguments, {1, 1, 1}); !done) watch.fail(done.error().message);
  watch.lap("interpret");
}

// Every stage in turn; what each takes is a line of `out`.
[[noreturn]] void measure(const growth::Family& family, int count, const std::string& target, FILE* out) {
  Stopwatch watch(out);
  const auto kernel = family.kernel(count);
  if (!kernel) watch.fail(kernel.error().message);
  watch.lap("trace");
  if (auto valid = dsl::verify(*kernel); !valid) watch.fail(valid.error().message);
  watch.lap("verify");
  const dsl::Kernel canonical = dsl::canonicalise(*kernel);
  watch.lap("canonicalise");
  const std::string text = dsl::print(canonical);
  watch.lap("print");
  if (auto parsed = dsl::parse(text, "grown.kiln"); !parsed) watch.fail(parsed.error().message);
  watch.lap("parse");
  interpret_once(canonical, family, count, watch);
  const auto request = dsl::encode_request({canonical, target, {}, {}});
  if (!request) watch.fail(request.error().message);
  watch.lap("encode");
  // Phases are told as they begin: what was not finished is known.
  std::string current;
  Clock::time_point since;
  const auto next = [&](std::string_view phase) {
    if (!current.empty()) watch.put(current, std::chrono::duration<double>(Clock::now() - since).count());
    current = phase;
    since = Clock::now();
  };
  next("decode");
  auto artifact = codegen::compile(request->canonical, request->debug, next);
  if (!artifact) watch.fail(artifact.error().message);
  next("");
  _exit(0);
}

Times run(const growth::Family& family, int count, const Options& options) {
  std::fflush(stdout);  // what waits there would be the child's as well
  int ends[2];
  if (pipe(ends) != 0) fail("no pipe");
  const pid_t child = fork();
  if (child < 0) fail("no process");
  if (child == 0) {
    close(ends[0]);
    const auto seconds = static_cast<rlim_t>(std::ceil(options.limit));
    const rlimit limit = {seconds, seconds};
    setrlimit(RLIMIT_CPU, &limit);
    measure(family, count, options.target, fdopen(ends[1], "w"));
  }
  close(ends[1]);
  Times times;
  FILE* in = fdopen(ends[0], "r");
  char line[256];
  while (std::fgets(line, sizeof line, in)) {
    if (line[0] == '!') {
      times.failure = std::string(line + 2, std::strcspn(line + 2, "\n"));
      continue;
    }
    std::istringstream fields(line);
    std::string phase;
    double seconds = 0;
    if (line[0] != ' ' && fields >> phase >> seconds) times.phases.emplace_back(phase, seconds);
  }
  std::fclose(in);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    const bool late = WTERMSIG(status) == SIGKILL || WTERMSIG(status) == SIGXCPU;
    times.failure = late ? "past the limit" : strsignal(WTERMSIG(status));
  }
  return times;
}

double total_of(const Times& times) {
  double sum = 0;
  for (const auto& [phase, seconds] : times.phases) sum += seconds;
  return sum;
}

// How often the ops doubled, and the time with them.
std::string exponent(double before, double after, double ops) {
  if (before < 1e-3 || after < 5e-3) return "-";
  char text[16];
  std::snprintf(text, sizeof text, "%.1f", std::log2(after / before) / std::log2(ops));
  return text;
}

void print_times(const growth::Family& family, int count, const Times& times) {
  std::printf("%-14s %7d %8.2f s ", family.name, count, total_of(times));
  for (const auto& [phase, seconds] : times.phases) {
    if (seconds >= 0.01 * total_of(times)) std::printf(" %s %.0f", phase.c_str(), seconds * 1e3);
  }
  std::printf("%s%s%s\n", times.failure.empty() ? "" : "  [", times.failure.c_str(), times.failure.empty() ? "" : "]");
  std::fflush(stdout);
}

void print_growth(const growth::Family& family, const Times& before, const Times& after, double ops) {
  std::printf("%-14s growth %10s  ", family.name, exponent(total_of(before), total_of(after), ops).c_str());
  const std::map<std::string, double> old(before.phases.begin(), before.phases.end());
  for (const auto& [phase, seconds] : after.phases) {
    const auto found = old.find(phase);
    const std::string text = found == old.end() ? "-" : exponent(found->second, seconds, ops);
    if (text != "-") std::printf(" %s %s", phase.c_str(), text.c_str());
  }
  std::printf("\n");
}

void grow_family(const growth::Family& family, const Options& options) {
  const int from = family.most ? 4 : options.from, most = family.most ? family.most - 1 : options.most;
  std::vector<std::pair<int, Times>> all;
  for (int count = from; count <= most; count = count < most ? std::min(2 * count, most) : most + 1) {
    all.emplace_back(count, run(family, count, options));
    print_times(family, count, all.back().second);
    if (!all.back().second.failure.empty()) break;
  }
  while (!all.empty() && !all.back().second.failure.empty()) all.pop_back();
  if (all.size() < 2) return;
  const auto& [few, before] = all[all.size() - 2];
  const auto& [many, after] = all.back();
  print_growth(family, before, after, static_cast<double>(many) / few);
}

// What a worker does of it: all behind the request.
double compile_seconds(const Times& times) {
  const auto decode =
      std::find_if(times.phases.begin(), times.phases.end(), [](const auto& phase) { return phase.first == "decode"; });
  double sum = 0;
  for (auto phase = decode; phase != times.phases.end(); ++phase) sum += phase->second;
  return sum;
}

// Seconds of 10^2, 10^3, … ops for each target; `-` where it takes longer than the limit. Nothing where the language
// allows no such kernel, and where as long an op as the last kernel took would be past the limit.
void print_table(Options options) {
  constexpr int kCounts[] = {100, 1000, 10000, 100000};
  const std::pair<const char*, std::string> targets[] = {
      {"CPU", codegen::native_target()}, {"sm_90a", "cuda:sm_90a"}, {"gfx942", "amd:gfx942"}};
  std::printf("| kind |");
  for (const auto& [name, target] : targets) std::printf(" %s 10² | 10³ | 10⁴ | 10⁵ |", name);
  std::printf("\n|---|");
  for (size_t i = 0; i < std::size(targets) * std::size(kCounts); ++i) std::printf("---|");
  for (const growth::Family* family : options.families) {
    std::printf("\n| %s |", family->name);
    for (const auto& [name, target] : targets) {
      options.target = target;
      bool ends = false;
      for (int count : kCounts) {
        const int ops = family->most ? family->most - 1 : count;
        const Times times = ends ? Times{} : run(*family, ops, options);
        const bool is_late = times.failure == "past the limit";
        ends = ends || family->most || !times.failure.empty();
        const double seconds = compile_seconds(times);
        if (times.phases.empty() || (!times.failure.empty() && !is_late)) {
          std::printf(" |");
        } else if (is_late) {
          std::printf(" - |");
        } else {
          std::printf(" %.2f |", seconds);
        }
        ends = ends || 10 * seconds > options.limit;
      }
    }
    std::fflush(stdout);
  }
  std::printf("\n");
}

void print_kernel(const growth::Family& family, int count) {
  const auto kernel = family.kernel(count);
  if (!kernel) fail(kernel.error().message);
  std::fputs(dsl::print(dsl::canonicalise(*kernel)).c_str(), stdout);
}

Options read(const std::vector<std::string>& arguments) {
  Options options;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool has_value = i + 1 < arguments.size();
    if (word == "--limit" && has_value) {
      options.limit = std::stod(arguments[++i]);
    } else if (word == "--from" && has_value) {
      options.from = std::stoi(arguments[++i]);
    } else if (word == "--most" && has_value) {
      options.most = std::stoi(arguments[++i]);
    } else if (word == "--table") {
      options.table = true;
    } else if (word == "--print" && has_value) {
      options.printed = std::stoi(arguments[++i]);
    } else if (word == "--target" && has_value) {
      options.target = arguments[++i];
    } else if (const growth::Family* family = growth::find_family(word.c_str())) {
      options.families.push_back(family);
    } else {
      fail("--grow: there is no family or option `" + word + "`");
    }
  }
  if (options.families.empty()) {
    for (const growth::Family& family : growth::families()) options.families.push_back(&family);
  }
  if (options.target == "cpu") options.target = codegen::native_target();
  return options;
}

}  // namespace

int grow(const std::vector<std::string>& arguments) {
  const Options options = read(arguments);
  if (options.table) {
    print_table(options);
    return 0;
  }
  if (options.printed > 0) {
    for (const growth::Family* family : options.families) print_kernel(*family, options.printed);
    return 0;
  }
  std::printf("milliseconds by phase, those of a hundredth of the time or more\n");
  for (const growth::Family* family : options.families) grow_family(*family, options);
  return 0;
}

}  // namespace kiln::bench

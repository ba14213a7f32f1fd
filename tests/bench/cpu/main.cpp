// The kernel library on CPUs beside oneDNN, OpenBLAS, plain C++ and PyTorch (eager and Inductor, ../peers.py), and
// beside what the machine can do: launches of all by turns, medians; one thread by the time that it ran, and all
// threads. Then elementary functions beside SLEEF, libmvec and oneDNN ("math exp", …; ../math.h).
//   bench-cpu [--threads N]… [--python EXE] [--html FILE] [--from FILE]… [substring of kernel and shape…]
// The shapes of the quickstart's models, and others that stay in the second-level cache, there "hot" (again and again)
// and "cold" (other data in that cache before each). Prints lines area,case,dtype,who,metric,value, a table of ratios,
// and with --html a page of both. --from: measures nothing, but takes such lines from files, those of bench-gemm
// too.
#include <omp.h>
#include <stdlib.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <thread>

#include "../large_pages.h"
#include "../math.h"
#include "kiln/client/connection.h"
#include "lines.h"
#include "machine_facts.h"
#include "page.h"
#include "peers.h"
#include "quickstart/cases.h"
#include "quickstart/ceilings.h"
#include "quickstart/machine.h"
#include "timing.h"
#include "torch.h"

namespace kiln::bench {
namespace {

using quickstart::Case;
using quickstart::Limit;

struct Options {
  std::vector<int> threads;
  std::string python = "python3";
  std::optional<std::string> html;
  std::vector<std::string> from, filters;

  bool wants(const Case& test) const {
    const std::string name = test.kernel + " " + test.shape;
    return filters.empty() ||
           std::any_of(filters.begin(), filters.end(), [&](const auto& f) { return name.find(f) != name.npos; });
  }
};

// Whose ops go through memory one by one unless somebody fuses them.
std::string area_of(const Case& test) {
  static const std::set<std::string> chains = {
      "bias_gelu", "dropout", "residual_layer_norm", "residual_rms_norm", "rotary", "sin2_cos2", "adamw"};
  return chains.count(test.kernel) ? "chains" : test.family;
}

std::string type_of(const Case& test) {
  for (const char* type : {"bf16", "f16", "i8"}) {
    if (test.shape.ends_with(std::string(" ") + type)) return type;
  }
  return "f32";
}

// Somebody who does the case's work.
struct Side {
  std::string who;
  std::function<double(int repeats)> run;  // seconds of one
  bool here = true;                        // in this process, whose caches can be filled with something else
  int repeats = 1;
  std::vector<double> hot = {}, cold = {};
};

// Threads of another library's OpenMP spin for milliseconds behind its work, on cores that the next side wants.
void let_others_sleep(int threads) {
  if (threads > 1) std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// All that is measured with one number of threads.
struct Session {
  int threads;
  Client& client;
  quickstart::Ceilings& ceilings;
  Torch torch;
  Peers products;

  std::vector<Side> sides_of(const Case& test, const quickstart::Case::Prepared& ours);
  Result<std::vector<Measurement>> measure(const Case& test, bool in_cache);
};

// Operands of a product for its peers.
std::vector<Peer> product_peers(const Peers& peers, const Case& test) {
  if (test.kernel.rfind("matmul", 0) != 0 || test.kernel.find("bias") != std::string::npos) return {};
  const std::vector<int64_t> s = numbers_in(test.shape);
  struct Operands {
    std::vector<std::byte> a, b, c;
  };
  auto bytes = [](int64_t rows, int64_t cols) {
    // Small numbers of every type.
    std::vector<std::byte> out(static_cast<size_t>(rows * cols * 4));
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i % 4 == 1 || i % 4 == 3 ? 0x3c : i % 61);
    return out;
  };
  auto data = std::make_shared<Operands>(Operands{bytes(s[0], s[2]), bytes(s[2], s[1]), bytes(s[0], s[1])});
  const Product product{static_cast<int32_t>(s[0]),
                        static_cast<int32_t>(s[1]),
                        static_cast<int32_t>(s[2]),
                        data->a.data(),
                        data->b.data(),
                        data->c.data()};
  std::vector<Peer> out = peers.of(type_of(test), product);
  for (Peer& peer : out) peer.run = [data, run = peer.run] { run(); };
  return out;
}

std::vector<Side> Session::sides_of(const Case& test, const quickstart::Case::Prepared& ours) {
  auto here = [this](const std::string& who, const std::function<void()>& run) {
    return Side{who, [threads = threads, run](int repeats) { return seconds(threads, repeats, run); }};
  };
  std::vector<Side> out = {here("kiln", [run = ours.run] { (void)run(); })};
  for (const auto& peers : {onednn_peers(test), plain_peers(test), product_peers(products, test)}) {
    for (const Peer& peer : peers) out.push_back(here(peer.name, peer.run));
  }
  if (!torch.is_there()) return out;
  std::string why;
  for (const std::string& who : torch.prepare(test, why)) {
    out.push_back({who, [this, who](int repeats) { return torch.seconds(who, repeats); }, false});
  }
  if (!why.empty())
    std::printf("# SKIPPED PyTorch for %s %s:%s\n", test.kernel.c_str(), test.shape.c_str(), why.c_str());
  return out;
}

Limit limit_of(const Case& test) {
  if (test.flops > 0) return Limit::kFma;
  return test.reads_only ? Limit::kRead : Limit::kCopy;
}

Result<std::vector<Measurement>> Session::measure(const Case& test, bool in_cache) {
  auto prepared = test.prepare(quickstart::Machine{client, "cpu", {}});
  if (!prepared) return prepared.error();
  if (auto first = prepared->run(); !first) return first.error();
  if (!passes(prepared->check())) return error(ErrorCode::kInternal, "WRONG result");
  std::vector<Side> sides = sides_of(test, *prepared);
  // Samples of at least 200 µs: a clock reads as fast as that can be told apart.
  for (Side& side : sides) side.repeats = std::clamp(static_cast<int>(2e-4 / std::max(side.run(1), 1e-9)), 1, 1000);
  std::vector<double> limits;
  double spent = 0;
  for (size_t round = 0; round < 15 && (round < 5 || spent < 3); ++round) {
    for (size_t turn = 0; turn < sides.size(); ++turn) {
      Side& side = sides[(round + turn) % sides.size()];
      let_others_sleep(threads);
      if (side.here && in_cache) {
        evict_caches();
        side.cold.push_back(side.run(1));
      }
      side.hot.push_back(side.run(side.repeats));
      spent += side.hot.back() * side.repeats;
    }
    limits.push_back(ceilings.measure(limit_of(test), test.bytes));
  }
  std::vector<Measurement> out;
  const std::string suffix = " " + std::to_string(threads) + "t";
  auto add = [&](const std::string& who, const std::string& metric, double time) {
    out.push_back({area_of(test), test.kernel + " " + test.shape, type_of(test), who, metric + suffix, time * 1e6});
  };
  for (const Side& side : sides) {
    add(side.who, in_cache ? "us hot" : "us", median(side.hot));
    if (!side.cold.empty()) add(side.who, "us cold", median(side.cold));
  }
  const double amount = (test.flops > 0 ? test.flops : test.bytes) / 1e9, rate = median(limits);
  if (rate > 0 && type_of(test) == "f32") add("ceiling", in_cache ? "us hot" : "us", amount / rate);
  return out;
}

// Whether all results are right.
bool measure_all(const Options& options, Client& client, Report& report) {
  quickstart::Ceilings ceilings(false);
  bool passed = true;
  for (int threads : options.threads) {
    omp_set_num_threads(threads);
    Session session{threads, client, ceilings, Torch(options.python, threads), Peers(threads)};
    if (!session.torch.is_there()) std::printf("# SKIPPED PyTorch: %s does not run\n", options.python.c_str());
    for (const auto size : {quickstart::Size::kReal, quickstart::Size::kInCache}) {
      for (const Case& test : quickstart_cases(size)) {
        if (!options.wants(test)) continue;
        auto lines = session.measure(test, size == quickstart::Size::kInCache);
        if (!lines) {
          std::printf("# FAILED %s %s: %s\n", test.kernel.c_str(), test.shape.c_str(), lines.error().message.c_str());
          passed = false;
          continue;
        }
        for (const Measurement& line : *lines) std::printf("%s\n", line_of(line).c_str());
        std::fflush(stdout);
        report.measurements.insert(report.measurements.end(), lines->begin(), lines->end());
      }
    }
  }
  MathReport math;
  auto wants = [&](const std::string& function) {
    const std::string name = "math " + function;
    return options.filters.empty() || std::any_of(options.filters.begin(), options.filters.end(),
                                                  [&](const auto& f) { return name.find(f) != name.npos; });
  };
  passed = measure_math(client, wants, math) && passed;
  if (!math.missing.empty()) std::printf("# SKIPPED %s\n", math.missing.c_str());
  report.measurements.insert(report.measurements.end(), math.lines.begin(), math.lines.end());
  return passed;
}

// In a daemon of its own, in a directory that goes away.
bool measure_alone(const Options& options, Report& report) {
  char directory[] = "/tmp/kiln-bench-XXXXXX";
  if (!mkdtemp(directory)) {
    std::perror("bench-cpu: mkdtemp");
    return false;
  }
  client::ConnectOptions connect;
  connect.runtime_dir = directory;
  connect.daemon_args = {"--cache-dir", std::string(directory) + "/cache", "--idle-timeout", "60"};
  bool passed = false;
  if (auto connection = client::Connection::open(connect)) {
    Client client({.connect = connect, .specialise_in_background = false});
    report.machine = machine_facts();
    report.machine.push_back(onednn_version());
    for (const std::string& fact : report.machine) std::printf("# machine: %s\n", fact.c_str());
    passed = measure_all(options, client, report);
    (void)(*connection)->shutdown();
  } else {
    std::fprintf(stderr, "bench-cpu: %s\n", connection.error().message.c_str());
  }
  std::error_code ignored;
  std::filesystem::remove_all(directory, ignored);
  return passed;
}

bool read_lines(const std::vector<std::string>& files, Report& report) {
  for (const std::string& name : files) {
    std::ifstream file(name);
    for (std::string line; std::getline(file, line);) add_line(report, line);
    if (!file.eof()) {
      std::fprintf(stderr, "bench-cpu: cannot read %s\n", name.c_str());
      return false;
    }
  }
  return true;
}

int run(const Options& options) {
  Report report;
  const bool passed = options.from.empty() ? measure_alone(options, report) : read_lines(options.from, report);
  std::printf("%s", table_of(compare(report)).c_str());
  std::printf("%s", table_of(scaling_of(report)).c_str());
  if (options.html) {
    std::ofstream file(*options.html);
    file << page_of(report);
    if (!file.flush()) {
      std::fprintf(stderr, "bench-cpu: cannot write %s\n", options.html->c_str());
      return 1;
    }
  }
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  kiln::bench::take_large_pages(argv);
  kiln::bench::Options options;
  for (int i = 1; i < argc; ++i) {
    auto is = [&](const char* option) { return std::strcmp(argv[i], option) == 0 && i + 1 < argc; };
    if (is("--threads")) {
      options.threads.push_back(std::atoi(argv[++i]));
    } else if (is("--python")) {
      options.python = argv[++i];
    } else if (is("--html")) {
      options.html = argv[++i];
    } else if (is("--from")) {
      options.from.emplace_back(argv[++i]);
    } else {
      options.filters.emplace_back(argv[i]);
    }
  }
  if (options.threads.empty()) {
    options.threads = {1};
    if (omp_get_max_threads() > 1) options.threads.push_back(omp_get_max_threads());
  }
  return kiln::bench::run(options);
}

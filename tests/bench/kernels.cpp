// The kernel library on the quickstart's real shapes, against PyTorch (eager and Inductor) where it is installed:
// launches of ours, of each peer and readings of the machine's ceiling by turns; medians.
//   bench-kernels [--threads N] [--python EXE] [substring of kernel or shape]
// CSV lines area,case,dtype,who,metric,value; then a table of ratios to the best peer and shares of the ceiling.
#include <omp.h>

#include <algorithm>
#include <boost/process.hpp>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <sstream>

#include "quickstart/cases.h"
#include "quickstart/ceilings.h"
#include "quickstart/machine.h"

namespace kiln::bench {
namespace {

using quickstart::Case;
using quickstart::Limit;
using Clock = std::chrono::steady_clock;

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<long>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// peers.py, one question and answer at a time.
class Peers {
 public:
  Peers(const std::string& python, int threads)
      : child_(boost::process::search_path(python), std::string(KILN_PEERS), std::to_string(threads),
               boost::process::std_in<to_, boost::process::std_out> from_, error_) {}
  ~Peers() {
    to_.pipe().close();
    if (!error_) child_.wait(error_);
  }
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  std::string ask(const std::string& question) {
    std::string answer;
    if (error_ || !(to_ << question << std::endl) || !std::getline(from_, answer))
      return "none peers.py did not answer";
    return answer;
  }

 private:
  boost::process::opstream to_;
  boost::process::ipstream from_;
  std::error_code error_;
  boost::process::child child_;
};

struct Row {
  std::string name;
  std::map<std::string, double> seconds;  // by who
  double ceiling = 0, amount = 0;         // the rate that is possible and the bytes or operations, 1e9
  bool passed = false;
};

Limit limit_of(const Case& test) {
  if (test.flops > 0) return Limit::kFma;
  return test.reads_only ? Limit::kRead : Limit::kCopy;
}

Result<Row> measure(Client& client, Peers& peers, quickstart::Ceilings& ceilings, const Case& test) {
  auto prepared = test.prepare(quickstart::Machine{client, "cpu", {}});
  if (!prepared) return prepared.error();
  if (auto first = prepared->run(); !first) return first.error();
  Row row{test.kernel + " " + test.shape, {}, 0, (test.flops > 0 ? test.flops : test.bytes) / 1e9, false};
  std::istringstream answer(peers.ask("prepare " + test.kernel + " " + test.shape));
  std::vector<std::string> who;
  for (std::string name; answer >> name;) who.push_back(name);
  if (!who.empty() && who[0] == "none") {
    std::printf("# SKIPPED peer of %s: %s\n", row.name.c_str(), answer.str().c_str());
    who.clear();
  }
  std::map<std::string, std::vector<double>> times;
  std::vector<double> limits;
  const auto begin = Clock::now();
  for (int round = 0; round < 11 && (round < 3 || Clock::now() - begin < std::chrono::seconds(4)); ++round) {
    const auto start = Clock::now();
    if (auto done = prepared->run(); !done) return done.error();
    times["kiln"].push_back(std::chrono::duration<double>(Clock::now() - start).count());
    for (const std::string& peer : who) times[peer].push_back(std::atof(peers.ask("run " + peer).c_str()));
    limits.push_back(ceilings.measure(limit_of(test)));
  }
  row.ceiling = median(limits);
  for (const auto& [name, list] : times) row.seconds[name] = median(list);
  row.passed = passes(prepared->check());
  return row;
}

void print_csv(const Row& row) {
  for (const auto& [who, seconds] : row.seconds) {
    std::printf("kernels,%s,f32,%s,ms,%.4f\n", row.name.c_str(), who.c_str(), seconds * 1e3);
  }
  std::fflush(stdout);
}

void print_table(const std::vector<Row>& rows) {
  std::printf("# %-48s %10s %10s %10s %8s %8s\n", "case", "kiln ms", "eager ms", "inductor", "ratio", "share");
  for (const Row& row : rows) {
    const double ours = row.seconds.at("kiln");
    double best = 0;
    std::string cells;
    for (const char* who : {"eager", "inductor"}) {
      char cell[16] = "-";
      if (auto found = row.seconds.find(who); found != row.seconds.end()) {
        std::snprintf(cell, sizeof cell, "%.3f", found->second * 1e3);
        best = best == 0 ? found->second : std::min(best, found->second);
      }
      char padded[16];
      std::snprintf(padded, sizeof padded, " %10s", cell);
      cells += padded;
    }
    char ratio[16] = "-", share[16] = "-";
    if (best > 0) std::snprintf(ratio, sizeof ratio, "%.2f", best / ours);
    if (row.ceiling > 0) std::snprintf(share, sizeof share, "%.0f %%", 100 * row.amount / ours / row.ceiling);
    const int extra = static_cast<int>(std::count(row.name.begin(), row.name.end(), '\xc3'));  // of "×"
    std::printf("# %-*s %10.3f%s %8s %8s%s\n", 48 + extra, row.name.c_str(), ours * 1e3, cells.c_str(), ratio, share,
                row.passed ? "" : "  WRONG");
  }
}

int run(int threads, const std::string& python, const std::string& filter) {
  omp_set_num_threads(threads);
  Client client({.specialise_in_background = false});
  Peers peers(python, threads);
  quickstart::Ceilings ceilings(false);
  std::vector<Row> rows;
  bool passed = true;
  for (const Case& test : quickstart::quickstart_cases(false)) {
    if ((test.kernel + " " + test.shape).find(filter) == std::string::npos) continue;
    auto row = measure(client, peers, ceilings, test);
    if (!row) {
      std::printf("# FAILED %s %s: %s\n", test.kernel.c_str(), test.shape.c_str(), row.error().message.c_str());
      passed = false;
      continue;
    }
    print_csv(*row);
    passed = passed && row->passed;
    rows.push_back(std::move(*row));
  }
  print_table(rows);
  return passed ? 0 : 1;
}

}  // namespace
}  // namespace kiln::bench

int main(int argc, char** argv) {
  int threads = omp_get_max_threads();
  std::string python = "python3", filter;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--threads") == 0 && i + 1 < argc) {
      threads = std::atoi(argv[++i]);
    } else if (std::strcmp(argv[i], "--python") == 0 && i + 1 < argc) {
      python = argv[++i];
    } else {
      filter = argv[i];
    }
  }
  return kiln::bench::run(threads, python, filter);
}

// What the benchmarks print, `area,case,dtype,who,metric,value` a line, and what follows from it: who is how much
// faster.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace kiln::bench {

struct Measurement {
  std::string area, name, dtype;
  std::string who;     // "kiln…" is ours; "ceiling" what the machine could do at best; others are peers
  std::string metric;  // "us…", "ns…" and "ms…" are times, "…/s" rates; others are not compared
  double value = 0;
};

std::string line_of(const Measurement& measurement);

// A run: its lines, and what its machine is, a fact an entry.
struct Report {
  std::vector<std::string> machine;
  std::vector<Measurement> measurements;
};

// Adds a line to the report: a measurement, "# machine: FACT", or anything else, which is passed over.
void add_line(Report& report, const std::string& line);

// One of our figures beside those of the others.
struct Comparison {
  std::string area, name, dtype, metric;
  double ours = 0, best = 0;
  std::string peer;      // the fastest; empty where there is none
  double ratio = 0;      // our speed over the peer's; 0 without one
  double share = 0;      // of what the machine could do; 0 where that is not known
  double bar = 0;        // what the ratio should be at least; 0 where nothing is asked
  double share_bar = 0;  // the same of the share

  bool misses_bar() const { return (bar > 0 && ratio < bar) || (share_bar > 0 && share > 0 && share < share_bar); }
};

// In the order of the run. Rows of the area "chains" come twice: against peers that go through memory between the ops
// of the chain, and, where there are some, against those that fuse them ("inductor", "… fused").
std::vector<Comparison> compare(const Report& report);

// How much faster a row is on many threads than on one, and how much that is of the best peer's on many.
struct Scaling {
  std::string area, name, dtype, metric;  // the metric on many threads: "us 16t"
  double ours = 0, theirs = 0;
  std::string peer;

  // Within a tenth of the peer's is what is asked.
  bool misses_bar() const { return ours < 0.9 * theirs; }
};
std::vector<Scaling> scaling_of(const Report& report);
std::string table_of(std::span<const Scaling> rows);

// The table, a line a comparison, and below it those that miss their bar.
std::string table_of(std::span<const Comparison> rows);

}  // namespace kiln::bench

#include "lines.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <tuple>

namespace kiln::bench {
namespace {

constexpr const char* kMachine = "# machine: ";

bool starts_with(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }
bool ends_with(const std::string& text, const std::string& suffix) {
  return text.size() >= suffix.size() && text.compare(text.size() - suffix.size(), suffix.size(), suffix) == 0;
}

bool is_rate(const std::string& metric) { return ends_with(metric, "/s"); }
// "us", "us hot", "ns/element"…
bool is_time(const std::string& metric) {
  if (is_rate(metric) || metric.size() < 2) return false;
  const std::string unit = metric.substr(0, 2);
  return (unit == "us" || unit == "ns" || unit == "ms") && (metric.size() == 2 || metric[2] == ' ' || metric[2] == '/');
}

// What the project asks of the ratio; the first entry that fits counts.
struct Bar {
  const char *area, *name, *dtype, *metric;  // beginnings; of the metric a part
  double least;
};
constexpr Bar kBars[] = {
    {"", "", "", "cold", 0},
    {"elements", "vector_add 1677", "", "", 1.7},
    {"elements", "gelu", "", "hot", 1.4},
    {"rows", "softmax", "", "hot", 1.4},
    {"chains (fused peers)", "", "", "", 1},
    {"chains", "", "", "", 1.5},
    {"math", "", "", "as exact", 1},
    {"math", "", "", "", 0},
    {"gemm", "cube/64x", "f32", "", 1},
    {"gemm", "cube/128x", "f32", "", 1},
    {"gemm", "odd", "f32", "", 1},
    {"gemm", "skinny", "f32", "", 1},
    {"gemm", "", "bf16", "", 1},
    {"gemm", "", "i8", "", 1},
    {"gemm", "", "u8", "", 1},
    {"gemm", "", "", "", 0.93},
    {"products", "", "i8", "", 1},
    {"products", "", "bf16", "", 1},
    {"products", "", "", "", 0.93},
    {"convolutions", "", "", "", 0.97},
    {"", "", "", "", 1},
};
// With AMX a bar of bf16 is that of everybody; without it products are widened where peers are slow.
constexpr double kWidened = 1.8;

double bar_of(const Comparison& row, bool has_amx) {
  for (const Bar& bar : kBars) {
    if (starts_with(row.area, bar.area) && starts_with(row.name, bar.name) && starts_with(row.dtype, bar.dtype) &&
        row.metric.find(bar.metric) != std::string::npos) {
      const bool product = row.area == "gemm" || row.area == "products";
      return product && row.dtype == "bf16" && !has_amx ? kWidened : bar.least;
    }
  }
  return 0;
}

// What moves arrays larger than a core's caches should move them at the machine's rate.
double share_bar_of(const Comparison& row) {
  const bool moves = row.area == "elements" || row.area == "chains" || row.area == "rows" || row.area == "order";
  const bool in_cache = row.metric.find("hot") != std::string::npos || row.metric.find("cold") != std::string::npos;
  return moves && !in_cache ? 0.9 : 0;
}

bool fuses(const std::string& who) { return who == "inductor" || ends_with(who, " fused"); }

struct Group {
  Comparison row;
  std::vector<std::pair<std::string, double>> peers;
  double ceiling = 0;
};

Comparison against(const Group& group, bool fused, bool both, bool has_amx) {
  Comparison row = group.row;
  const bool rate = is_rate(row.metric);
  auto speed = [&](double value) { return rate ? value : 1 / value; };
  for (const auto& [who, value] : group.peers) {
    if (!both && fuses(who) != fused) continue;
    if (row.peer.empty() || speed(value) > speed(row.best)) {
      row.peer = who;
      row.best = value;
    }
  }
  if (!row.peer.empty()) row.ratio = speed(row.ours) / speed(row.best);
  if (group.ceiling > 0) row.share = speed(row.ours) / speed(group.ceiling);
  if (fused) row.area += " (fused peers)";
  row.bar = row.peer.empty() ? 0 : bar_of(row, has_amx);
  row.share_bar = share_bar_of(row);
  return row;
}

// "us hot 16t" is {"us hot", 16}; {"", 0} where no number of threads is said.
std::pair<std::string, int> threads_of(const std::string& metric) {
  const size_t space = metric.rfind(' ');
  if (space == std::string::npos || metric.back() != 't') return {"", 0};
  const int threads = std::atoi(metric.c_str() + space + 1);
  return threads > 0 ? std::pair(metric.substr(0, space), threads) : std::pair(std::string(), 0);
}

}  // namespace

std::string line_of(const Measurement& m) {
  char value[32];
  std::snprintf(value, sizeof value, "%.5g", m.value);
  return m.area + "," + m.name + "," + m.dtype + "," + m.who + "," + m.metric + "," + value;
}

void add_line(Report& report, const std::string& line) {
  if (starts_with(line, kMachine)) {
    report.machine.push_back(line.substr(std::string(kMachine).size()));
    return;
  }
  if (line.empty() || line[0] == '#') return;
  std::vector<std::string> fields(1);
  for (char c : line) {
    if (c == ',') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  if (fields.size() != 6) return;
  char* end = nullptr;
  const double value = std::strtod(fields[5].c_str(), &end);
  if (end == fields[5].c_str() || *end) return;
  report.measurements.push_back({fields[0], fields[1], fields[2], fields[3], fields[4], value});
}

std::vector<Comparison> compare(const Report& report) {
  const bool has_amx = std::any_of(report.machine.begin(), report.machine.end(),
                                   [](const std::string& fact) { return fact.find("amx_tile") != std::string::npos; });
  std::vector<Group> groups;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, size_t> index;
  for (const Measurement& m : report.measurements) {
    if ((!is_rate(m.metric) && !is_time(m.metric)) || m.value <= 0) continue;
    auto [entry, added] = index.try_emplace({m.area, m.name, m.dtype, m.metric}, groups.size());
    if (added) groups.push_back({{m.area, m.name, m.dtype, m.metric, 0, 0, "", 0, 0, 0, 0}, {}, 0});
    Group& group = groups[entry->second];
    if (m.who == "kiln") {
      group.row.ours = m.value;
    } else if (m.who == "ceiling") {
      group.ceiling = m.value;
    } else if (!starts_with(m.who, "kiln")) {
      group.peers.emplace_back(m.who, m.value);
    }
  }
  std::vector<Comparison> out;
  for (const Group& group : groups) {
    if (group.row.ours <= 0) continue;
    const bool chain = group.row.area == "chains";
    out.push_back(against(group, false, !chain, has_amx));
    const bool some = std::any_of(group.peers.begin(), group.peers.end(), [](const auto& p) { return fuses(p.first); });
    if (chain && some) out.push_back(against(group, true, false, has_amx));
  }
  return out;
}

std::vector<Scaling> scaling_of(const Report& report) {
  using Row = std::tuple<std::string, std::string, std::string, std::string>;
  std::map<Row, std::map<int, std::map<std::string, double>>> times;  // by threads, then by whose they are
  std::vector<Row> order;
  for (const Measurement& m : report.measurements) {
    const auto [metric, threads] = threads_of(m.metric);
    if (threads == 0 || !is_time(metric) || m.value <= 0 || m.who == "ceiling") continue;
    const Row row{m.area, m.name, m.dtype, metric};
    if (!times.contains(row)) order.push_back(row);
    times[row][threads][m.who] = m.value;
  }
  std::vector<Scaling> out;
  for (const Row& row : order) {
    const auto& by_threads = times[row];
    const auto one = by_threads.find(1);
    const auto& [most, many] = *by_threads.rbegin();
    if (one == by_threads.end() || most == 1) continue;
    Scaling scaling;
    std::tie(scaling.area, scaling.name, scaling.dtype, scaling.metric) = row;
    scaling.metric += " " + std::to_string(most) + "t";
    double best = 0;
    for (const auto& [who, time] : many) {
      const auto alone = one->second.find(who);
      if (alone == one->second.end()) continue;
      if (who == "kiln") {
        scaling.ours = alone->second / time;
      } else if (best == 0 || time < best) {
        best = time;
        scaling.theirs = alone->second / time;
        scaling.peer = who;
      }
    }
    if (scaling.ours > 0 && best > 0) out.push_back(scaling);
  }
  return out;
}

std::string table_of(std::span<const Scaling> rows) {
  std::string out, missed;
  char line[256];
  for (const Scaling& row : rows) {
    const std::string name = row.area + " " + row.name + " " + row.dtype;
    const int extra = static_cast<int>(std::count(name.begin(), name.end(), '\xc3'));
    std::snprintf(line, sizeof line, "# %-*s %-11s %6.2f %6.2f %s\n", 60 + extra, name.c_str(), row.metric.c_str(),
                  row.ours, row.theirs, row.peer.c_str());
    out += line;
    if (row.misses_bar()) missed += line;
  }
  if (out.empty()) return out;
  out = "# times as fast as on one thread: kiln, the best peer\n" + out;
  return missed.empty() ? out : out + "# more than a tenth below the peer's:\n" + missed;
}

std::string table_of(std::span<const Comparison> rows) {
  std::string table, missed;
  char line[256];
  std::snprintf(line, sizeof line, "# %-60s %-10s %11s %11s %-16s %6s %6s %6s\n", "case", "metric", "kiln", "best peer",
                "", "ratio", "bar", "share");
  table += line;
  for (const Comparison& row : rows) {
    const std::string name = row.area + " " + row.name + " " + row.dtype;
    // "×" takes two bytes and one column.
    const int extra = static_cast<int>(std::count(name.begin(), name.end(), '\xc3'));
    char ratio[16] = "-", bar[16] = "-", share[16] = "-", best[32] = "-";
    if (row.ratio > 0) {
      std::snprintf(ratio, sizeof ratio, "%.2f", row.ratio);
      std::snprintf(best, sizeof best, "%.4g", row.best);
    }
    if (row.bar > 0) std::snprintf(bar, sizeof bar, "%.2f", row.bar);
    if (row.share > 0) std::snprintf(share, sizeof share, "%.2f", row.share);
    std::snprintf(line, sizeof line, "# %-*s %-10s %11.4g %11s %-16s %6s %6s %6s\n", 60 + extra, name.c_str(),
                  row.metric.c_str(), row.ours, best, row.peer.c_str(), ratio, bar, share);
    table += line;
    if (row.misses_bar()) missed += line;
  }
  return missed.empty() ? table : table + "# below their bar:\n" + missed;
}

}  // namespace kiln::bench

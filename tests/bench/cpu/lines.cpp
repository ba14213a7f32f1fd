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
  const char *area, *name, *metric;  // beginnings; of the metric a part
  double least;
};
constexpr Bar kBars[] = {
    {"", "", "cold", 0},
    {"elements", "vector_add 1677", "", 1.7},
    {"elements", "gelu", "hot", 1.4},
    {"rows", "softmax", "hot", 1.4},
    {"chains (fused peers)", "", "", 1},
    {"chains", "", "", 1.5},
    {"math", "exp", "ns", 1},
    {"products", "", "", 0.93},
    {"gemm", "", "", 0.93},
    {"convolutions", "", "", 0.97},
    {"", "", "", 1},
};
double bar_of(const Comparison& row) {
  for (const Bar& bar : kBars) {
    if (starts_with(row.area, bar.area) && starts_with(row.name, bar.name) &&
        row.metric.find(bar.metric) != std::string::npos) {
      return bar.least;
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

Comparison against(const Group& group, bool fused, bool both) {
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
  row.bar = row.peer.empty() ? 0 : bar_of(row);
  row.share_bar = share_bar_of(row);
  return row;
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

std::vector<Comparison> compare(std::span<const Measurement> measurements) {
  std::vector<Group> groups;
  std::map<std::tuple<std::string, std::string, std::string, std::string>, size_t> index;
  for (const Measurement& m : measurements) {
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
    out.push_back(against(group, false, !chain));
    const bool some = std::any_of(group.peers.begin(), group.peers.end(), [](const auto& p) { return fuses(p.first); });
    if (chain && some) out.push_back(against(group, true, false));
  }
  return out;
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

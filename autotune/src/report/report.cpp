// The summary for programs and the tables for a terminal.
#include "kiln/autotune/report.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <set>

#include "report/report_json.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;

template <class... Args>
std::string format(const char* text, Args... args) {
  char out[256];
  std::snprintf(out, sizeof out, text, args...);
  return out;
}

// Columns as wide as their widest cell, aligned to the right but for those of `left`.
std::string table(const std::vector<std::vector<std::string>>& rows, const std::set<size_t>& left) {
  std::vector<size_t> widths;
  // A character of UTF-8 counts once.
  auto width = [](const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
  };
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string out;
  for (const auto& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(widths[i] - width(row[i]), ' ');
      line += (i == 0 ? "" : "  ") + (left.contains(i) ? row[i] + space : space + row[i]);
    }
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string percent(double share) { return std::isfinite(share) && share > 0 ? format("%.0f %%", 100 * share) : "-"; }

constexpr double kNoisy = 0.5;  // of the median: half of an interval that says no more than that times varied

std::string figure(const Record& record, const char* name) {
  const auto found = record.figures.find(name);
  return found != record.figures.end() && found->is_number() ? format("%.0f", found->get<double>()) : "-";
}

std::string ranked_table(const JobResult& job, size_t rows) {
  std::vector<std::vector<std::string>> cells = {
      {"rank", "config", "time", "99 %", "speed-up", "roofline", "registers", "spills", ""}};
  size_t rank = 0, left_out = 0;
  for (const Candidate& candidate : job.candidates) {
    const Record& record = candidate.record;
    if (record.failure != Failure::kNone || record.median_us <= 0) continue;
    const bool is_default = candidate.config == job.fallback;
    if (++rank > rows && !is_default && candidate.config != job.best) {
      ++left_out;
      continue;
    }
    const bool is_best = candidate.config == job.best;
    const std::string what = std::string(is_default           ? "default"
                                         : candidate.measured ? ""
                                                              : "reused") +
                             (is_best ? (is_default || !candidate.measured ? ", best" : "best") : "");
    cells.push_back({std::to_string(rank), to_string(candidate.config), time_text(record.median_us),
                     interval_text(record), speedup_text(job, candidate), percent(job.roof.us / record.median_us),
                     figure(record, "registers"), figure(record, "spill_bytes"), what});
  }
  if (cells.size() == 1) return "  nothing measured\n";
  std::string out = table(cells, {1});
  if (left_out > 0) out += format("      … and %zu more\n", left_out);
  return out;
}

std::string failures(const JobResult& job) {
  std::string out;
  for (const Candidate& candidate : job.candidates) {
    const Record& record = candidate.record;
    if (record.failure == Failure::kNone) continue;
    const std::string line = record.message.substr(0, record.message.find('\n'));
    out += "      " + to_string(candidate.config) + ": " + to_string(record.failure) + ": " + line + "\n";
  }
  return out;
}

std::string heading(const JobOutcome& job) {
  std::string out = job.name + (job.target.empty() ? "" : " on " + short_target(job.target)) + "\n";
  if (!job.result) return out;
  out += format("  space %zu, measured %zu, reused %zu, failed %zu, pruned %zu", job.result->space,
                job.result->measured, job.result->reused, job.result->failed, job.result->pruned);
  if (std::isfinite(job.result->correlation) && job.result->correlation != 0)
    out += format("; rank correlation of the model %.2f", job.result->correlation);
  return out + (job.result->finished ? "" : "; not finished") + "\n";
}

std::string gains_table(const BatchResult& result) {
  std::vector<std::vector<std::string>> cells = {
      {"job", "default", "best", "speed-up", "roofline", "bound", "measured of", "best config"}};
  for (const JobOutcome& job : result.jobs) {
    if (!job.result) {
      const char* state = job.state == JobState::kFailed    ? "failed"
                          : job.state == JobState::kStopped ? "stopped"
                                                            : "not begun";
      cells.push_back({job.name, "-", "-", "-", "-", "-", "-", state});
      continue;
    }
    const JobResult& done = *job.result;
    const double speedup = done.default_us / done.best_us;
    cells.push_back({job.name, time_text(done.default_us), time_text(done.best_us),
                     std::isfinite(speedup) ? format("%.2f×", speedup) : "-", percent(done.roof.us / done.best_us),
                     done.roof.bound, format("%zu/%zu", done.measured + done.reused, done.space),
                     to_string(done.best)});
  }
  return table(cells, {0, 7});
}

}  // namespace

std::string interval_text(const Record& record) {
  const double half = (record.high_us - record.low_us) / 2 / record.median_us;
  if (!std::isfinite(half) || record.samples < kSamplesOfInterval) return "few";
  return half < kNoisy ? format("±%.1f %%", 100 * half) : "noisy";
}

std::string speedup_text(const JobResult& job, const Candidate& candidate) {
  if (candidate.config == job.fallback) return "1.00×";
  if (candidate.config == job.best && job.best_us > 0 && job.default_us > 0)
    return format("%.2f×", job.default_us / job.best_us);
  const auto fallback = std::find_if(job.candidates.begin(), job.candidates.end(),
                                     [&](const Candidate& other) { return other.config == job.fallback; });
  if (fallback == job.candidates.end()) return "-";
  const Record &mine = candidate.record, &its = fallback->record;
  if (!is_certainly_faster(mine, its) && !is_certainly_faster(its, mine)) return "≈ 1";
  // The choice is made by turns, behind the search: who looked faster in the search was not.
  const double speedup = its.median_us / mine.median_us;
  const double of_best = job.best_us > 0 && job.default_us > 0 ? job.default_us / job.best_us : speedup;
  return speedup > of_best ? format("≤ %.2f×", of_best) : format("%.2f×", speedup);
}

std::string time_text(double us) {
  if (!std::isfinite(us) || us <= 0) return "-";
  const auto [value, unit] = us < 1e3   ? std::pair(us, "µs")
                             : us < 1e6 ? std::pair(us / 1e3, "ms")
                                        : std::pair(us / 1e6, "s");
  return format(value < 10 ? "%.3f %s" : value < 100 ? "%.2f %s" : "%.1f %s", value, unit);
}

std::string text_report(const BatchResult& result, size_t rows) {
  std::string out;
  for (const JobOutcome& job : result.jobs) {
    if (job.state == JobState::kFailed) {
      out += heading(job) + "  failed: " + job.error + "\n\n";
    } else if (job.result) {
      out += heading(job) + ranked_table(*job.result, rows) + failures(*job.result) + "\n";
    }
  }
  out += gains_table(result);
  out += format("\n%zu of %zu jobs in %.1f s: measured %zu, reused %zu, failed %zu", result.count(JobState::kDone),
                result.jobs.size(), result.seconds, result.measured, result.reused, result.failed);
  if (result.busy_share > 0) {
    const Spent& spent = result.spent;
    out += format(", device busy %.0f %% (%.1f s measuring, %.1f loading, %.1f waiting for compiles, %.1f for inputs)",
                  100 * result.busy_share, spent.measurements, spent.loads, spent.compiles, spent.inputs);
  }
  if (result.out_of_budget) out += "; the budget ended before the search (--resume goes on)";
  if (result.stopped) out += "; stopped (--resume goes on)";
  out += "\n";
  for (const std::string& note : result.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace kiln::autotune

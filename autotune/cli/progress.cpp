#include "progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "kiln/autotune/report.h"
#include "kiln/wire/printable.h"

namespace kiln::autotune::cli {
namespace {

constexpr auto kRedraw = std::chrono::milliseconds(100);

std::string two_digits(double value) {
  char out[32];
  std::snprintf(out, sizeof out, "%.2f", value);
  return out;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::clamp(seconds, 0.0, 1e8));
  if (whole < 60) return std::to_string(whole) + "s";
  if (whole < 3600) return std::to_string(whole / 60) + "m" + std::to_string(whole % 60) + "s";
  return std::to_string(whole / 3600) + "h" + std::to_string(whole % 3600 / 60) + "m";
}

std::string against(double us, const std::string& speedup, const Roofline& roof) {
  std::string out = time_text(us) + speedup;
  if (roof.us > 0) out += ", " + std::to_string(std::lround(100 * roof.us / us)) + " % of the roofline";
  return out;
}

// What a job chose, as the tables have it.
std::string choice(const JobResult& job) {
  if (job.best_us <= 0) return "nothing measured";
  const double speedup = job.default_us / job.best_us;
  return against(job.best_us, speedup > 0 ? ", " + two_digits(speedup) + "× the default" : "", job.roof);
}

// The fastest of what is measured so far. It is no choice yet: more rounds may show that it only had luck.
std::string standing(const JobResult& job) {
  const Record *best = nullptr, *fallback = nullptr;
  for (const Candidate& candidate : job.candidates) {
    const Record& record = candidate.record;
    if (record.failure != Failure::kNone || record.median_us <= 0) continue;
    if (candidate.config == job.fallback) fallback = &record;
    if (!best || record.median_us < best->median_us) best = &record;
  }
  if (!best) return "nothing measured";
  std::string speedup;
  if (fallback && is_certainly_faster(*best, *fallback))
    speedup = ", so far " + two_digits(fallback->median_us / best->median_us) + "× the default";
  return against(best->median_us, speedup, job.roof);
}

size_t settled(const BatchResult& batch) { return batch.count(JobState::kDone) + batch.count(JobState::kFailed); }

std::string place_of(const BatchResult& batch) {
  return "[" + std::to_string(settled(batch)) + "/" + std::to_string(batch.jobs.size()) + "] ";
}

// At most so many characters of UTF-8.
std::string cut(const std::string& text, size_t columns) {
  size_t count = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xc0) != 0x80 && ++count > columns) return text.substr(0, i);
  }
  return text;
}

size_t columns_of(std::FILE* out) {
  winsize size{};
  return ::ioctl(::fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1u : 79;
}

}  // namespace

// The time that jobs took so far says when the rest is done, the budget when it is over.
std::string ProgressLines::remaining(const BatchResult& so_far) const {
  double left = budget_ == Seconds::max() ? INFINITY : budget_.count() - so_far.seconds;
  if (const size_t done = settled(so_far); done > 0) {
    left = std::min(left, so_far.seconds / static_cast<double>(done) * static_cast<double>(so_far.jobs.size() - done));
  }
  return std::isfinite(left) ? ", " + duration_text(left) + " left" : "";
}

void ProgressLines::changed(const BatchResult& so_far, size_t job) {
  const JobOutcome& outcome = so_far.jobs[job];
  if (outcome.state == JobState::kFailed) {
    print(place_of(so_far) + outcome.name + ": failed: " + outcome.error);
  } else if (outcome.state == JobState::kStopped) {
    print(place_of(so_far) + outcome.name + ": stopped");
  } else if (outcome.state == JobState::kDone) {
    const JobResult& done = *outcome.result;
    std::string line = place_of(so_far) + outcome.name + ": " + choice(done) + "; measured " +
                       std::to_string(done.measured) + ", reused " + std::to_string(done.reused) + ", failed " +
                       std::to_string(done.failed) + " of " + std::to_string(done.space);
    if (!terminal_) line += remaining(so_far);
    print(line);
  } else if (outcome.state == JobState::kRunning && !outcome.result && !terminal_) {
    print(place_of(so_far) + outcome.name + ": begins");
  }
  draw(so_far, job, outcome.state != JobState::kRunning);
}

void ProgressLines::measured(const BatchResult& so_far, size_t job, const Record& record) {
  if (verbose_) {
    const bool failed = record.failure != Failure::kNone;
    print("  " + to_string(record.config) + ": " +
          (failed ? std::string(to_string(record.failure)) + ": " + record.message
                  : time_text(record.median_us) + " of " + std::to_string(record.samples)));
  }
  draw(so_far, job, false);
}

void ProgressLines::draw(const BatchResult& so_far, size_t job, bool now) {
  const auto time = std::chrono::steady_clock::now();
  if (!terminal_ || (!now && time - last_ < kRedraw)) return;
  last_ = time;
  const JobOutcome& outcome = so_far.jobs[job];
  std::string line = place_of(so_far) + outcome.name;
  if (outcome.result)
    line += ": " + std::to_string(outcome.result->measured) + " measured, " + standing(*outcome.result);
  if (so_far.failed > 0) line += ", " + std::to_string(so_far.failed) + " failed";
  line += remaining(so_far);
  std::fprintf(out_, "\r\033[K%s", cut(wire::printable(line), columns_of(out_)).c_str());
  std::fflush(out_);
  drawn_ = true;
}

void ProgressLines::print(const std::string& line) {
  finish();
  std::fprintf(out_, "%s\n", wire::printable_lines(line).c_str());
  std::fflush(out_);
}

void ProgressLines::finish() {
  if (drawn_) std::fputs("\r\033[K", out_);
  std::fflush(out_);
  drawn_ = false;
}

}  // namespace kiln::autotune::cli

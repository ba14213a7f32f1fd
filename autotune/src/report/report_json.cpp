#include "report/report_json.h"

#include <cmath>

namespace kiln::autotune {
namespace {

using nlohmann::json;

const char* state_name(JobState state) {
  switch (state) {
    case JobState::kWaiting:
      return "not begun";
    case JobState::kRunning:
      return "running";
    case JobState::kDone:
      return "done";
    case JobState::kStopped:
      return "stopped";
    case JobState::kFailed:
      return "failed";
  }
  return "";
}

// JSON has neither infinities nor NaN.
json number(double value) { return std::isfinite(value) ? json(value) : json(); }
// A time that is not known is null, not 0.
json time(double us) { return us > 0 ? number(us) : json(); }
json ratio(double over, double under) { return under > 0 && over > 0 ? number(over / under) : json(); }

json job_json(const JobOutcome& job) {
  json out = {{"name", job.name},
              {"place", job.place},
              {"target", job.target},
              {"state", state_name(job.state)},
              {"seconds", job.seconds}};
  if (!job.error.empty()) out["error"] = job.error;
  if (!job.result) return out;
  const JobResult& done = *job.result;
  out["kernel"] = done.key.kernel;
  out["bucket"] = done.key.bucket;
  out["hardware"] = done.key.hardware;
  out["builder"] = done.key.builder;
  out["best"] = done.best;
  out["best_us"] = time(done.best_us);
  out["default"] = done.fallback;
  out["default_us"] = time(done.default_us);
  out["speedup"] = ratio(done.default_us, done.best_us);
  out["roofline_us"] = number(done.roof.us);
  out["roofline_share"] = ratio(done.roof.us, done.best_us);
  out["bound"] = done.roof.bound;
  out["space"] = done.space;
  out["measured"] = done.measured;
  out["reused"] = done.reused;
  out["failed"] = done.failed;
  out["pruned"] = done.pruned;
  out["correlation"] = number(done.correlation);
  out["busy_share"] = number(done.busy_share);
  out["finished"] = done.finished;
  return out;
}

json spent_json(const Spent& spent) {
  return {{"compiles", spent.compiles},         {"inputs", spent.inputs},   {"loads", spent.loads},
          {"measurements", spent.measurements}, {"records", spent.records}, {"other", spent.other}};
}

json candidate_json(const JobResult& job, const Candidate& candidate) {
  const Record& record = candidate.record;
  json out = {
      {"config", candidate.config},     {"us", number(record.median_us)},    {"low", number(record.low_us)},
      {"high", number(record.high_us)}, {"samples", record.samples},         {"predicted", number(record.predicted_us)},
      {"reused", !candidate.measured},  {"interval", interval_text(record)}, {"speedup", speedup_text(job, candidate)}};
  for (const auto& [name, value] : record.figures.items()) {
    if (value.is_number()) out["figures"][name] = value;
  }
  if (record.failure != Failure::kNone) {
    out["failure"] = to_string(record.failure);
    out["message"] = record.message;
  }
  return out;
}

}  // namespace

json summary_json(const BatchResult& result) {
  json out = {{"measured", result.measured},
              {"reused", result.reused},
              {"failed", result.failed},
              {"failed_jobs", result.count(JobState::kFailed)},
              {"out_of_budget", result.out_of_budget},
              {"stopped", result.stopped},
              {"seconds", result.seconds},
              {"busy_share", result.busy_share},
              {"spent", spent_json(result.spent)},
              {"notes", result.notes},
              {"jobs", json::array()}};
  for (const JobOutcome& job : result.jobs) out["jobs"].push_back(job_json(job));
  return out;
}

json page_json(const BatchResult& result) {
  json out = summary_json(result);
  for (size_t i = 0; i < result.jobs.size(); ++i) {
    if (!result.jobs[i].result) continue;
    json& job = out["jobs"][i];
    job["candidates"] = json::array();
    for (const Candidate& candidate : result.jobs[i].result->candidates) {
      job["candidates"].push_back(candidate_json(*result.jobs[i].result, candidate));
    }
    job["convergence"] = result.jobs[i].result->convergence;
  }
  return out;
}

std::string short_target(const std::string& target) {
  const size_t end = target.find_first_of(",;");
  return end == std::string::npos ? target : target.substr(0, end) + "…";
}

std::string dump_json(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace kiln::autotune

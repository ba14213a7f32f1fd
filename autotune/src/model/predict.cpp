#include "kiln/autotune/predict.h"

#include <algorithm>

#include "search/tune_entries.h"

namespace kiln::autotune {
namespace {

constexpr size_t kCompiled = 12;                 // configs of a job, beside the default
constexpr double kWorthwhile = 0.97;             // of the default's time: less is not told apart by a model
constexpr std::chrono::milliseconds kSlice(20);  // between two looks at a stop

// The default, then those that promise most before they are compiled.
std::vector<size_t> promising(const std::vector<Entry>& entries) {
  std::vector<size_t> out;
  for (size_t i = 1; i < entries.size(); ++i) {
    if (entries[i].pruned.empty()) out.push_back(i);
  }
  std::stable_sort(out.begin(), out.end(),
                   [&](size_t a, size_t b) { return entries[a].predicted_us < entries[b].predicted_us; });
  out.resize(std::min(out.size(), kCompiled));
  out.insert(out.begin(), 0);
  return out;
}

Result<JobResult> predict(const Job& job, Compiler& compiler, const Machine& machine, const TuneOptions& options,
                          const std::stop_token& stop) {
  auto key = record_key(job, "", compiler.builder_id(), options);
  if (!key) return key.error();
  auto space = space_for(job.kernel, job.target, job.axes);
  if (!space) return space.error();
  auto entries = list_entries(job, *space, machine, Search::kAuto);
  if (!entries) return entries.error();

  const std::vector<size_t> chosen = promising(*entries);
  const dsl::Facts facts = facts_of(job.kernel, job.workload);
  std::vector<std::future<Result<Artifact>>> flights;
  flights.reserve(chosen.size());
  for (size_t i : chosen) flights.push_back(compiler.compile(job.kernel, job.target, (*entries)[i].config, facts));
  size_t best = 0;
  for (size_t n = 0; n < chosen.size(); ++n) {
    while (flights[n].wait_for(kSlice) != std::future_status::ready) {
      if (stop.stop_requested()) return error(ErrorCode::kCancelled, "it was stopped");
    }
    Entry& entry = (*entries)[chosen[n]];
    const Result<Artifact> artifact = flights[n].get();
    if (!artifact && (n == 0 || !is_verdict(artifact.error().code))) return artifact.error();
    if (!artifact || (n > 0 && !prune_reason(artifact->metadata).empty())) continue;
    entry.predicted_us = predict_us(machine, entry.work, entry.config, &artifact->metadata);
    if (entry.predicted_us < (*entries)[best].predicted_us) best = chosen[n];
  }
  if ((*entries)[best].predicted_us > kWorthwhile * (*entries)[0].predicted_us) best = 0;

  JobResult out = make_result(job, *key, *entries);
  out.best = (*entries)[best].config;
  out.best_us = (*entries)[best].predicted_us;
  out.default_us = (*entries)[0].predicted_us;
  out.roof = roofline(machine, entries->front().work);
  out.finished = true;
  return out;
}

}  // namespace

BatchResult predict_batch(const std::vector<JobSpec>& jobs, Compiler& compiler, const KnownDevice& device,
                          const TuneOptions& options, const BatchProgress& progress, const std::stop_token& stop) {
  const Machine& machine = device.machine;
  BatchResult out;
  for (const JobSpec& job : jobs) {
    JobOutcome& outcome = out.jobs.emplace_back();
    outcome.name = job.name;
    outcome.place = job.place;
    outcome.target = machine.target;
    outcome.device = device.device;
    outcome.spec = out.jobs.size() - 1;
  }
  for (size_t i = 0; i < jobs.size() && !stop.stop_requested(); ++i) {
    const Job job{jobs[i].name, jobs[i].kernel, jobs[i].workload, machine.target, jobs[i].axes};
    auto done = predict(job, compiler, machine, options, stop);
    JobOutcome& outcome = out.jobs[i];
    outcome.state = done ? JobState::kDone : stop.stop_requested() ? JobState::kStopped : JobState::kFailed;
    if (done)
      outcome.result = std::move(*done);
    else
      outcome.error = done.error().message;
    if (progress.changed) progress.changed(out, i);
  }
  out.stopped = stop.stop_requested();
  return out;
}

}  // namespace kiln::autotune

// What becomes of a job when its worker answers or dies.
#include <chrono>
#include <new>

#include "cache/artifact_check.h"
#include "kiln/abi/metadata_json.h"
#include "kiln/wire/crash_report.h"
#include "kiln/wire/entry.h"
#include "kiln/wire/json.h"
#include "scheduling/scheduler.h"

namespace kiln::server {
namespace {

// Errors that another attempt, or another client, would get as well.
bool deterministic(ErrorCode code) {
  return code == ErrorCode::kCompileFailed || code == ErrorCode::kVerifyFailed || code == ErrorCode::kInvalidArgument;
}

uint64_t unix_ms() {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(now).count());
}

// What the worker sent with the code.
Result<abi::Metadata> metadata_of(const JobOutcome& outcome) {
  const auto object = wire::parse_object(outcome.metadata);
  if (!object) return internal_error("the worker's metadata does not parse: " + object.error().message);
  auto metadata = abi::metadata_of(*object);
  if (!metadata) return internal_error("the worker's metadata has " + metadata.error().message);
  return metadata;
}

// "cpu" of "cpu:x86-64-v3".
std::string target_kind(const Result<abi::Metadata>& metadata) {
  if (!metadata || metadata->target.empty()) return "unknown";
  return metadata->target.substr(0, metadata->target.find(':'));
}

// One that is too large for an entry cannot be compiled again from it.
std::span<const std::byte> request_to_keep(const Bytes& body) {
  return body.size() <= wire::kMaxEntryRequest ? std::span<const std::byte>(body) : std::span<const std::byte>();
}

}  // namespace

void Scheduler::on_outcome(const JobPtr& job, JobOutcome outcome) {
  try {
    settle(job, std::move(outcome));
  } catch (const std::bad_alloc&) {
    if (job->state != Job::State::kRunning) return;
    finish(job, memory_error("for what was compiled"));
  }
}

void Scheduler::settle(const JobPtr& job, JobOutcome outcome) {
  if (job->state != Job::State::kRunning) return;
  wire::note_ended(job->id);
  if (job->priority == wire::Priority::kBackground) --background_running_;
  auto took = std::chrono::steady_clock::now() - job->started_at;
  job->phases = std::move(outcome.phases);
  switch (outcome.kind) {
    case JobOutcome::kArtifact: {
      const auto metadata = metadata_of(outcome);
      metrics_.record_compile(target_kind(metadata), took);
      average_ms_ += (std::chrono::duration<double, std::milli>(took).count() - average_ms_) / 16;
      return on_artifact(job, outcome, metadata);
    }
    case JobOutcome::kFailed:
      metrics_.record_compile("failed", took);
      if (deterministic(outcome.failure.code)) {
        refusals_.compile_failed(limits_of(*job), job->debug_hash, outcome.failure, std::chrono::steady_clock::now());
      }
      return finish(job, outcome.failure);
    case JobOutcome::kWorkerDied:
      return on_death(job, outcome);
  }
}

void Scheduler::on_artifact(const JobPtr& job, const JobOutcome& outcome, const Result<abi::Metadata>& metadata) {
  auto blob = make_blob(*job, outcome, metadata);
  if (!blob) return finish(job, blob.error());
  store_.put(*blob);
  auto took = std::chrono::steady_clock::now() - job->started_at;
  log_.info("compiled", {{"key", to_hex(job->key)},
                         {"trace_id", job->trace_id},
                         {"joined", joined_by(*job)},
                         {"bytes", outcome.code.size()},
                         {"waiters", job->waiters.size()},
                         {"ms", std::chrono::duration<double, std::milli>(took).count()},
                         {"phases", phase_times(job->phases, std::chrono::steady_clock::now())}});
  finish(job, Served{*blob, Tier::kCompile});
  serve_waiting(job->key, Served{*blob, Tier::kCompile});
}

// Who had it compiled and what that took: for people, who ask with `kiln explain`.
nlohmann::json Scheduler::record_of(const Job& job) const {
  const auto now = std::chrono::steady_clock::now();
  return {{"builder", builder_id_},
          {"client", job.client_name.substr(0, 256)},
          {"trace_id", job.trace_id},
          {"attempts", job.attempts},
          {"queue_ms", std::chrono::duration<double, std::milli>(job.started_at - job.queued_at).count()},
          {"compile_ms", std::chrono::duration<double, std::milli>(now - job.started_at).count()},
          {"phases", phase_times(job.phases, now)}};
}

// The request that killed its workers, for `kiln explain` and `kiln reproduce`: in the form of an entry without code.
void Scheduler::keep_crash(const Job& job, const std::string& cause) {
  nlohmann::json record = record_of(job);
  record["cause"] = cause;
  record["reproduce"] = "kiln reproduce " + to_hex(job.key);
  const std::string text = wire::dump(record);
  auto bytes = wire::encode_entry({.key = job.key,
                                   .builder_id = builder_id_,
                                   .target_kind = "crash",
                                   .metadata = "{}",
                                   .code = {},
                                   .record = text,
                                   .request = request_to_keep(*job.body),
                                   .created_ms = unix_ms()});
  if (bytes) store_.keep_crash(job.key, std::move(*bytes));
}

Result<SharedBlob> Scheduler::make_blob(const Job& job, const JobOutcome& outcome,
                                        const Result<abi::Metadata>& metadata) const {
  if (!metadata) return metadata.error();
  if (auto sound = check_artifact(*metadata, outcome.code); !sound) return sound.error();
  const std::string kind = target_kind(metadata), record = wire::dump(record_of(job));
  auto bytes = wire::encode_entry({.key = job.key,
                                   .builder_id = builder_id_,
                                   .target_kind = kind,
                                   .metadata = outcome.metadata,
                                   .code = outcome.code,
                                   .record = record,
                                   .request = request_to_keep(*job.body),
                                   .created_ms = unix_ms()});
  if (!bytes) return bytes.error();
  return SharedBlob(std::make_shared<const Blob>(Blob{job.key, std::move(*bytes), nullptr}));
}

// A death may be the machine's fault, so one more worker is tried; memory or processor time that did not suffice would
// not suffice again.
void Scheduler::on_death(const JobPtr& job, const JobOutcome& outcome) {
  const auto warn = [&](const char* event) {
    log_.warn(event, {{"key", to_hex(job->key)}, {"trace_id", job->trace_id}, {"cause", outcome.cause}});
  };
  warn("compile_died");
  const auto now = std::chrono::steady_clock::now();
  if (!outcome.never_ran && refusals_.worker_killed(limits_of(*job), outcome.cause, now)) {
    warn("poisoned");
  }
  if (outcome.out_of_memory) {
    keep_crash(*job, outcome.cause);
    return finish(job, error(ErrorCode::kOutOfMemory, "the compile needs more memory than the worker's limit of " +
                                                          std::to_string(job->memory_bytes >> 20) + " MiB"));
  }
  if (outcome.out_of_time) {
    keep_crash(*job, outcome.cause);
    return finish(job, error(ErrorCode::kDeadlineExceeded, "the compile needs more processor time than the worker's " +
                                                               std::to_string(job->cpu_seconds) + " s"));
  }
  if (job->attempts < 2 && !draining_ && !job->waiters.empty()) {
    ++metrics_.retries;
    job->state = Job::State::kQueued;
    job->queued_at = std::chrono::steady_clock::now();
    queue_.push_again(job);
    return pump();
  }
  if (outcome.never_ran) return finish(job, no_worker_error(outcome.cause));
  keep_crash(*job, outcome.cause);
  finish(job, error(ErrorCode::kWorkerCrashed, "the compile killed its worker " + std::to_string(job->attempts) +
                                                   " times; last: " + outcome.cause));
}

}  // namespace kiln::server

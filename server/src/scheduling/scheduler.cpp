// Requests in, jobs through the queue. What happens when a worker answers is in outcomes.cpp.
#include "scheduling/scheduler.h"

#include <algorithm>
#include <new>
#include <utility>

#include "kiln/wire/crash_report.h"
#include "kiln/wire/json.h"

namespace kiln::server {
namespace {

constexpr size_t kListedWaiters = 64;
constexpr std::chrono::milliseconds kRetryWorkers{1000};  // where none can be had
constexpr size_t kLoggedMessage = 256;                    // of an error's text; its client has all of it

Error draining_error() {
  Error out = error(ErrorCode::kDraining, "the daemon is shutting down");
  out.retryable = true;
  return out;
}

double elapsed_ms(std::chrono::steady_clock::time_point since) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - since).count();
}

const char* state_name(Job::State state) {
  switch (state) {
    case Job::State::kLookup:
      return "lookup";
    case Job::State::kQueued:
      return "queued";
    case Job::State::kRunning:
      return "running";
    case Job::State::kGone:
      break;
  }
  return "gone";
}

const char* late_message(Job::State state) {
  switch (state) {
    case Job::State::kLookup:
      return "the cache did not answer before the deadline";
    case Job::State::kRunning:
      return "the compile did not finish before the deadline";
    default:
      return "no worker was free before the deadline";
  }
}

}  // namespace

Scheduler::Scheduler(asio::io_context& io, const Config& config, Log& log, Metrics& metrics, Store& store,
                     WorkerPool& pool, History& history, std::string builder_id)
    : io_(io),
      config_(config),
      log_(log),
      metrics_(metrics),
      store_(store),
      pool_(pool),
      history_(history),
      builder_id_(std::move(builder_id)),
      queue_(config.ageing),
      refusals_(config.poison_kills, config.poison_ttl, config.negative_ttl),
      verifier_(io, config, log, metrics, pool) {}

void Scheduler::submit(CompileJob request, Reply reply) {
  if (request.durable) reply = when_durable(std::move(reply));
  Waiter refused{request.waiter, 0, request.owner, request.trace_id, false, std::move(reply), nullptr};
  request.memory_bytes = memory_of(request.memory_bytes);
  const Refusals::Asked asked{request.key, request.memory_bytes, config_.worker_cpu_seconds};
  if (SharedBlob blob = store_.find_memory(request.key)) {
    ++metrics_.hits_memory;
    on_hit(blob);
    remember_at_once(request, tier_name(Tier::kMemory));
    return answer(request.key, refused, Served{blob, Tier::kMemory});
  }
  auto now = std::chrono::steady_clock::now();
  if (auto poisoned = refusals_.poisoned(asked, now)) {
    ++metrics_.poison_hits;
    return refuse(request, refused, *poisoned);
  }
  if (auto failure = refusals_.known_failure(asked, request.debug_hash, now)) {
    ++metrics_.negative_hits;
    return refuse(request, refused, *failure);
  }
  if (request.priority == wire::Priority::kInteractive &&
      !interactive_waiters_.admits(request.owner, 1, config_.user_limit)) {
    ++metrics_.queue_rejected;
    return refuse(
        request, refused,
        full_error("too many interactive requests wait, " + std::to_string(config_.user_limit) + " (--user-limit)"));
  }
  if (JobPtr job = find_job(asked)) return join_running(job, request, std::move(refused.reply));
  if (!lookup_bytes_.admits(request.owner, request.body->size(), config_.queue_bytes)) {
    ++metrics_.queue_rejected;
    return refuse(request, refused, full_error("too many requests are looked up"));
  }
  JobPtr job = create(request);
  try {
    join(job, request, std::move(refused.reply));
    store_.find_disk(job->key, [this, job](const SharedBlob& blob) { on_disk(job, blob); });
  } catch (const std::bad_alloc&) {
    abandon(job);
    throw;
  }
}

void Scheduler::join_running(const JobPtr& job, CompileJob& request, Reply reply) {
  ++metrics_.joins;
  if (job->state != Job::State::kLookup) ++metrics_.misses;
  if (request.priority == wire::Priority::kInteractive && job->priority == wire::Priority::kBackground) {
    if (job->state == Job::State::kRunning) --background_running_;
    queue_.promote(job);
  }
  join(job, request, std::move(reply));
}

// One that has at least as much, or can still be given it, which takes nothing from the others.
JobPtr Scheduler::find_job(const Refusals::Asked& asked) {
  JobPtr waiting;
  for (auto it = jobs_.lower_bound({asked.key}); it != jobs_.end() && it->first.key == asked.key; ++it) {
    if (it->first.has_as_much_as(asked)) return it->second;
    if (it->second->state != Job::State::kRunning) waiting = it->second;
  }
  if (!waiting) return nullptr;
  jobs_.erase(limits_of(*waiting));
  waiting->memory_bytes = std::max(waiting->memory_bytes, asked.memory);
  waiting->cpu_seconds = std::max(waiting->cpu_seconds, asked.cpu_seconds);
  return jobs_[limits_of(*waiting)] = waiting;
}

// Holds a result back until it is on disk for good.
Reply Scheduler::when_durable(Reply reply) {
  return [this, reply = std::move(reply)](const Result<Served>& result) {
    if (!result) return reply(result);
    ++storing_;
    store_.make_durable(result->blob, [this, reply, served = *result](bool stored) mutable {
      --storing_;
      served.durable = stored;
      reply(served);
    });
  };
}

uint64_t Scheduler::memory_of(uint64_t asked) const {
  if (asked == 0) asked = config_.worker_memory;
  return asked ? asked : UINT64_MAX;  // no limit
}

JobPtr Scheduler::create(CompileJob& request) {
  lookup_bytes_.take(request.owner, request.body->size());
  auto job = std::make_shared<Job>();
  job->id = next_job_++;
  job->key = request.key;
  job->body = request.body;
  job->debug_hash = request.debug_hash;
  job->priority = request.priority;
  job->client = request.owner;
  job->trace_id = request.trace_id;
  job->client_name = request.client_name;
  job->memory_bytes = request.memory_bytes;
  job->cpu_seconds = config_.worker_cpu_seconds;
  job->asked_at = std::chrono::steady_clock::now();
  jobs_[limits_of(*job)] = job;
  return job;
}

void Scheduler::join(const JobPtr& job, CompileJob& request, Reply reply) {
  const bool interactive = request.priority == wire::Priority::kInteractive;
  job->late_timer.reset();
  Waiter waiter{request.waiter,
                next_serial_++,
                request.owner,
                std::move(request.trace_id),
                interactive,
                std::move(reply),
                std::make_unique<asio::steady_timer>(io_, request.deadline)};
  waiter.deadline->async_wait([this, id = waiter.id, serial = waiter.serial](const boost::system::error_code& failed) {
    if (!failed) on_deadline(id, serial);
  });
  job->waiters.push_back(std::move(waiter));
  if (interactive) interactive_waiters_.take(request.owner, 1);
  waiters_[request.waiter] = job;
}

void Scheduler::on_disk(const JobPtr& job, const SharedBlob& blob) {
  if (job->state != Job::State::kLookup) return;  // everybody left meanwhile
  if (!blob) {
    return store_.find_remote(job->key, [this, job](const SharedBlob& found) { on_remote(job, found); });
  }
  metrics_.hits_disk += job->waiters.size();
  on_hit(blob);
  finish(job, Served{blob, Tier::kDisk});
}

void Scheduler::on_remote(const JobPtr& job, const SharedBlob& blob) {
  if (job->state != Job::State::kLookup) return;
  if (blob) {
    metrics_.hits_remote += job->waiters.size();
    on_hit(blob);
    return finish(job, Served{blob, Tier::kRemote});
  }
  metrics_.misses += job->waiters.size();
  if (draining_) return finish(job, draining_error());
  if (const std::string& why = pool_.unavailable(); !why.empty()) return finish(job, no_worker_error(why));
  if (queue_full(*job)) {
    ++metrics_.queue_rejected;
    return finish(job, full_error("the queue of compiles is full"));
  }
  enqueue(job);
  pump();
}

bool Scheduler::queue_full(const Job& job) const {
  return !queue_.has_room(job.client, job.body->size(), config_.queue_jobs, config_.queue_bytes);
}

Error Scheduler::full_error(const std::string& message) const {
  Error full = error(ErrorCode::kResourceExhausted, message);
  full.retryable = true;
  const double wait = average_ms_ * static_cast<double>(queue_.size()) / pool_.size();
  full.retry_after_ms = static_cast<uint32_t>(std::clamp(wait, 50.0, 10'000.0));
  return full;
}

Error Scheduler::memory_error(const std::string& what) {
  Error out = error(ErrorCode::kResourceExhausted, "the daemon has no memory " + what);
  out.retryable = true;
  return out;
}

Error Scheduler::no_worker_error(const std::string& why) const {
  Error out = full_error("no worker could be had for the compile: " + why);
  out.retry_after_ms = static_cast<uint32_t>(kRetryWorkers.count());
  return out;
}

void Scheduler::enqueue(const JobPtr& job) {
  lookup_bytes_.give_back(job->client, job->body->size());
  job->state = Job::State::kQueued;
  job->queued_at = std::chrono::steady_clock::now();
  queue_.push(job);
}

void Scheduler::pump() {
  while (pool_.has_slot()) {
    // With several workers one is kept free of background jobs, so that an interactive request starts at once.
    bool with_background = pool_.size() == 1 || background_running_ + 1 < pool_.size();
    JobPtr job = queue_.pop(std::chrono::steady_clock::now(), with_background);
    if (!job) return verifier_.pump();
    try {
      run(job);
    } catch (const std::bad_alloc&) {
      if (job->priority == wire::Priority::kBackground) --background_running_;
      finish(job, memory_error("to ask a worker for the compile"));
    }
  }
}

// Throws where there is no memory for it; then no worker has it.
void Scheduler::run(const JobPtr& job) {
  job->state = Job::State::kRunning;
  job->started_at = std::chrono::steady_clock::now();
  ++job->attempts;
  const bool background = job->priority == wire::Priority::kBackground;
  if (background) ++background_running_;
  ++(background ? metrics_.queued_background : metrics_.queued_interactive);
  (background ? metrics_.wait_ms_background : metrics_.wait_ms_interactive) +=
      std::chrono::duration<double, std::milli>(job->started_at - job->queued_at).count();
  const nlohmann::json header = {{"trace_id", job->trace_id},
                                 {"key", to_hex(job->key)},
                                 {"memory_bytes", job->memory_bytes},
                                 {"cpu_seconds", job->cpu_seconds}};
  wire::note_running(job->id, job->key, *job->body);
  job->worker = pool_.run(job->id, wire::dump(header), job->body, job->memory_bytes,
                          [this, job](JobOutcome outcome) { on_outcome(job, std::move(outcome)); });
}

void Scheduler::cancel(const WaiterId& id) {
  Error reason = error(ErrorCode::kCancelled, "cancelled by the client");
  leave(id, &reason);
}

void Scheduler::on_deadline(const WaiterId& id, uint64_t serial) {
  auto it = waiters_.find(id);
  if (it == waiters_.end()) return;
  JobPtr job = it->second;
  bool current = std::any_of(job->waiters.begin(), job->waiters.end(),
                             [&](const Waiter& waiter) { return waiter.id == id && waiter.serial == serial; });
  if (!current) return;  // the request id was used again
  Error reason = error(ErrorCode::kDeadlineExceeded, late_message(job->state));
  reason.retryable = true;
  leave(id, &reason);
}

void Scheduler::forget_client(uint64_t client) {
  while (true) {
    auto it = waiters_.lower_bound({client, 0});
    if (it == waiters_.end() || it->first.client != client) return;
    leave(WaiterId(it->first), nullptr);
  }
}

void Scheduler::leave(const WaiterId& id, const Error* reason) {
  auto it = waiters_.find(id);
  if (it == waiters_.end()) return;
  JobPtr job = it->second;
  auto place = std::find_if(job->waiters.begin(), job->waiters.end(), [&](const Waiter& w) { return w.id == id; });
  Waiter waiter = std::move(*place);
  job->waiters.erase(place);
  waiters_.erase(it);
  if (waiter.interactive) interactive_waiters_.give_back(waiter.owner, 1);
  if (job->waiters.empty()) {
    if (config_.finish_late && nearly_done(*job)) {
      finish_late(job);
    } else {
      abandon(job);
    }
  }
  if (reason) answer(job->key, waiter, *reason, job->trace_id);
}

// It has run for most of the time that compiles take, and not for so long that it will take much more.
bool Scheduler::nearly_done(const Job& job) const {
  if (job.state != Job::State::kRunning) return false;
  const double share = elapsed_ms(job.started_at) / average_ms_;
  return share > 0.8 && share < 2;
}

// Nobody waits for it, but somebody may ask again; given up after all when it is not done soon.
void Scheduler::finish_late(const JobPtr& job) {
  ++metrics_.finished_late;
  job->late_timer = std::make_unique<asio::steady_timer>(
      io_, std::chrono::milliseconds(std::max<int64_t>(100, static_cast<int64_t>(average_ms_))));
  job->late_timer->async_wait([this, weak = std::weak_ptr(job)](const boost::system::error_code& failed) {
    JobPtr late = weak.lock();
    if (!failed && late && late->state == Job::State::kRunning && late->waiters.empty()) abandon(late);
  });
}

// Nobody waits for it any more.
void Scheduler::abandon(const JobPtr& job) {
  ++metrics_.jobs_cancelled;
  remember(*job, "CANCELLED");
  jobs_.erase(limits_of(*job));
  if (job->state == Job::State::kRunning) {
    if (job->priority == wire::Priority::kBackground) --background_running_;
    pool_.abort(job->worker);
  }
  end(*job);
}

// It may keep its place in the queue for a while, but not its request.
void Scheduler::end(Job& job) {
  const auto before = std::exchange(job.state, Job::State::kGone);
  if (before == Job::State::kQueued) queue_.dropped(job);
  if (before == Job::State::kLookup) lookup_bytes_.give_back(job.client, job.body->size());
  wire::note_ended(job.id);
  job.body.reset();
  job.late_timer.reset();
}

// One that needed no job.
void Scheduler::remember_at_once(const CompileJob& request, std::string outcome) {
  history_.add_at_once("COMPILE", request.key, request.trace_id, request.owner, std::move(outcome));
}

void Scheduler::refuse(const CompileJob& request, Waiter& waiter, const Error& failure) {
  remember_at_once(request, std::string(to_string(failure.code)));
  answer(request.key, waiter, failure);
}

std::vector<std::string> joined_by(const Job& job) {
  std::vector<std::string> out;
  for (const Waiter& waiter : job.waiters) {
    if (waiter.trace_id != job.trace_id && out.size() < kListedWaiters) out.push_back(waiter.trace_id);
  }
  return out;
}

void Scheduler::remember(const Job& job, const std::string& outcome) {
  history_.add({.key = job.key,
                .trace_id = job.trace_id,
                .client = job.client,
                .waiters = job.waiters.size(),
                .joined = joined_by(job),
                .outcome = outcome,
                .worker = job.worker,
                .asked = job.asked_at,
                .queued = job.queued_at,
                .started = job.started_at,
                .ended = std::chrono::steady_clock::now(),
                .phases = job.phases});
}

void Scheduler::finish(const JobPtr& job, const Result<Served>& result) {
  remember(*job, result ? tier_name(result->tier) : std::string(to_string(result.error().code)));
  jobs_.erase(limits_of(*job));
  end(*job);
  // A reply may end a connection, which forgets its other requests: the waiters must be out of reach by then.
  std::vector<Waiter> waiters = std::move(job->waiters);
  for (const auto& waiter : waiters) {
    waiters_.erase(waiter.id);
    if (waiter.interactive) interactive_waiters_.give_back(waiter.owner, 1);
  }
  for (auto& waiter : waiters) answer(job->key, waiter, result, job->trace_id);
}

// `job_trace_id`: by which the worker knows the request.
void Scheduler::answer(const RequestKey& key, Waiter& waiter, const Result<Served>& result,
                       const std::string& job_trace_id) {
  if (result) return waiter.reply(result);
  Error failure = result.error();
  failure.trace_id = waiter.trace_id;
  const bool joined = !job_trace_id.empty() && job_trace_id != failure.trace_id;
  log_.info("failed", {{"key", to_hex(key)},
                       {"trace_id", failure.trace_id},
                       {"code", to_string(failure.code)},
                       {"message", failure.message.substr(0, kLoggedMessage)},
                       {"joined", joined ? nlohmann::json(job_trace_id) : nlohmann::json()}});
  waiter.reply(failure);
}

// Those of the key that wait for a worker with more memory need none any more.
void Scheduler::serve_waiting(const RequestKey& key, const Served& served) {
  std::vector<JobPtr> waiting;
  for (auto it = jobs_.lower_bound({key}); it != jobs_.end() && it->first.key == key; ++it) {
    if (it->second->state != Job::State::kRunning) waiting.push_back(it->second);
  }
  for (const auto& job : waiting) finish(job, served);
}

std::vector<JobPtr> Scheduler::queued() const {
  std::vector<JobPtr> out;
  for (const auto& [asked, job] : jobs_) {
    if (job->state == Job::State::kQueued) out.push_back(job);
  }
  return out;
}

void Scheduler::refuse_waiting() {
  for (const auto& job : queued()) finish(job, no_worker_error(pool_.unavailable()));
}

void Scheduler::drain() {
  draining_ = true;
  for (const auto& job : queued()) finish(job, draining_error());
}

void Scheduler::abort_all() {
  draining_ = true;
  std::vector<JobPtr> all;
  for (const auto& [key, job] : jobs_) all.push_back(job);
  for (const auto& job : all) {
    if (job->state == Job::State::kRunning) pool_.abort(job->worker);
    finish(job, draining_error());
  }
}

nlohmann::json Scheduler::stats() const {
  const auto interactive = std::count_if(jobs_.begin(), jobs_.end(), [](const auto& entry) {
    return entry.second->priority == wire::Priority::kInteractive;
  });
  return {{"jobs", jobs_.size()},
          {"interactive_jobs", interactive},
          {"queue_depth",
           {{"interactive", queue_.size(wire::Priority::kInteractive)},
            {"background", queue_.size(wire::Priority::kBackground)}}},
          {"queue_bytes", queue_.bytes()},
          {"waiters", waiters_.size()},
          {"interactive_waiters", interactive_waiters_.total()},
          {"poisoned_keys", refusals_.poisoned_keys(std::chrono::steady_clock::now())},
          {"negative_keys", refusals_.negative_keys()},
          {"average_compile_ms", average_ms_}};
}

nlohmann::json Scheduler::list(size_t most) const {
  std::vector<const Job*> all;
  for (const auto& [key, job] : jobs_) all.push_back(job.get());
  most = std::min(most, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(most), all.end(),
                    [](const Job* a, const Job* b) { return a->id < b->id; });
  nlohmann::json out = nlohmann::json::array();
  for (size_t i = 0; i < most; ++i) {
    const Job& job = *all[i];
    out.push_back({{"key", to_hex(job.key)},
                   {"state", state_name(job.state)},
                   {"class", job.priority == wire::Priority::kInteractive ? "interactive" : "background"},
                   {"client", job.client_name.substr(0, 64)},
                   {"trace_id", job.trace_id},
                   {"waiters", job.waiters.size()},
                   {"worker", job.worker},
                   {"attempts", job.attempts},
                   {"ms", elapsed_ms(job.asked_at)}});
  }
  return out;
}

}  // namespace kiln::server

// Assigning jobs and reading what workers say. Deaths and back-off are in worker_deaths.cpp.
#include "processes/worker_pool.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <new>
#include <thread>

#include "connections/kept_text.h"
#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"

namespace kiln::server {
namespace {

constexpr size_t kMaxPhases = 64, kMaxPhasesTold = 4096;
constexpr size_t kMaxPhaseText = 256;  // what is longer is not read

// Compiled code alone is long, and it is an answer. Whatever else is, nobody reads to its end.
constexpr wire::FrameLimits kIdle{.max_json = 4096, .max_body = 0};
constexpr wire::FrameLimits kBusy{
    .max_body_of = [](wire::Type type) { return type == wire::Type::kResult ? wire::kMaxBodySize : 0; }};

std::string words_file(const Config& config) {
  return config.foreground || config.pipe ? "" : config.runtime_dir + "/kiln-worker.log";
}

}  // namespace

WorkerPool::WorkerPool(asio::io_context& io, const Config& config, std::shared_ptr<Bytes> scratch, Log& log,
                       Metrics& metrics)
    : io_(io),
      config_(config),
      scratch_(std::move(scratch)),
      log_(log),
      metrics_(metrics),
      words_(io, words_file(config), log),
      zygote_(
          io, config, scratch_,
          {.hello =
               [this](std::string builder_id, std::string native) {
                 restart_delay_ = std::chrono::milliseconds(100);
                 greeted_ = true;
                 unavailable_.clear();
                 handlers_.ready(std::move(builder_id), std::move(native));
               },
           .spawned = [this](uint64_t id, pid_t pid, wire::UniqueFd pidfd) { on_spawned(id, pid, std::move(pidfd)); },
           .exited = [this](uint64_t id, std::string cause) { on_exited(id, std::move(cause)); },
           .died = [this](const std::string& reason) { on_zygote_died(reason); }}),
      restart_timer_(io),
      idle_timer_(io),
      backoff_timer_(io),
      size_(config.workers ? config.workers : std::max(1u, std::thread::hardware_concurrency())) {}

WorkerPool::~WorkerPool() { stop(); }

Result<void> WorkerPool::start(Handlers handlers) {
  handlers_ = std::move(handlers);
  watch_idle();
  if (auto started = words_.start(); !started) return started;
  return zygote_.start(words_.end());
}

void WorkerPool::stop() {
  if (std::exchange(stopped_, true)) return;
  restart_timer_.cancel();
  idle_timer_.cancel();
  backoff_timer_.cancel();
  for (auto& [id, worker] : workers_) worker.socket->close();
  workers_.clear();
  zygote_.stop();
  words_.stop();
}

unsigned WorkerPool::busy() const {
  return static_cast<unsigned>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& item) { return item.second.done != nullptr; }));
}

bool WorkerPool::has_slot() const {
  if (stopped_ || !zygote_.running()) return false;
  for (const auto& [id, worker] : workers_) {
    if (worker.idle()) return true;
  }
  return places_taken() < size_ && !backing_off();
}

// A worker that is leaving keeps its slot until it has left, unless it does so by itself and at once.
size_t WorkerPool::places_taken() const {
  return static_cast<size_t>(
      std::count_if(workers_.begin(), workers_.end(), [](const auto& item) { return !item.second.retiring; }));
}

WorkerPool::Worker* WorkerPool::find(WorkerId id) {
  auto it = workers_.find(id);
  return it == workers_.end() ? nullptr : &it->second;
}

uint64_t WorkerPool::usual_memory() const { return config_.worker_memory ? config_.worker_memory : UINT64_MAX; }

// An idle one that may have so much; else a new one, in whose place one leaves that may not.
WorkerPool::Worker* WorkerPool::worker_for(uint64_t memory) {
  Worker* lesser = nullptr;
  for (auto& [id, worker] : workers_) {
    if (!worker.idle()) continue;
    if (worker.memory_bytes >= memory) return &worker;
    lesser = &worker;
  }
  if (lesser && places_taken() >= size_) dismiss(*lesser);
  return spawn(memory);
}

WorkerPool::Worker* WorkerPool::spawn(uint64_t memory) {
  auto pair = wire::make_channel_pair();
  if (!pair) return nullptr;
  auto ours = watched(io_, std::move(pair->ours));
  if (!ours) return nullptr;
  WorkerId id = next_id_++;
  Worker made;
  made.id = id;
  made.memory_bytes = std::max(memory, usual_memory());
  made.since = std::chrono::steady_clock::now();
  made.socket = std::make_shared<FrameSocket>(io_, std::move(*ours), scratch_, FrameSocket::Options{.limits = kIdle});
  Worker& worker = workers_.emplace(id, std::move(made)).first->second;
  try {
    worker.socket->start({.frame = [this, id](wire::Frame frame) { on_frame(id, std::move(frame)); },
                          .closed = [this, id](const CloseReason& reason) { on_channel_closed(id, reason); }});
    // What may have more than the others takes one job.
    const bool usual = worker.memory_bytes == usual_memory();
    zygote_.spawn_worker(id, std::move(pair->theirs), worker.memory_bytes, usual ? config_.worker_jobs : 1);
  } catch (const std::bad_alloc&) {  // if the zygote has heard of it after all, it finds its channel at an end
    worker.socket->close();
    workers_.erase(id);
    throw;
  }
  ++metrics_.workers_spawned;
  return &worker;
}

WorkerPool::WorkerId WorkerPool::run(uint64_t job, std::string json, SharedBytes body, uint64_t memory, Done done) {
  Worker* worker = worker_for(memory ? memory : usual_memory());
  if (!worker) {
    asio::post(io_, [done = std::move(done)] {
      JobOutcome outcome;
      outcome.cause = "no descriptors, or watches of them, are left for a worker's channel";
      outcome.never_ran = true;
      done(std::move(outcome));
    });
    return 0;
  }
  words_.job_begins();
  worker->done = std::move(done);
  worker->job = job;
  worker->phase = "start";
  worker->phases.clear();
  worker->phases_told = 0;
  worker->socket->set_limits(kBusy);
  worker->since = std::chrono::steady_clock::now();
  // A worker that is not forked yet finds the job in its channel.
  try {
    worker->socket->send(
        {.type = wire::Type::kCompile, .request_id = job, .json = std::move(json), .body = std::move(body)});
  } catch (const std::bad_alloc&) {  // it may have a part of it
    worker->done = nullptr;
    doom(*worker, SIGKILL);
    throw;
  }
  return worker->id;
}

void WorkerPool::finish_job(Worker& worker, JobOutcome outcome) {
  auto done = std::exchange(worker.done, nullptr);
  worker.socket->set_limits(kIdle);
  words_.hear();  // its lines are in the log before its client has the answer
  worker.phase.clear();
  outcome.phases = std::move(worker.phases);
  worker.phases.clear();
  worker.since = std::chrono::steady_clock::now();
  worker.idle_cpu = processor_time(worker.pid);
  if (done) done(std::move(outcome));
}

// Names stay in the history, and are shown.
void WorkerPool::on_phase(Worker& worker, const wire::Frame& frame) {
  if (++worker.phases_told > kMaxPhasesTold) {
    worker.complaint = "told of phases without end";
    return doom(worker, SIGKILL);
  }
  if (worker.phases.size() >= kMaxPhases) return;
  const auto object = wire::parse_object(frame.json.size() <= kMaxPhaseText ? frame.json : R"({"phase":"?"})");
  if (object) worker.phase = cut(wire::Fields(*object).text("phase"), kMostOfAPhase);
  std::ranges::replace_if(worker.phase, [](char c) { return c < ' ' || c > '~'; }, '?');
  worker.phases.emplace_back(worker.phase, std::chrono::steady_clock::now());
}

void WorkerPool::on_frame(WorkerId id, wire::Frame frame) {
  Worker* worker = find(id);
  if (!worker || worker->doomed) return;
  bool expected = worker->done && frame.id() == worker->job;
  if (expected && frame.type() == wire::Type::kPhase) return on_phase(*worker, frame);
  JobOutcome outcome;
  if (expected && frame.refused) {
    outcome.kind = JobOutcome::kFailed;
    outcome.failure = error(ErrorCode::kResourceExhausted, "the daemon has no memory for the compiled code");
    outcome.failure.retryable = true;
  } else if (expected && frame.type() == wire::Type::kResult) {
    outcome.kind = JobOutcome::kArtifact;
    outcome.metadata = std::move(frame.json);
    outcome.code = std::move(frame.body);
  } else if (expected && frame.type() == wire::Type::kError) {
    outcome.kind = JobOutcome::kFailed;
    outcome.failure = wire::parse_error(frame.json);
    outcome.failure.message = cut(std::move(outcome.failure.message), kMostOfAMessage);
    outcome.failure.trace_id.clear();  // each who waits has its own
  } else {
    worker->complaint = "sent an unexpected frame";
    return doom(*worker, SIGKILL);
  }
  if (frame.has(wire::flag::kLast)) {
    worker->retiring = true;
    expect_end(*worker);
    ++metrics_.workers_recycled;
  }
  finish_job(*worker, std::move(outcome));
  handlers_.slot_free();
}

nlohmann::json WorkerPool::stats() const {
  auto now = std::chrono::steady_clock::now();
  nlohmann::json list = nlohmann::json::array();
  for (const auto& [id, worker] : workers_) {
    auto age = std::chrono::duration_cast<std::chrono::milliseconds>(now - worker.since).count();
    list.push_back({{"id", id},
                    {"pid", worker.pid},
                    {"state", worker.doomed     ? "ending"
                              : worker.retiring ? "leaving"
                              : worker.done     ? "busy"
                                                : "idle"},
                    {"phase", worker.phase},
                    {"ms", age}});
  }
  return {{"workers", workers_.size()},
          {"workers_max", size_},
          {"workers_busy", busy()},
          {"worker_list", list},
          {"spawn_backoff", backing_off() ? 1 : 0}};
}

}  // namespace kiln::server

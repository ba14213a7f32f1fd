// From a compile request to a reply: look up, join a running compile, queue, run, retry, store.
//
// A job passes kLookup → kQueued → kRunning. All requests of one key share one job, but for those that ask for more
// memory, or have more processor time, than one that runs already has; each waits with its own deadline, and when the
// last one leaves, the job is cancelled.
#pragma once

#include <map>

#include "cache/store.h"
#include "cache/verifier.h"
#include "kiln/abi/metadata.h"
#include "processes/worker_pool.h"
#include "scheduling/job_queue.h"
#include "scheduling/refusals.h"

namespace kiln::server {

class Scheduler {
 public:
  Scheduler(asio::io_context& io, const Config& config, Log& log, Metrics& metrics, Store& store, WorkerPool& pool,
            History& history, std::string builder_id);

  // Replies exactly once, perhaps before it returns, unless the request is forgotten with its client.
  void submit(CompileJob request, Reply reply);
  void cancel(const WaiterId& waiter);
  // The connection is gone: its requests need no reply.
  void forget_client(uint64_t client);

  // Starts what can be started; called when a worker becomes free.
  void pump();

  // A request was answered from a tier, perhaps without coming here.
  void on_hit(const SharedBlob& blob) { verifier_.on_hit(blob); }

  // No worker can be had for now: those that wait for one are refused.
  void refuse_waiting();
  // No new jobs; those that do not run yet are refused.
  void drain();
  // Gives up the running ones too.
  void abort_all();
  bool idle() const { return jobs_.empty(); }
  // Results are on their way to the disk, for clients that wait for that.
  bool storing() const { return storing_ > 0; }

  // The refusals' times may have changed.
  void reload() { refusals_.set_times(config_.poison_ttl, config_.negative_ttl); }
  nlohmann::json poisoned() const { return refusals_.list(std::chrono::steady_clock::now()); }
  size_t clear_poison() { return refusals_.clear_poison(); }

  nlohmann::json stats() const;
  // The jobs that were asked for first, at most so many, for people to look at.
  nlohmann::json list(size_t most) const;

 private:
  Reply when_durable(Reply reply);
  void join(const JobPtr& job, CompileJob& request, Reply reply);
  void join_running(const JobPtr& job, CompileJob& request, Reply reply);
  JobPtr create(CompileJob& request);
  JobPtr find_job(const Refusals::Asked& asked);
  static Refusals::Asked limits_of(const Job& job) { return {job.key, job.memory_bytes, job.cpu_seconds}; }
  void serve_waiting(const RequestKey& key, const Served& served);
  void on_disk(const JobPtr& job, const SharedBlob& blob);
  void on_remote(const JobPtr& job, const SharedBlob& blob);
  void enqueue(const JobPtr& job);
  void run(const JobPtr& job);
  void on_outcome(const JobPtr& job, JobOutcome outcome);
  void settle(const JobPtr& job, JobOutcome outcome);
  void on_artifact(const JobPtr& job, const JobOutcome& outcome, const Result<abi::Metadata>& metadata);
  void on_death(const JobPtr& job, const JobOutcome& outcome);
  Result<SharedBlob> make_blob(const Job& job, const JobOutcome& outcome, const Result<abi::Metadata>& metadata) const;
  void keep_crash(const Job& job, const std::string& cause);
  nlohmann::json record_of(const Job& job) const;
  void on_deadline(const WaiterId& id, uint64_t serial);
  void leave(const WaiterId& id, const Error* reason);
  bool nearly_done(const Job& job) const;
  void finish_late(const JobPtr& job);
  void abandon(const JobPtr& job);
  void finish(const JobPtr& job, const Result<Served>& result);
  void remember(const Job& job, const std::string& outcome);
  void remember_at_once(const CompileJob& request, std::string outcome);
  void refuse(const CompileJob& request, Waiter& waiter, const Error& failure);
  void answer(const RequestKey& key, Waiter& waiter, const Result<Served>& result,
              const std::string& job_trace_id = {});
  void end(Job& job);
  uint64_t memory_of(uint64_t asked) const;
  std::vector<JobPtr> queued() const;
  bool queue_full(const Job& job) const;
  static Error memory_error(const std::string& what);
  Error no_worker_error(const std::string& why) const;
  Error full_error(const std::string& message) const;

  asio::io_context& io_;
  const Config& config_;
  Log& log_;
  Metrics& metrics_;
  Store& store_;
  WorkerPool& pool_;
  History& history_;
  const std::string builder_id_;
  JobQueue queue_;
  Shares lookup_bytes_;         // of requests that are looked up
  Shares interactive_waiters_;  // by the process that asks
  Refusals refusals_;
  Verifier verifier_;
  std::map<Refusals::Asked, JobPtr> jobs_;
  std::map<WaiterId, JobPtr> waiters_;
  uint64_t next_job_ = 1, next_serial_ = 1;
  double average_ms_ = 20;
  unsigned background_running_ = 0;
  size_t storing_ = 0;
  bool draining_ = false;
};

}  // namespace kiln::server

// Worker processes: spawned when there is work, one job at a time each, replaced when they die.
//
// A worker's death is known for certain when both its channel has ended and the zygote has reported how it went: only
// then is everything it wrote read, and only then is its job given up.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "config.h"
#include "connections/frame_socket.h"
#include "processes/worker_words.h"
#include "processes/zygote_process.h"
#include "reports/history.h"
#include "reports/log.h"
#include "reports/metrics.h"
#include "scheduling/crash_storm.h"

namespace kiln::server {

struct JobOutcome {
  enum Kind { kArtifact, kFailed, kWorkerDied } kind = kWorkerDied;
  std::string metadata;  // kArtifact
  Bytes code;            // kArtifact
  Error failure;         // kFailed
  std::string cause;     // kWorkerDied: "signal 11"
  bool out_of_memory = false;
  bool out_of_time = false;  // of the processor time that a job may use
  bool never_ran = false;    // kWorkerDied: there was no worker, or all ended with the zygote; the job is not to blame
  Phases phases;
};

// Of another process of this user; zero where there is none.
std::chrono::nanoseconds processor_time(pid_t pid);

class WorkerPool {
 public:
  using WorkerId = uint64_t;
  using Done = std::function<void(JobOutcome)>;
  struct Handlers {
    // The builder id is known: at the start, and again whenever the zygote was restarted.
    std::function<void(std::string builder_id, std::string native_target)> ready;
    std::function<void()> slot_free;
    std::function<void(std::string reason)> start_failed;
  };

  WorkerPool(asio::io_context& io, const Config& config, std::shared_ptr<Bytes> scratch, Log& log, Metrics& metrics);
  ~WorkerPool();

  Result<void> start(Handlers handlers);
  unsigned size() const { return size_; }
  unsigned busy() const;
  // A job can start at once.
  bool has_slot() const;
  // Why spawning rests, if it does: many workers died lately.
  bool backing_off() const;
  // Why no worker can be had until kiln-worker starts again, which is tried meanwhile; empty where one can.
  const std::string& unavailable() const { return unavailable_; }
  // `memory`: of address space; 0: what workers have. Where there is no memory to ask for it, it throws, and is not
  // done.
  WorkerId run(uint64_t job, std::string json, SharedBytes body, uint64_t memory, Done done);
  // The job of this worker is no longer wanted: TERM, then KILL. `done` is not called.
  void abort(WorkerId worker);
  void stop();

  nlohmann::json stats() const;

 private:
  struct Worker {
    WorkerId id = 0;
    pid_t pid = 0;
    wire::UniqueFd pidfd;
    std::shared_ptr<FrameSocket> socket;
    Done done;  // set while a job runs
    uint64_t job = 0;
    uint64_t memory_bytes = 0;            // that it may be given
    std::chrono::nanoseconds idle_cpu{};  // what it had used of a processor when its last job ended
    size_t phases_told = 0;
    bool doomed = false;    // told to die
    bool retiring = false;  // leaves by itself, or is idle for too long
    bool ended = false;     // the channel has ended
    bool exited = false;
    std::string complaint;  // what it did wrong on its channel
    std::string exit_cause;
    std::string phase;
    Phases phases;
    std::chrono::steady_clock::time_point since;
    std::unique_ptr<asio::steady_timer> kill_timer;
    std::chrono::milliseconds unheard{};  // of by the zygote, which has something to say

    bool is_unheard() const;
    bool idle() const { return !done && !doomed && !retiring && !ended && !exited; }
  };

  uint64_t usual_memory() const;
  size_t places_taken() const;
  Worker* worker_for(uint64_t memory);
  Worker* spawn(uint64_t memory);
  Worker* find(WorkerId id);
  void on_frame(WorkerId id, wire::Frame frame);
  void on_channel_closed(WorkerId id, const CloseReason& reason);
  void on_spawned(WorkerId id, pid_t pid, wire::UniqueFd pidfd);
  void on_exited(WorkerId id, std::string cause);
  void on_zygote_died(const std::string& reason);
  void restart_zygote();
  void await_hello();
  void restart_stopped_zygote(std::chrono::milliseconds passed);
  void doom(Worker& worker, int signal);
  void expect_end(Worker& worker);
  void dismiss(Worker& worker);
  void on_phase(Worker& worker, const wire::Frame& frame);
  void finish_if_gone(Worker& worker);
  void record_death(const Worker& worker);
  void watch_idle();
  void finish_job(Worker& worker, JobOutcome outcome);

  asio::io_context& io_;
  const Config& config_;
  std::shared_ptr<Bytes> scratch_;
  Log& log_;
  Metrics& metrics_;
  Handlers handlers_;
  WorkerWords words_;
  ZygoteProcess zygote_;
  asio::steady_timer restart_timer_, idle_timer_, backoff_timer_;
  std::chrono::milliseconds restart_delay_{100};
  bool greeted_ = false;  // by the zygote that runs
  std::string unavailable_;
  const unsigned size_;
  std::map<WorkerId, Worker> workers_;
  WorkerId next_id_ = 1;
  bool stopped_ = false;
  CrashStorm storm_;
};

}  // namespace kiln::server

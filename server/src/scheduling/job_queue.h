// Jobs that wait for a worker. Interactive before background; within a class the clients take turns, so that one that
// floods the queue delays itself, and one that had nothing waiting goes before the others' next turn (as the new flows
// of FQ-CoDel, RFC 8290). The job that has waited longest is passed over kMostPassedOver times at most, so that clients
// that come for one job each do not starve one that stays; background jobs that waited long enough
// take turns with the interactive ones, so that neither starves, however many there are of the other.
#pragma once

#include <chrono>
#include <deque>
#include <map>

#include "scheduling/job.h"
#include "scheduling/shares.h"

namespace kiln::server {

class JobQueue {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr size_t kMostPassedOver = 4;

  explicit JobQueue(std::chrono::milliseconds ageing) : ageing_(ageing) {}

  // The job's state must be kQueued. One whose state changes is skipped later, so leaving the queue costs nothing; the
  // caller says so with `dropped`.
  void push(const JobPtr& job);
  // A job that had its turn already: a worker died under it.
  void push_again(const JobPtr& job);
  // A background job that an interactive request now waits for.
  void promote(const JobPtr& job);
  void dropped(const Job& job);

  // The next job, or null. `with_background` is false while the last free worker is kept for interactive jobs.
  JobPtr pop(TimePoint now, bool with_background);

  size_t size() const { return size_; }
  size_t size(wire::Priority priority) const;
  uint64_t bytes() const { return bytes_.total(); }
  // For one more of this client; the limits are of one client (shares.h).
  bool has_room(uint64_t client, uint64_t bytes, uint64_t most_jobs, uint64_t most_bytes) const {
    return jobs_.admits(client, 1, most_jobs) && bytes_.admits(client, bytes, most_bytes);
  }

 private:
  struct Class {
    std::map<uint64_t, std::deque<JobPtr>> by_client;
    std::deque<uint64_t> fresh;  // had nothing waiting for a whole round
    std::deque<uint64_t> turns;  // each keeps its place for one round after its last job, so that it is not fresh again
    std::deque<JobPtr> arrivals;
    size_t passed_over = 0;  // the oldest, in so many turns

    void push(const JobPtr& job, bool front);
    JobPtr next();    // null when empty
    JobPtr oldest();  // likewise
    void take(const JobPtr& job);
    void sweep();  // forgets jobs that left

    JobPtr front();  // whose client has its turn
    void pop_front();
  };

  void add(const JobPtr& job, bool front);
  void subtract(const Job& job);

  std::chrono::milliseconds ageing_;
  Class interactive_, background_;
  bool overtook_ = false;       // the last job was an aged one, and an interactive one waited
  size_t size_ = 0, left_ = 0;  // those in the queue; those that left it and still have a place
  size_t interactive_size_ = 0;
  Shares jobs_, bytes_;
};

}  // namespace kiln::server

// Jobs that wait for a worker. Interactive before background; within a class the clients take turns, so that one that
// floods the queue delays itself, and one that had nothing waiting goes before the others' next turn (as the new flows
// of FQ-CoDel, RFC 8290); background jobs that waited long enough
// take turns with the interactive ones, so that neither starves, however many there are of the other.
#pragma once

#include <chrono>
#include <deque>
#include <map>

#include "job.h"

namespace kiln::server {

class JobQueue {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

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
  uint64_t bytes() const { return bytes_; }

 private:
  struct Class {
    std::map<uint64_t, std::deque<JobPtr>> by_client;
    std::deque<uint64_t> fresh;  // had nothing waiting for a whole round
    std::deque<uint64_t> turns;  // each keeps its place for one round after its last job, so that it is not fresh again

    void push(const JobPtr& job, bool front);
    JobPtr front();  // null when empty; forgets jobs that left
    void pop_front();
    void sweep();  // forgets all of them
  };

  void add(const JobPtr& job, bool front);
  void subtract(const Job& job);

  std::chrono::milliseconds ageing_;
  Class interactive_, background_;
  bool overtook_ = false;       // the last job was an aged one, and an interactive one waited
  size_t size_ = 0, left_ = 0;  // those in the queue; those that left it and still have a place
  size_t interactive_size_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace kiln::server

// One established connection. Whichever waiting thread finds nobody reading reads for all of them, so that a lone
// caller never waits for another thread to be scheduled.
#pragma once

#include <sys/types.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <stop_token>
#include <vector>

#include "kiln/wire/channel.h"
#include "kiln/wire/entry.h"
#include "kiln/wire/messages.h"
#include "lifetime.h"

namespace kiln::client {

// How long a session waits for a daemon that may be stopped, or hang.
struct Patience {
  using Time = std::chrono::milliseconds;
  Time write = Time(10'000);
  // A call that takes longer asks from time to time whether the daemon still answers anybody, and how long for that.
  Time silence = Time(10'000), ping = Time(20'000);
  Time cancel = Time(2000);
};

class Session {
 public:
  // `child` is the process of a `kilnd --pipe`, which ends with the session; -1 for none.
  Session(wire::Channel channel, wire::Welcome welcome, pid_t child, const Patience& patience = {});
  ~Session();

  const wire::Welcome& welcome() const { return welcome_; }
  const wire::BuilderTag& builder() const { return builder_; }
  bool broken() const;
  // The daemon had gone before anybody asked it for anything: what was asked then was not sent.
  bool ended_idle() const;

  // Sends the frame under an id of its own and returns all replies to it. A stop request sends CANCEL, and the daemon's
  // answer to that is the result, or kCancelled where it does not come soon. kUnavailable: the connection is gone.
  // kDeadlineExceeded: also before the deadline, where the daemon has stopped answering anybody.
  Result<std::vector<wire::Frame>> call(wire::OutFrame frame, std::stop_token stop, wire::Deadline deadline);

  // Until the daemon has closed the connection.
  Result<void> wait_closed(wire::Deadline deadline);

 private:
  struct Pending {
    size_t most = 1;  // frames that it is answered by
    std::vector<wire::Frame> frames;
    std::condition_variable changed;
    std::optional<Error> failure;
    bool done = false;
    bool cancel_wanted = false;
    std::stop_token stop = {};
  };

  // kDeadlineExceeded: nothing was sent. After another failure nobody else can go on either.
  Result<void> write(const wire::OutFrame& frame, wire::Deadline deadline);
  // Until it is done, or a cancel is wanted, or the time has come.
  void wait(std::unique_lock<std::mutex>& lock, Pending& pending, wire::Deadline until);
  // Until it is done, or there is a reason to give it up, which is the result.
  Result<void> await_replies(std::unique_lock<std::mutex>& lock, const wire::OutFrame& frame, Pending& pending,
                             wire::Deadline deadline);
  Result<void> cancel(std::unique_lock<std::mutex>& lock, uint64_t id, Pending& pending, wire::Deadline deadline);
  // A stop ends it, too.
  Result<void> check_alive(const std::stop_token& stop);
  void read_for_all(std::unique_lock<std::mutex>& lock, wire::Deadline until);
  void dispatch(wire::Frame frame);
  void fail_all(const Error& reason);
  void wake_reader();

  wire::Channel channel_;
  std::optional<ClosedInChild> not_inherited_;
  const wire::Welcome welcome_;
  const wire::BuilderTag builder_;
  const pid_t child_;
  const Patience patience_;
  wire::UniqueFd wake_;

  std::timed_mutex write_mutex_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Pending*> pending_;
  uint64_t next_id_ = 1;
  size_t in_flight_ = 0;  // requests that were sent, and whose callers wait
  bool reading_ = false, ended_idle_ = false;
  std::optional<Error> broken_;
};

}  // namespace kiln::client

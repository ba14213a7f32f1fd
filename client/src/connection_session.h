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

namespace kiln::client {

class Session {
 public:
  // `child` is the process of a `kilnd --pipe`, which ends with the session; -1 for none.
  Session(wire::Channel channel, wire::Welcome welcome, pid_t child);
  ~Session();

  const wire::Welcome& welcome() const { return welcome_; }
  const wire::BuilderTag& builder() const { return builder_; }
  bool broken() const;

  // Sends the frame under an id of its own and returns all replies to it. A stop request sends CANCEL, and the daemon's
  // answer to that is the result. kUnavailable: the connection is gone.
  Result<std::vector<wire::Frame>> call(wire::OutFrame frame, std::stop_token stop, wire::Deadline deadline);

  // Until the daemon has closed the connection.
  Result<void> wait_closed(wire::Deadline deadline);

 private:
  struct Pending {
    std::vector<wire::Frame> frames;
    std::condition_variable changed;
    std::optional<Error> failure;
    bool done = false;
    bool cancel_wanted = false, cancel_sent = false;
  };

  Result<void> write(const wire::OutFrame& frame);
  void wait(std::unique_lock<std::mutex>& lock, uint64_t id, Pending& pending, wire::Deadline deadline);
  void read_for_all(std::unique_lock<std::mutex>& lock, Pending& mine, wire::Deadline deadline);
  void dispatch(wire::Frame frame);
  void fail_all(const Error& reason);
  void wake_reader();

  wire::Channel channel_;
  const wire::Welcome welcome_;
  const wire::BuilderTag builder_;
  const pid_t child_;
  wire::UniqueFd wake_;

  std::mutex write_mutex_;
  mutable std::mutex mutex_;
  std::map<uint64_t, Pending*> pending_;
  uint64_t next_id_ = 1;
  bool reading_ = false;
  std::optional<Error> broken_;
};

}  // namespace kiln::client

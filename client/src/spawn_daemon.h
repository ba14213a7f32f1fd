// Starting a daemon, or a child that serves this process alone.
#pragma once

#include <sys/types.h>

#include <string>

#include "kiln/client/connection.h"
#include "kiln/wire/channel.h"

namespace kiln::client {

// A socket connected to a daemon in options.runtime_dir that is just being started, by this process or by another: one
// lock decides, and everybody else waits for that one. kDeadlineExceeded: not in time; what this process began is
// killed.
Result<wire::UniqueFd> connect_or_start(const ConnectOptions& options, wire::Deadline deadline);

struct PipeChild {
  wire::UniqueFd socket;
  pid_t pid = -1;
};
Result<PipeChild> start_pipe_child(const ConnectOptions& options);
// Its socket must be closed already: it sees end-of-file, cancels what runs and exits; one that does not is killed.
inline constexpr auto kChildPatience = std::chrono::seconds(2);
void end_pipe_child(pid_t pid, std::chrono::steady_clock::duration patience = kChildPatience);

}  // namespace kiln::client

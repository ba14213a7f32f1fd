// Starting a daemon, or a child that serves this process alone.
#pragma once

#include <sys/types.h>

#include <string>

#include "kiln/client/connection.h"
#include "kiln/wire/fd.h"

namespace kiln::client {

// A socket connected to a daemon in options.runtime_dir that is just being started, by this process or by another: one
// lock decides, and everybody else waits for that one.
Result<wire::UniqueFd> connect_or_start(const ConnectOptions& options);

struct PipeChild {
  wire::UniqueFd socket;
  pid_t pid = -1;
};
Result<PipeChild> start_pipe_child(const ConnectOptions& options);
// Its socket must be closed already: it sees end-of-file, cancels what runs and exits; one that does not is killed.
void end_pipe_child(pid_t pid);

}  // namespace kiln::client

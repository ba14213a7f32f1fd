// Descriptors are few where a limit says so (RLIMIT_NOFILE). Connections, and files that replies can do without, leave
// those that workers, stores and logs need.
#pragma once

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "kiln/wire/fd.h"

namespace kiln::server {

// Numbers from here on are not for clients. The lowest free number is what a new descriptor gets.
inline int first_reserved_descriptor(unsigned workers) {
  constexpr rlim_t kOthers = 16, kEachWorker = 3;  // its channel, both ends while it is forked, and its pidfd
  rlimit files{};
  if (::getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  const rlim_t limit = std::min<rlim_t>(files.rlim_cur, 1 << 20);
  return static_cast<int>(limit - std::min<rlim_t>(limit / 2, kOthers + kEachWorker * workers));
}

// How many there are for clients now; one at least.
inline size_t descriptors_for_clients(unsigned workers) {
  const wire::UniqueFd lowest(::fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0));
  return static_cast<size_t>(std::max(1, first_reserved_descriptor(workers) - lowest.get()));
}

}  // namespace kiln::server

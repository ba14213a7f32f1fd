// What somebody who has taken over a worker would try, by name. Run inside a live worker, as part of a job.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace kiln::service_test {

struct Prey {
  pid_t daemon = 0, group = 0;
  std::string directory;  // with "key", a secret, and what is to stay as it is
};

// Of all attempts.
std::vector<std::string> attempt_names();
// 0: it worked; else errno.
int attempt(const std::string& name, const Prey& prey);

}  // namespace kiln::service_test

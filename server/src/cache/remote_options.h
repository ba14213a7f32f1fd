// The remote tier's options: where it is and how it is trusted, who writes, and when it is left alone.
#pragma once

#include "kiln/redis/access.h"

namespace kiln::server {

struct RemoteOptions : redis::Access {
  std::string mode = "read";
  size_t breaker_failures = 5;
  Milliseconds breaker_window{10'000};
  Milliseconds breaker_rest{30'000};

  bool writes() const { return mode == "readwrite"; }
};

}  // namespace kiln::server

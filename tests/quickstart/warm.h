// Requests from a second process for what the first one had compiled.
#pragma once

#include <string>

#include "cases.h"
#include "kiln/client/connection.h"

namespace kiln::quickstart {

struct WarmRequests {
  const client::Connection& connection;  // to the daemon in `runtime_dir`
  std::string runtime_dir;
  std::string target;  // as the daemon names it

  // Runs this executable again as a child that asks the daemon for the case's artifact many times: the median
  // microseconds of one request.
  Result<double> median_us(const Case& test) const;
};

// The child's main: prints the median. `key`: a request's, in hexadecimal.
int warm_child(const std::string& runtime_dir, const std::string& key);

}  // namespace kiln::quickstart

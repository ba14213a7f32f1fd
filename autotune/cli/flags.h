// The command line of kiln-tune. docs/use/tuning.md is the manual.
#pragma once

#include <string>
#include <vector>

#include "kiln/autotune/batch.h"
#include "kiln/autotune/fleet.h"

namespace kiln::autotune::cli {

struct Flags {
  std::vector<std::string> jobs;
  std::string targets = "cpu", budget, search = "auto", cache = "cold", bucket = "exact";
  std::string report, golden, database, runner, shipped, ship, predict;
  bool resume = false, json = false, frozen = false, verbose = false;
  uint64_t seed = 0;
  double share = 0.25;
  int threads = 0;
  std::string fleet, worker;  // URLs: of who asks, of who works
  std::string lease = "60s";
  redis::Access access;
};

Result<BatchOptions> batch_options(const Flags& flags);
// Of `--fleet` or `--worker`, for this compiler. Reads the secrets.
Result<FleetOptions> fleet_options(const Flags& flags, const std::string& builder);

// "90s", "30m", "1h30m", "500ms"; a number alone is seconds.
Result<Seconds> parse_duration(const std::string& flag, const std::string& text);
// "cpu,cuda" in parts; what begins with + or - is a feature of the target before it.
std::vector<std::string> split_targets(const std::string& text);

}  // namespace kiln::autotune::cli

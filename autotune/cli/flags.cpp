#include "flags.h"

#include <algorithm>
#include <charconv>

#include "search/option_names.h"

namespace kiln::autotune::cli {
Result<Seconds> parse_duration(const std::string& flag, const std::string& text) {
  constexpr std::pair<const char*, double> kUnits[] = {{"ms", 1e-3}, {"s", 1}, {"m", 60}, {"h", 3600}};
  double total = 0;
  const char* next = text.data();
  const char* end = next + text.size();
  while (next != end) {
    double value = 0;
    const auto [after, status] = std::from_chars(next, end, value, std::chars_format::fixed);
    if (status != std::errc() || value < 0) break;
    next = after;
    while (next != end && *next >= 'a' && *next <= 'z') ++next;
    const std::string unit(after, next);
    double scale = unit.empty() && next == end ? 1 : 0;
    for (const auto& [name, seconds] : kUnits) {
      if (unit == name) scale = seconds;
    }
    if (scale == 0) break;
    total += value * scale;
    if (next == end) return Seconds(total);
  }
  return invalid_argument(flag + " " + text + ": write a time such as 90s, 30m or 1h30m");
}

std::vector<std::string> split_targets(const std::string& text) {
  std::vector<std::string> out;
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, comma - start);
    if (!out.empty() && (part.starts_with('+') || part.starts_with('-')))
      out.back() += "," + part;
    else if (!part.empty())
      out.push_back(part);
    start = comma + 1;
  }
  return out;
}

Result<BatchOptions> batch_options(const Flags& flags) {
  BatchOptions out;
  auto search = parse_name("--search", flags.search, kSearchNames);
  if (!search) return search.error();
  auto cache = parse_name("--cache", flags.cache, kCacheNames);
  if (!cache) return cache.error();
  auto bucket = parse_name("--bucket", flags.bucket, kBucketNames);
  if (!bucket) return bucket.error();
  if (!(flags.share > 0 && flags.share <= 1)) return invalid_argument("--share: must be above 0 and at most 1");
  out.tune.search = *search;
  out.tune.cache = *cache;
  out.tune.bucket = *bucket;
  out.tune.seed = flags.seed;
  out.tune.share = flags.share;
  out.tune.frozen = flags.frozen;
  out.resume = flags.resume;
  out.targets = split_targets(flags.targets);
  if (out.targets.empty()) return invalid_argument("--targets: names none");
  if (!flags.budget.empty()) {
    auto budget = parse_duration("--budget", flags.budget);
    if (!budget) return budget.error();
    out.budget = *budget;
  }
  return out;
}

Result<FleetOptions> fleet_options(const Flags& flags, const std::string& builder) {
  const bool working = !flags.worker.empty();
  FleetOptions out;
  out.access = flags.access;
  out.access.url = working ? flags.worker : flags.fleet;
  redis::take_password(out.access);
  if (auto done = redis::complete(out.access, working ? "--worker" : "--fleet"); !done) return done.error();
  out.builder = builder;
  out.kinds = split_targets(flags.targets);
  for (const std::string& kind : out.kinds) {
    if (working && kind != "cpu" && kind != "cuda" && kind != "amd") {
      return invalid_argument("--targets " + kind + ": a worker takes jobs of cpu, cuda or amd");
    }
  }
  auto lease = parse_duration("--lease", flags.lease);
  if (!lease) return lease.error();
  if (*lease < Seconds(1)) return invalid_argument("--lease " + flags.lease + ": a second is the least");
  out.lease = *lease;
  return out;
}

}  // namespace kiln::autotune::cli

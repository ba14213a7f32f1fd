#include "flags.h"

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <utility>

namespace kiln::autotune::cli {
namespace {

template <class Value>
using Names = std::initializer_list<std::pair<const char*, Value>>;

template <class Value>
Result<Value> named(const std::string& flag, const std::string& text, Names<Value> names) {
  std::string all;
  for (const auto& [name, value] : names) {
    if (text == name) return value;
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return invalid_argument(flag + " " + text + ": must be one of " + all);
}

}  // namespace

Result<Seconds> parse_duration(const std::string& text) {
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
  return invalid_argument("--budget " + text + ": write a time such as 90s, 30m or 1h30m");
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
  auto search = named<Search>("--search", flags.search,
                              {{"auto", Search::kAuto},
                               {"exhaustive", Search::kExhaustive},
                               {"random", Search::kRandom},
                               {"halving", Search::kHalving},
                               {"local", Search::kLocal}});
  if (!search) return search.error();
  auto cache = named<Cache>("--cache", flags.cache, {{"cold", Cache::kCold}, {"hot", Cache::kHot}});
  if (!cache) return cache.error();
  auto bucket = named<Bucket>("--bucket", flags.bucket,
                              {{"exact", Bucket::kExact}, {"powers", Bucket::kPowers}, {"facts", Bucket::kFacts}});
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
    auto budget = parse_duration(flags.budget);
    if (!budget) return budget.error();
    out.budget = *budget;
  }
  return out;
}

}  // namespace kiln::autotune::cli

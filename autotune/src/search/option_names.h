// How options of a search are written: on the command line, and where a job travels.
#pragma once

#include <string>
#include <utility>

#include "kiln/autotune/tune.h"

namespace kiln::autotune {

inline constexpr std::pair<const char*, Search> kSearchNames[] = {{"auto", Search::kAuto},
                                                                  {"exhaustive", Search::kExhaustive},
                                                                  {"random", Search::kRandom},
                                                                  {"halving", Search::kHalving},
                                                                  {"local", Search::kLocal}};
inline constexpr std::pair<const char*, Cache> kCacheNames[] = {{"cold", Cache::kCold}, {"hot", Cache::kHot}};
inline constexpr std::pair<const char*, Bucket> kBucketNames[] = {
    {"exact", Bucket::kExact}, {"powers", Bucket::kPowers}, {"facts", Bucket::kFacts}};

template <class Value, size_t N>
const char* name_of(Value value, const std::pair<const char*, Value> (&names)[N]) {
  for (const auto& [name, each] : names) {
    if (each == value) return name;
  }
  return "";
}

// The error lists the names, and begins with `what`.
template <class Value, size_t N>
Result<Value> parse_name(const std::string& what, const std::string& text,
                         const std::pair<const char*, Value> (&names)[N]) {
  std::string all;
  for (const auto& [name, value] : names) {
    if (text == name) return value;
    all += (all.empty() ? "" : ", ") + std::string(name);
  }
  return invalid_argument(what + " " + text + ": must be one of " + all);
}

}  // namespace kiln::autotune

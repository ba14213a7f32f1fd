// The table of a profile.
#include <algorithm>
#include <cstdio>
#include <map>
#include <tuple>

#include "kiln/client/profile.h"

namespace kiln::profile {
namespace {

constexpr std::string_view kNames[] = {"scope", "get",  "compile",  "launch", "run",     "replay",
                                       "copy",  "fill", "allocate", "wait",   "fallback"};

struct Row {
  std::string what, device, name;
  uint64_t count = 0, bytes = 0;
  int64_t total_ns = 0, longest_ns = 0;
};

std::string what_of(const Span& span) { return std::string(kind_name(span.kind)) + (span.on_device ? " done" : ""); }

std::vector<Row> rows_of(const Profile& profile) {
  std::map<std::tuple<std::string, std::string, std::string>, Row> rows;
  for (const Span& span : profile.spans) {
    if (span.kind == Kind::kFallback) continue;
    Row& row = rows[{what_of(span), span.device, span.name}];
    const int64_t ns = span.end_ns - span.begin_ns;
    ++row.count;
    row.bytes += span.bytes;
    row.total_ns += ns;
    row.longest_ns = std::max(row.longest_ns, ns);
  }
  std::vector<Row> out;
  for (auto& [key, row] : rows) {
    std::tie(row.what, row.device, row.name) = key;
    out.push_back(std::move(row));
  }
  std::ranges::stable_sort(out, std::ranges::greater(), &Row::total_ns);
  return out;
}

// Each that differs in name or reason, in the order in which they came.
std::string fallbacks_of(const Profile& profile) {
  struct Fallback {
    uint64_t count = 0, bytes = 0;
  };
  std::vector<const Span*> order;
  std::map<std::pair<std::string_view, std::string_view>, Fallback> all;
  for (const Span& span : profile.spans) {
    if (span.kind != Kind::kFallback) continue;
    Fallback& fallback = all[{span.name, span.detail}];
    if (++fallback.count == 1) order.push_back(&span);
    fallback.bytes += span.bytes;
  }
  std::string out;
  for (const Span* span : order) {
    const auto [count, bytes] = all[{span->name, span->detail}];
    out += "fallback of " + span->name;
    if (count > 1) out += ", " + std::to_string(count) + " times";
    if (bytes > 0) out += ", " + std::to_string(bytes) + " bytes copied";
    out += ": " + span->detail + "\n";
  }
  return out;
}

// Of launches whose time is that of the work: how near to the roof the bytes that they are known to move come.
std::string share_of_roof(const Row& row, const Profile& profile) {
  const auto roof = profile.roofs.find(row.device);
  const bool is_work = row.what == "launch done" || (row.what == "launch" && row.device == "cpu");
  if (roof == profile.roofs.end() || !is_work || row.bytes == 0 || row.total_ns == 0) return "";
  char out[32];
  std::snprintf(out, sizeof out, "%.0f %%",
                100 * static_cast<double>(row.bytes) / static_cast<double>(row.total_ns) / roof->second);
  return out;
}

// Only where roofs are known there is a column for them.
std::string in_roof_column(const Profile& profile, const char* text) {
  if (profile.roofs.empty()) return "";
  char out[32];
  std::snprintf(out, sizeof out, "%8s  ", text);
  return out;
}

std::string line_of(const Row& row, double whole_ns, const Profile& profile) {
  const auto total = static_cast<double>(row.total_ns);
  char rate[32] = "";
  // Memory that is allocated is not moved.
  if (row.bytes > 0 && row.total_ns > 0 && row.what != "allocate") {
    std::snprintf(rate, sizeof rate, "%.1f GB/s", static_cast<double>(row.bytes) / total);
  }
  char numbers[160];
  std::snprintf(numbers, sizeof numbers, "%8llu %12.3f %12.3f %12.3f %6.1f %% %12s  ",
                static_cast<unsigned long long>(row.count), total / 1e6, total / 1e3 / static_cast<double>(row.count),
                static_cast<double>(row.longest_ns) / 1e3, whole_ns > 0 ? 100 * total / whole_ns : 0.0, rate);
  return numbers + in_roof_column(profile, share_of_roof(row, profile).c_str()) + row.what +
         (row.device.empty() ? "" : " " + row.device) + (row.name.empty() ? "" : " " + row.name);
}

}  // namespace

std::string_view kind_name(Kind kind) { return kNames[static_cast<size_t>(kind)]; }

std::string summary(const Profile& profile) {
  const auto whole_ns = static_cast<double>(profile.end_ns - profile.begin_ns);
  char head[160];
  std::snprintf(head, sizeof head, "kiln: %zu spans in %.3f ms\n", profile.spans.size(), whole_ns / 1e6);
  std::string out = head;
  std::snprintf(head, sizeof head, "%8s %12s %12s %12s %8s %12s  ", "count", "total ms", "mean us", "longest us",
                "share", "bytes");
  out += head + in_roof_column(profile, "of roof") + "what\n";
  for (const Row& row : rows_of(profile)) out += line_of(row, whole_ns, profile) + "\n";
  for (const auto& [device, rate] : profile.roofs) {
    std::snprintf(head, sizeof head, "the memory of %.40s gives %.1f GB/s, by a copy\n", device.c_str(), rate);
    out += head;
  }
  out += fallbacks_of(profile);
  if (profile.dropped > 0) out += std::to_string(profile.dropped) + " spans more were not kept\n";
  return out;
}

}  // namespace kiln::profile

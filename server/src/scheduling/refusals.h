// Keys that are answered with an error without spending a worker: those that killed workers (poisoned) and those whose
// compile is known to fail (negative).
#pragma once

#include <algorithm>
#include <chrono>
#include <compare>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "cache/memory_cache.h"
#include "kiln/dsl/result.h"
#include "kiln/wire/messages.h"

namespace kiln::server {

// What happened within some limits says nothing about those who have more.
class Refusals {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Asked {
    RequestKey key{};
    uint64_t memory = 0;       // bytes that its worker may have
    uint64_t cpu_seconds = 0;  // of processor time, likewise
    auto operator<=>(const Asked&) const = default;
    // Of the same key: neither limit is lower.
    bool has_as_much_as(const Asked& other) const { return memory >= other.memory && cpu_seconds >= other.cpu_seconds; }
  };

  Refusals(unsigned poison_kills, std::chrono::milliseconds poison_ttl, std::chrono::milliseconds negative_ttl)
      : poison_kills_(poison_kills), poison_ttl_(poison_ttl), negative_ttl_(negative_ttl) {}

  // True when it has become poisoned.
  bool worker_killed(const Asked& asked, const std::string& cause, TimePoint now) {
    make_room(poison_, now);
    auto& record = poison_[asked];
    if (record.until <= now) record.kills = 0;
    ++record.kills;
    record.until = now + poison_ttl_;
    record.cause = cause;
    return refuses(record, now);
  }

  std::optional<Error> poisoned(const Asked& asked, TimePoint now) const {
    const Poison* record = find(poison_, asked, [&](const Poison& each) { return refuses(each, now); });
    if (!record) return std::nullopt;
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(record->until - now).count();
    Error out = error(ErrorCode::kPoisoned, "this kernel killed " + std::to_string(record->kills) +
                                                " workers (last: " + record->cause + ") and is refused for " +
                                                std::to_string(left / 1000) + " s");
    out.retry_after_ms = static_cast<uint32_t>(left);
    return out;
  }

  // `debug_hash`: messages carry names and lines of the debug section, which is not part of the key.
  void compile_failed(const Asked& asked, size_t debug_hash, const Error& failure, TimePoint now) {
    make_room(negative_, now);
    negative_[asked] = {failure, debug_hash, now + negative_ttl_};
  }

  std::optional<Error> known_failure(const Asked& asked, size_t debug_hash, TimePoint now) const {
    const Negative* record =
        find(negative_, asked, [&](const Negative& each) { return each.until > now && each.debug_hash == debug_hash; });
    return record ? std::optional(record->failure) : std::nullopt;
  }

  nlohmann::json list(TimePoint now) const {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& [asked, record] : poison_) {
      if (!refuses(record, now)) continue;
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(record.until - now).count();
      out.push_back({{"key", to_hex(asked.key)},
                     {"memory_bytes", asked.memory},
                     {"cpu_seconds", asked.cpu_seconds},
                     {"kills", record.kills},
                     {"cause", record.cause},
                     {"left_ms", left}});
    }
    return out;
  }
  // How many keys may be tried again.
  size_t clear_poison() { return std::exchange(poison_, {}).size(); }
  // Of what is recorded from now on.
  void set_times(std::chrono::milliseconds poison_ttl, std::chrono::milliseconds negative_ttl) {
    poison_ttl_ = poison_ttl;
    negative_ttl_ = negative_ttl;
  }

  size_t poisoned_keys(TimePoint now) const {
    return static_cast<size_t>(
        std::count_if(poison_.begin(), poison_.end(), [&](const auto& item) { return refuses(item.second, now); }));
  }
  size_t negative_keys() const { return negative_.size(); }

 private:
  static constexpr size_t kMaxKeys = 4096;
  struct Poison {
    unsigned kills = 0;
    TimePoint until{};
    std::string cause;
  };
  struct Negative {
    Error failure;
    size_t debug_hash = 0;
    TimePoint until{};
  };

  bool refuses(const Poison& record, TimePoint now) const {
    return record.until > now && record.kills >= poison_kills_;
  }

  template <class Record>
  static void make_room(std::map<Asked, Record>& map, TimePoint now) {
    if (map.size() < kMaxKeys) return;
    std::erase_if(map, [now](const auto& item) { return item.second.until <= now; });
    if (map.size() >= kMaxKeys) map.clear();
  }

  // Of those of this key that had as much, or more.
  template <class Record, class Fits>
  static const Record* find(const std::map<Asked, Record>& map, const Asked& asked, const Fits& fits) {
    for (auto it = map.lower_bound({asked.key}); it != map.end() && it->first.key == asked.key; ++it) {
      if (it->first.has_as_much_as(asked) && fits(it->second)) return &it->second;
    }
    return nullptr;
  }

  unsigned poison_kills_;
  std::chrono::milliseconds poison_ttl_, negative_ttl_;
  std::map<Asked, Poison> poison_;
  std::map<Asked, Negative> negative_;
};

}  // namespace kiln::server

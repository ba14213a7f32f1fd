// Keys that are answered with an error without spending a worker: those that killed workers (poisoned) and those whose
// compile is known to fail (negative).
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <unordered_map>

#include "kiln/dsl/result.h"
#include "kiln/wire/messages.h"
#include "memory_cache.h"

namespace kiln::server {

inline size_t debug_hash(const Bytes& compile_body) {
  auto parts = wire::split_compile_body(compile_body);
  if (!parts) return 0;
  return std::hash<std::string_view>{}({reinterpret_cast<const char*>(parts->debug.data()), parts->debug.size()});
}

class Refusals {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Refusals(unsigned poison_kills, std::chrono::milliseconds poison_ttl, std::chrono::milliseconds negative_ttl)
      : poison_kills_(poison_kills), poison_ttl_(poison_ttl), negative_ttl_(negative_ttl) {}

  // True when the key has become poisoned.
  bool worker_killed(const RequestKey& key, const std::string& cause, TimePoint now) {
    if (poison_.size() >= kMaxKeys) forget_expired(poison_, now);
    if (poison_.size() >= kMaxKeys) poison_.clear();
    auto& record = poison_[key];
    if (record.until <= now) record.kills = 0;
    ++record.kills;
    record.until = now + poison_ttl_;
    record.cause = cause;
    return record.kills >= poison_kills_;
  }

  std::optional<Error> poisoned(const RequestKey& key, TimePoint now) const {
    auto it = poison_.find(key);
    if (it == poison_.end() || it->second.until <= now || it->second.kills < poison_kills_) return std::nullopt;
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(it->second.until - now).count();
    Error out = error(ErrorCode::kPoisoned, "this kernel killed " + std::to_string(it->second.kills) +
                                                " workers (last: " + it->second.cause + ") and is refused for " +
                                                std::to_string(left / 1000) + " s");
    out.retry_after_ms = static_cast<uint32_t>(left);
    return out;
  }

  // `debug_hash`: messages carry names and lines of the debug section, which is not part of the key.
  void compile_failed(const RequestKey& key, size_t debug_hash, const Error& failure, TimePoint now) {
    if (negative_.size() >= kMaxKeys) forget_expired(negative_, now);
    if (negative_.size() >= kMaxKeys) negative_.clear();
    negative_[key] = {failure, debug_hash, now + negative_ttl_};
  }

  std::optional<Error> known_failure(const RequestKey& key, size_t debug_hash, TimePoint now) const {
    auto it = negative_.find(key);
    if (it == negative_.end() || it->second.until <= now || it->second.debug_hash != debug_hash) return std::nullopt;
    return it->second.failure;
  }

  nlohmann::json list(TimePoint now) const {
    nlohmann::json out = nlohmann::json::array();
    for (const auto& [key, record] : poison_) {
      if (!poisoned(key, now)) continue;
      auto left = std::chrono::duration_cast<std::chrono::milliseconds>(record.until - now).count();
      out.push_back({{"key", to_hex(key)}, {"kills", record.kills}, {"cause", record.cause}, {"left_ms", left}});
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
        std::count_if(poison_.begin(), poison_.end(), [&](const auto& item) { return poisoned(item.first, now); }));
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

  template <class Map>
  static void forget_expired(Map& map, TimePoint now) {
    std::erase_if(map, [now](const auto& item) { return item.second.until <= now; });
  }

  unsigned poison_kills_;
  std::chrono::milliseconds poison_ttl_, negative_ttl_;
  std::unordered_map<RequestKey, Poison, KeyHash> poison_;
  std::unordered_map<RequestKey, Negative, KeyHash> negative_;
};

}  // namespace kiln::server

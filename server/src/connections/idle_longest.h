// Which of many connections has been idle for longest. To ask each of them takes the kernel's word, so that it is done
// for several who come, and not once for each: what it costs is worth what it found, or is rare.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <utility>

namespace kiln::server {

// `Connection` has idle() and last_heard().
template <class Connection>
class IdleLongest {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::milliseconds kRest{10};  // after a look that found few of those it asked
  static constexpr size_t kFew = 16, kMany = 64;         // one of so many, where there are many

  // Of those that are due; null where none is idle. It is not given again.
  template <class Due>
  std::shared_ptr<Connection> next(const std::map<uint64_t, std::shared_ptr<Connection>>& all, const Due& is_due) {
    if (auto known = next_known(is_due)) return known;
    const auto now = Clock::now();
    if (few_ && now - looked_ < kRest) return nullptr;
    look(all, is_due);
    looked_ = now;
    return next_known(is_due);
  }

 private:
  struct Found {
    Clock::time_point heard;
    std::weak_ptr<Connection> connection;
  };

  template <class Due>
  std::shared_ptr<Connection> next_known(const Due& is_due) {
    while (!found_.empty()) {
      const Found oldest = std::move(found_.front());
      found_.pop_front();
      auto out = oldest.connection.lock();
      if (out && out->last_heard() == oldest.heard && is_due(*out) && out->idle()) return out;
    }
    return nullptr;
  }

  template <class Due>
  void look(const std::map<uint64_t, std::shared_ptr<Connection>>& all, const Due& is_due) {
    size_t asked = 0;
    for (const auto& [id, each] : all) {
      if (!is_due(*each)) continue;
      ++asked;
      if (each->idle()) found_.push_back({each->last_heard(), each});
    }
    std::ranges::sort(found_, {}, &Found::heard);
    few_ = asked >= kMany && found_.size() < asked / kFew;
  }

  std::deque<Found> found_;
  Clock::time_point looked_{};
  bool few_ = false;
};

}  // namespace kiln::server

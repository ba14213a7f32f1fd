// Room that is shared out between client processes: one may have `limit`, and no more than is left of twice that. So a
// greedy one fills its own part, whoever comes then has room, and all together have a bound.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <unordered_map>

namespace kiln::server {

class Shares {
 public:
  // Whether the process may have so much more.
  bool admits(uint64_t owner, uint64_t amount, uint64_t limit) const {
    const uint64_t wanted = held(owner) + amount;
    return wanted <= limit && wanted + total_ <= 2 * limit;
  }
  void take(uint64_t owner, uint64_t amount) {
    held_[owner] += amount;
    total_ += amount;
  }
  // Of what it has taken.
  void give_back(uint64_t owner, uint64_t amount) {
    total_ -= amount;
    const auto it = held_.find(owner);
    if ((it->second -= amount) == 0) held_.erase(it);
  }
  uint64_t held(uint64_t owner) const {
    const auto it = held_.find(owner);
    return it == held_.end() ? 0 : it->second;
  }
  // What the greediest has.
  uint64_t largest() const {
    uint64_t out = 0;
    for (const auto& [owner, amount] : held_) out = std::max(out, amount);
    return out;
  }
  uint64_t total() const { return total_; }

 private:
  std::unordered_map<uint64_t, uint64_t> held_;
  uint64_t total_ = 0;
};

// Takes room, which is given back when the last copy is gone.
inline std::shared_ptr<const void> take_room(std::shared_ptr<Shares> shares, uint64_t owner, uint64_t amount) {
  shares->take(owner, amount);
  Shares* const of = shares.get();
  return {of, [shares = std::move(shares), owner, amount](const void*) { shares->give_back(owner, amount); }};
}

}  // namespace kiln::server

// Room that is shared out between client processes: one may have `limit`, and no more than is left of twice that. So a
// greedy one fills its own part, whoever comes then has room, and all together have a bound.
#pragma once

#include <cstdint>
#include <unordered_map>

namespace kiln::server {

class Shares {
 public:
  // Whether the process may have so much more.
  bool admits(uint64_t owner, uint64_t amount, uint64_t limit) const {
    const auto it = held_.find(owner);
    const uint64_t wanted = (it == held_.end() ? 0 : it->second) + amount;
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
  uint64_t total() const { return total_; }

 private:
  std::unordered_map<uint64_t, uint64_t> held_;
  uint64_t total_ = 0;
};

}  // namespace kiln::server

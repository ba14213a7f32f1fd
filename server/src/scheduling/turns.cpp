// Rounds are events of the loop: what is ready when one is asked for comes before it.
#include "scheduling/turns.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <utility>
#include <vector>

namespace kiln::server {

// Where nobody waits, nobody was kept from anything.
void Turns::look_at_clock(Clock::time_point now) {
  if (!waiting_.empty() || now - began_ <= kRound) return;
  began_ = now;
  used_.clear();
}

bool Turns::spend(uint64_t owner, Clock::duration used, Clock::time_point now) {
  look_at_clock(now);
  auto& all = used_[owner];
  all = std::min<Clock::duration>(all + used, kMostDebt);
  return all >= kTurn;
}

bool Turns::must_wait(uint64_t owner, Clock::time_point now) {
  look_at_clock(now);
  if (waiting_.contains(owner)) return true;
  const auto used = used_.find(owner);
  return used != used_.end() && used->second >= kTurn;
}

void Turns::wait(uint64_t owner, std::function<void()> go_on) {
  waiting_[owner].push_back(std::move(go_on));
  post();
}

void Turns::post() {
  if (!std::exchange(posted_, true)) boost::asio::post(io_, [this] { run_round(); });
}

void Turns::run_round() {
  posted_ = false;
  began_ = Clock::now();
  for (auto& [owner, used] : used_) used -= kTurn;
  std::erase_if(used_, [](const auto& item) { return item.second <= Clock::duration::zero(); });
  std::vector<uint64_t> owners;
  for (const auto& [owner, each] : waiting_) owners.push_back(owner);
  for (uint64_t owner : owners) run_turn(owner);
  if (!waiting_.empty()) post();
}

void Turns::run_turn(uint64_t owner) {
  for (auto of = waiting_.find(owner); of != waiting_.end() && used_[owner] < kTurn; of = waiting_.find(owner)) {
    const auto go_on = std::move(of->second.front());
    of->second.pop_front();
    if (of->second.empty()) waiting_.erase(of);
    go_on();
  }
}

}  // namespace kiln::server

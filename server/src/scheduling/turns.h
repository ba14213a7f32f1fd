// The io thread's time, shared out between client processes: one that has used up its turn goes on behind the others
// that are ready, all its connections together.
#pragma once

#include <boost/asio/io_context.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <unordered_map>

namespace kiln::server {

// A round is what was ready at one moment; in each a process has one turn. Outlives those who wait in it.
class Turns {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::microseconds kTurn{100};
  // Where more passes within a turn, it was not all spent: somebody else had the processor.
  static constexpr std::chrono::milliseconds kMostDebt{10};
  // A process that used its turn so long ago has another one, without waiting for the others.
  static constexpr std::chrono::milliseconds kRound{1};

  explicit Turns(boost::asio::io_context& io) : io_(io) {}

  // So much was done for this process. True when its turn is over.
  bool spend(uint64_t owner, Clock::duration used, Clock::time_point now);
  // Its turn is over, or others of it wait for the next one.
  bool must_wait(uint64_t owner, Clock::time_point now);
  // Calls from the event loop, once it is this process's turn and after those of it that wait already. What is called
  // says what it spends, and may wait again.
  void wait(uint64_t owner, std::function<void()> go_on);

 private:
  void look_at_clock(Clock::time_point now);
  void run_round();
  void run_turn(uint64_t owner);
  void post();

  boost::asio::io_context& io_;
  Clock::time_point began_{};
  std::unordered_map<uint64_t, Clock::duration> used_;  // what was used beyond a turn counts in the next ones
  std::map<uint64_t, std::deque<std::function<void()>>> waiting_;
  bool posted_ = false;
};

}  // namespace kiln::server

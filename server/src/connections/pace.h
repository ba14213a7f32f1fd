// Whether a peer keeps going: in each period that something is unfinished it must finish, or move so many bytes. A byte
// now and then is not enough.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace kiln::server {

class Pace {
 public:
  struct Limits {
    std::chrono::milliseconds period{30'000};
    size_t least = 1u << 20;
  };

  Pace(boost::asio::io_context& io, Limits limits) : timer_(io), limits_(limits) {}

  // Something is unfinished; of no effect while it is. `too_slow` is called once at most, while `owner` lives, which
  // this belongs to.
  void begin(const std::weak_ptr<void>& owner, const std::function<void()>& too_slow) {
    if (std::exchange(running_, true)) return;
    watch(owner, too_slow);
  }
  void moved(size_t bytes) { moved_ += bytes; }
  void end() {
    if (std::exchange(running_, false)) timer_.cancel();
  }

 private:
  void watch(const std::weak_ptr<void>& owner, const std::function<void()>& too_slow) {
    moved_ = 0;
    timer_.expires_after(limits_.period);
    timer_.async_wait([this, owner, too_slow](const boost::system::error_code& failed) {
      const auto keep = owner.lock();
      const auto now = std::chrono::steady_clock::now();
      if (failed || !keep || !running_ || now < timer_.expiry()) return;
      // Who comes late has kept the peer waiting, and not the other way round.
      const bool was_asleep = now - timer_.expiry() > limits_.period / 4;
      if (moved_ >= limits_.least || was_asleep) return watch(owner, too_slow);
      running_ = false;
      too_slow();
    });
  }

  boost::asio::steady_timer timer_;
  const Limits limits_;
  size_t moved_ = 0;
  bool running_ = false;
};

}  // namespace kiln::server

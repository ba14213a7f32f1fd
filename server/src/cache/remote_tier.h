// The tier that hosts share: entries in a Redis, behind memory and disk. docs/reference/service.md, "Remote tier".
//
// Everything but the calls to Redis happens on the io thread. Those block, in threads of their own: two look up, one
// writes. A lookup is answered within the time limits whatever becomes of its thread; writes wait in a bounded queue.
#pragma once

#include <array>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/thread_pool.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cache/memory_cache.h"
#include "cache/remote_options.h"
#include "cache/remote_value.h"
#include "kiln/redis/link.h"
#include "reports/log.h"
#include "scheduling/breaker.h"

namespace kiln::server {

class RemoteTier {
 public:
  // Borrows the options, which are complete().
  RemoteTier(boost::asio::io_context& io, Log& log, const RemoteOptions& options, const std::string& builder_id);
  ~RemoteTier();

  // Calls back on the io thread, with null on a miss and on any failure; at once where the breaker is open.
  void find(const RequestKey& key, std::function<void(SharedBlob)> done);
  // Queued, where this daemon writes.
  void put(const SharedBlob& blob);
  // Something waits to be written, and may be soon.
  bool writing() const { return breaker_.closed() && (write_running_ || !queue_.empty()); }
  // Waits for the calls that run; what was not written is lost.
  void finish();

  nlohmann::json stats() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Lane {
    Lane(const redis::Address& address, const RemoteOptions& options) : link(address, options) {}
    redis::Link link;  // of the thread below
    boost::asio::thread_pool thread{1};
    size_t waiting = 0;
  };
  struct Lookup;
  struct Found;
  using LookupPtr = std::shared_ptr<Lookup>;

  void look_up(const RequestKey& key, bool canary, std::function<void(SharedBlob)> done);
  Found ask(redis::Link& link, const RequestKey& key) const;
  void on_found(const LookupPtr& lookup, Found& found);
  void on_late(const LookupPtr& lookup);
  void settle(const LookupPtr& lookup, const SharedBlob& blob, const redis::ValueReply& reply);
  void pump_writes();
  void on_written(const SharedBlob& blob, const redis::ValueReply& reply);
  void trim_queue();
  void record_failure(const redis::ValueReply& reply, bool counts);
  void arm_canary();
  void send_canary();

  boost::asio::io_context& io_;
  Log& log_;
  const RemoteOptions& options_;
  const RemoteCodec codec_;
  Breaker breaker_;
  boost::asio::steady_timer canary_timer_;
  RequestKey last_key_{};  // asked for by the canary
  std::array<Lane, 2> readers_;
  Lane writer_;
  std::deque<SharedBlob> queue_;  // to be written
  uint64_t queue_bytes_ = 0;
  bool write_running_ = false;
  std::atomic<bool> finished_{false};
  uint64_t hits_ = 0, misses_ = 0, skipped_ = 0, stored_ = 0, dropped_ = 0;
  std::map<std::string, uint64_t> errors_;  // by kind
};

}  // namespace kiln::server

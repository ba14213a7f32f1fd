#include "cache/remote_tier.h"

#include <algorithm>
#include <optional>

#include "cache/thread_work.h"

namespace kiln::server {
namespace {

constexpr size_t kMaxLookups = 256;  // waiting for one thread
constexpr size_t kMaxQueued = 1024;
constexpr uint64_t kMaxQueuedBytes = 64ull << 20;

redis::ValueReply late_reply() { return {redis::Failure::kTimeout, "no answer in time", std::nullopt}; }

}  // namespace

struct RemoteTier::Lookup {
  RequestKey key{};
  bool canary = false;
  bool settled = false;
  Clock::time_point due;
  std::function<void(SharedBlob)> done;
  asio::steady_timer timer;
};

struct RemoteTier::Found {
  redis::ValueReply reply;
  SharedBlob blob;
  std::string rejected;  // why the value was not taken
};

RemoteTier::RemoteTier(asio::io_context& io, Log& log, const RemoteOptions& options, const std::string& builder_id)
    : io_(io),
      log_(log),
      options_(options),
      codec_(builder_id, options.key),
      breaker_({options.breaker_failures, options.breaker_window, options.breaker_rest}),
      canary_timer_(io),
      readers_{Lane(*redis::parse_address(options.url), options), Lane(*redis::parse_address(options.url), options)},
      writer_(*redis::parse_address(options.url), options) {}

RemoteTier::~RemoteTier() { finish(); }

void RemoteTier::finish() {
  if (finished_.exchange(true)) return;
  canary_timer_.cancel();
  for (auto& lane : readers_) lane.thread.join();
  writer_.thread.join();
  if (!queue_.empty()) log_.warn("remote_unwritten", {{"entries", queue_.size()}});
}

void RemoteTier::find(const RequestKey& key, std::function<void(SharedBlob)> done) {
  if (finished_ || !breaker_.closed()) {
    ++skipped_;
    return done(nullptr);
  }
  look_up(key, false, std::move(done));
}

void RemoteTier::look_up(const RequestKey& key, bool canary, std::function<void(SharedBlob)> done) {
  Lane& lane = readers_[0].waiting <= readers_[1].waiting ? readers_[0] : readers_[1];
  if (lane.waiting >= kMaxLookups && !canary) {
    ++errors_["busy"];
    return done(nullptr);
  }
  ++lane.waiting;
  last_key_ = key;
  const auto due = Clock::now() + options_.connect_timeout + options_.timeout;
  auto lookup =
      std::make_shared<Lookup>(Lookup{key, canary, false, due, std::move(done), asio::steady_timer(io_, due)});
  lookup->timer.async_wait([this, lookup](const boost::system::error_code& cancelled) {
    if (!cancelled) on_late(lookup);
  });
  post_work(
      lane.thread, io_,
      [this, &lane, lookup] {
        // Where the time was up before its turn came, nobody waits for it any more.
        const bool late = finished_ || Clock::now() >= lookup->due;
        return late ? Found{late_reply(), nullptr, {}} : ask(lane.link, lookup->key);
      },
      [this, &lane, lookup](Found found) {
        --lane.waiting;
        on_found(lookup, found);
      });
}

// On a thread of its own.
RemoteTier::Found RemoteTier::ask(redis::Link& link, const RequestKey& key) const {
  Found out{link.get(codec_.name(key)), nullptr, {}};
  if (out.reply.failure || !out.reply.value) return out;
  auto entry = codec_.decode(key, *out.reply.value);
  out.reply.value.reset();
  if (entry) {
    out.blob = std::make_shared<const Blob>(Blob{key, std::move(*entry), nullptr});
  } else {
    out.rejected = entry.error().message;
  }
  return out;
}

void RemoteTier::on_found(const LookupPtr& lookup, Found& found) {
  if (lookup->settled) return;
  lookup->timer.cancel();
  if (!found.rejected.empty()) {
    // The server answers, as it should; it is the value that is wrong.
    ++errors_["rejected"];
    log_.warn("remote_rejected", {{"name", codec_.name(lookup->key)}, {"reason", found.rejected}});
  } else if (!found.reply.failure && !lookup->canary) {
    ++(found.blob ? hits_ : misses_);
  }
  settle(lookup, found.blob, found.reply);
}

// Its thread is in a call, or busy with others.
void RemoteTier::on_late(const LookupPtr& lookup) {
  if (lookup->settled) return;
  settle(lookup, nullptr, late_reply());
}

void RemoteTier::settle(const LookupPtr& lookup, const SharedBlob& blob, const redis::ValueReply& reply) {
  lookup->settled = true;
  auto done = std::move(lookup->done);
  if (lookup->canary) {
    if (reply.failure) ++errors_[std::string(to_string(*reply.failure))];
    breaker_.canary_returned(!reply.failure, Clock::now());
    if (!breaker_.closed()) {
      arm_canary();
    } else {
      log_.info("remote_closed");
      pump_writes();
    }
  } else if (reply.failure) {
    record_failure(reply, true);
  }
  done(blob);
}

void RemoteTier::record_failure(const redis::ValueReply& reply, bool counts) {
  ++errors_[std::string(to_string(*reply.failure))];
  log_.debug("remote_failed", {{"kind", to_string(*reply.failure)}, {"reason", reply.detail}});
  if (!counts || !breaker_.failed(Clock::now())) return;
  log_.warn("remote_open", {{"kind", to_string(*reply.failure)}, {"reason", reply.detail}});
  arm_canary();
}

void RemoteTier::arm_canary() {
  canary_timer_.expires_after(options_.breaker_rest);
  canary_timer_.async_wait([this](const boost::system::error_code& cancelled) {
    if (!cancelled && !finished_) send_canary();
  });
}

// A lookup that no request waits for.
void RemoteTier::send_canary() {
  if (!breaker_.try_canary(Clock::now())) return arm_canary();
  look_up(last_key_, true, [](const SharedBlob&) {});
}

void RemoteTier::put(const SharedBlob& blob) {
  if (finished_ || !options_.writes()) return;
  queue_.push_back(blob);
  queue_bytes_ += blob->bytes.size();
  trim_queue();
  pump_writes();
}

// The oldest go: what was compiled last is asked for next.
void RemoteTier::trim_queue() {
  while (queue_.size() > kMaxQueued || queue_bytes_ > kMaxQueuedBytes) {
    queue_bytes_ -= queue_.front()->bytes.size();
    queue_.pop_front();
    ++dropped_;
  }
}

void RemoteTier::pump_writes() {
  if (write_running_ || queue_.empty() || finished_ || !breaker_.closed()) return;
  SharedBlob blob = std::move(queue_.front());
  queue_.pop_front();
  queue_bytes_ -= blob->bytes.size();
  write_running_ = true;
  last_key_ = blob->key;
  post_work(
      writer_.thread, io_,
      [this, blob]() -> std::optional<redis::ValueReply> {
        auto value = codec_.encode(blob->key, blob->bytes);
        if (!value) return redis::ValueReply{redis::Failure::kServer, value.error().message, std::nullopt};
        return writer_.link.set(codec_.name(blob->key), *value);
      },
      [this, blob](const std::optional<redis::ValueReply>& reply) {
        on_written(blob, reply.value_or(redis::ValueReply{redis::Failure::kServer, "no memory", std::nullopt}));
      });
}

void RemoteTier::on_written(const SharedBlob& blob, const redis::ValueReply& reply) {
  write_running_ = false;
  if (!reply.failure) {
    ++stored_;
  } else if (*reply.failure == redis::Failure::kServer) {
    // One that is full, or read-only for us, still answers lookups; and would not take this entry the next time.
    ++dropped_;
    record_failure(reply, false);
  } else {
    queue_.push_front(blob);
    queue_bytes_ += blob->bytes.size();
    trim_queue();
    record_failure(reply, true);
  }
  pump_writes();
}

nlohmann::json RemoteTier::stats() const {
  return {{"remote_state", static_cast<int>(breaker_.state())},
          {"remote_hits_total", hits_},
          {"remote_misses_total", misses_},
          {"remote_skipped_total", skipped_},
          {"remote_errors_total", errors_},
          {"remote_stored_total", stored_},
          {"remote_dropped_total", dropped_},
          {"remote_queue_entries", queue_.size()},
          {"remote_queue_bytes", queue_bytes_}};
}

}  // namespace kiln::server

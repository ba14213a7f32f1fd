// One client: greeting, requests in any number at once, replies in any order.
#pragma once

#include <functional>
#include <memory>
#include <unordered_set>

#include "connections/frame_socket.h"
#include "kiln/wire/messages.h"
#include "processes/tuner_process.h"
#include "reports/reports.h"
#include "scheduling/scheduler.h"

namespace kiln::server {

// What a connection may use of the daemon. Outlives every connection.
struct Services {
  asio::io_context& io;
  const Config& config;
  Log& log;
  Metrics& metrics;
  Store& store;
  Scheduler& scheduler;
  TunerProcess& tuner;
  History& history;
  ClientShares& shares;
  std::string builder_id;
  std::string welcome;  // JSON
  Reports& reports;
  std::function<void(std::string reason)> drain;
  std::function<bool()> outdated;  // the programs are no longer those that this daemon was started from
  std::function<void(uint64_t client)> closed;
  // Its process has ended: it takes a place among those, if there is one.
  std::function<bool(uint64_t client, uint64_t before)> moved;
};

class ClientConnection : public std::enable_shared_from_this<ClientConnection> {
 public:
  // `peer`: by watched().
  ClientConnection(Services& services, uint64_t id, asio::posix::stream_descriptor peer,
                   std::shared_ptr<Bytes> scratch);
  ~ClientConnection();

  void start();
  // Sends what is queued and closes.
  void close();
  // There is something to be sent, or soon will be.
  bool has_output() const { return socket_->pending() > 0 || unkeyed_; }
  // Nothing is asked for and nothing is on its way.
  bool idle() { return in_flight_.empty() && reports_wanted_ == 0 && socket_->quiet(); }
  std::chrono::steady_clock::time_point last_heard() const { return socket_->last_heard(); }
  uint64_t owner() const { return owner_.id; }

 private:
  // A GET_MANY.
  struct Lookups;
  // A COMPILE or TUNE.
  struct Unkeyed;
  struct Keyed;

  void await_hello();
  void on_frame(wire::Frame frame);
  void handle(wire::Frame frame);
  void on_closed(const CloseReason& reason);
  void say_why(const CloseReason& reason);
  bool has_lost_its_process();
  void on_hello(const wire::Frame& frame);
  void on_get(const wire::Frame& frame);
  void on_get_many(wire::Frame frame);
  FrameSocket::Left go_on();
  FrameSocket::Left hash_next();
  FrameSocket::Left look_up_next();
  void look_up(const std::shared_ptr<Lookups>& many, size_t index);
  void answer_lookup(Lookups& many, size_t index, const SharedBlob& blob, Tier tier);
  void spend_since(std::chrono::steady_clock::time_point begun);
  void find_key(wire::Frame& frame, const wire::CompileBody& body, std::function<void(Keyed)> then);
  void on_compile(wire::Frame frame);
  void compile(CompileJob request);
  void on_tune(wire::Frame frame);
  void on_stats(const wire::Frame& frame);
  void on_shutdown(uint64_t id);

  std::string trace_id_of(const std::string& stated, uint64_t id) const;
  bool admit(uint64_t id, const char* type, const std::string& trace_id = {});
  void refuse_for_memory(const wire::Frame& frame, const char* work);
  void refuse(uint64_t id, const char* type, const std::string& trace_id, Error failure);
  void remember_lookup(uint64_t id, const RequestKey& key, const char* outcome, Passage::TimePoint asked);
  void send_found(uint64_t id, const Served& served, const std::string& index = {}, uint32_t flags = wire::flag::kLast);
  void send_missing(uint64_t id, const std::string& index = {}, uint32_t flags = wire::flag::kLast);
  void send_error(uint64_t id, const Error& failure);
  void reject(const std::string& reason, const Error& failure, uint64_t id = 0);
  void finish();

  Services& services_;
  const uint64_t id_;
  Owner owner_;
  const bool is_neighbour_;  // of this process's namespace of processes
  std::shared_ptr<FrameSocket> socket_;
  asio::steady_timer hello_timer_;
  std::string name_;           // from its hello
  size_t reports_wanted_ = 0;  // that are made, or wait to be made
  bool greeted_ = false;
  bool finished_ = false;
  std::unordered_set<uint64_t> in_flight_;
  std::unique_ptr<Unkeyed> unkeyed_;  // the request whose key is not known yet
  std::shared_ptr<Lookups> lookups_;  // of which keys are not looked up yet
  size_t lookups_on_disk_ = 0;
};

}  // namespace kiln::server

// The daemon's end of the tuner: a process beside it (`kiln-tune --serve`) that answers TUNE requests, started with the
// first of them. The daemon only passes frames on, both ways; docs/reference/protocol.md has them.
#pragma once

#include <sys/types.h>

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "config.h"
#include "connections/frame_socket.h"
#include "reports/history.h"
#include "reports/log.h"
#include "reports/metrics.h"

namespace kiln::server {

class TunerProcess {
 public:
  using Reply = std::function<void(Result<std::string> json)>;
  struct Requester {
    uint64_t client = 0, request = 0;
    auto operator<=>(const Requester&) const = default;
  };
  struct Request {
    Requester requester;
    uint64_t owner = 0;  // the client, for the history
    RequestKey key{};
    std::string trace_id, json;
    SharedBytes body;
  };

  TunerProcess(asio::io_context& io, const Config& config, std::shared_ptr<Bytes> scratch, Log& log, Metrics& metrics,
               History& history);
  ~TunerProcess();

  // Replies once, unless the request is forgotten with its client. A tuner that dies costs the requests that wait for
  // it an error each, and is started again for the next one. A process may have as much waiting here as in the queue of
  // compiles (shares.h).
  void submit(Request request, Reply reply);
  void cancel(const Requester& requester);
  void forget_client(uint64_t client);
  // No tuner any more: what waits is refused.
  void stop();

  nlohmann::json stats() const;

 private:
  struct Waiting {
    Request request;  // without its body, which the tuner has
    Reply reply;
    Passage::TimePoint asked;
    std::shared_ptr<const void> place = {}, room = {};  // of its process's shares; its body has them too
  };

  Result<void> start();
  void watch();
  void on_frame(const wire::Frame& frame);
  void on_closed(const CloseReason& reason);
  void remember(const Waiting& waiting, std::string outcome);
  void forget(uint64_t id);
  void end();
  void fail_all(const Error& failure);
  void refuse(const Waiting& waiting, const Error& failure);

  asio::io_context& io_;
  const Config& config_;
  std::shared_ptr<Bytes> scratch_;
  Log& log_;
  Metrics& metrics_;
  History& history_;
  std::shared_ptr<FrameSocket> socket_;
  pid_t pid_ = -1;
  asio::steady_timer look_;
  std::chrono::milliseconds stopped_for_{};  // while somebody waits for it
  uint64_t next_ = 1;
  std::map<uint64_t, Waiting> waiting_;
  // Requests and their bytes until they are answered and their frames are gone.
  std::shared_ptr<Shares> requests_ = std::make_shared<Shares>(), bytes_ = std::make_shared<Shares>();
  unsigned deaths_ = 0;  // since a reply
  std::chrono::steady_clock::time_point died_;
  bool stopped_ = false;
};

}  // namespace kiln::server

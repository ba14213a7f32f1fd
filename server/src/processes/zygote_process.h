// The daemon's end of the zygote: starting it, asking it for workers, hearing of their deaths. The protocol is
// described in codegen/worker/zygote.h.
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "config.h"
#include "connections/frame_socket.h"
#include "reports/log.h"

namespace kiln::server {

class ZygoteProcess {
 public:
  struct Handlers {
    std::function<void(std::string builder_id, std::string native_target)> hello;
    std::function<void(uint64_t worker, pid_t pid, wire::UniqueFd pidfd)> spawned;
    std::function<void(uint64_t worker, std::string cause)> exited;
    std::function<void(std::string reason)> died;
  };

  ZygoteProcess(asio::io_context& io, const Config& config, std::shared_ptr<Bytes> scratch, Handlers handlers);
  ~ZygoteProcess();

  // `words`: its standard output and error, and those of its workers.
  Result<void> start(int words);
  bool running() const { return socket_ != nullptr; }
  // `worker_end` is the worker's end of its channel; it may have so much memory, and take so many jobs.
  void spawn_worker(uint64_t worker, wire::UniqueFd worker_end, uint64_t memory_bytes, uint64_t jobs);
  // Kills it, and with it every worker.
  void stop();

 private:
  void on_frame(wire::Frame frame);
  void on_closed(const CloseReason& reason);

  asio::io_context& io_;
  const Config& config_;
  std::shared_ptr<Bytes> scratch_;
  Handlers handlers_;
  std::shared_ptr<FrameSocket> socket_;
  pid_t pid_ = -1;
};

}  // namespace kiln::server

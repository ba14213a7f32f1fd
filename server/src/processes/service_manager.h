// What a service manager says in the environment, and what it is told: systemd's protocols for sockets and readiness.
#pragma once

#include <chrono>
#include <string>

#include "kiln/dsl/result.h"
#include "kiln/wire/fd.h"

namespace kiln::server {

class ServiceManager {
 public:
  // Reads the environment and removes what is meant for this process alone.
  ServiceManager();

  // LISTEN_FDS: a socket that is bound and listens already.
  bool socket() const { return static_cast<bool>(socket_); }
  // Fails where clients cannot come over it.
  Result<void> check_socket() const;
  wire::UniqueFd take_socket() { return std::move(socket_); }

  // NOTIFY_SOCKET: "READY=1", "STOPPING=1", "WATCHDOG=1". Nobody there is no error.
  void notify(const std::string& state) const;
  // WATCHDOG_USEC: a process that is silent for so long is killed; 0: none. Not less than 100 ms, whatever it says.
  std::chrono::microseconds watchdog_period() const { return watchdog_period_; }

 private:
  wire::UniqueFd socket_;
  bool is_useful_ = true;  // the socket, where there is one
  std::string notify_path_;
  std::chrono::microseconds watchdog_period_{0};
};

}  // namespace kiln::server

// The daemon's place in the runtime directory: the lock that elects one daemon, the socket, and giving both up.
#pragma once

#include <sys/types.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <functional>
#include <memory>
#include <string>

#include "connections/frame_socket.h"
#include "reports/log.h"

namespace kiln::server {

class Listener {
 public:
  // False: nothing can be done for one now.
  using OnConnection = std::function<bool(wire::UniqueFd)>;

  // Descriptors from `first_reserved` on are not for connections.
  Listener(asio::io_context& io, Log& log, MemoryWatch& memory, int first_reserved)
      : io_(io), log_(log), memory_(memory), backoff_(io), first_reserved_(first_reserved) {}

  // Takes the lock. kUnavailable: another daemon lives there and answers. One that is about to leave is waited for.
  // `socket_given`: a service manager has elected this process by giving it the socket, whoever holds the lock.
  Result<void> elect(const std::string& runtime_dir, bool socket_given = false);
  Result<void> listen(OnConnection on_connection);

  // Listens on a socket that somebody else has bound, and that is not this daemon's to remove.
  Result<void> adopt(wire::UniqueFd socket, OnConnection on_connection);

  // The path still leads to this socket: neither it nor its directory was moved away. Of a socket that was given, the
  // path is where it was bound; one without a path is always reachable.
  bool reachable() const;
  // Takes the name away, then takes in whoever had connected before. If somebody had, the name is put back and the
  // answer is false.
  bool leave_if_unused();
  // Gives up name, socket and lock: from here on a successor can start.
  void leave();
  bool listening() const { return socket_ != nullptr; }

 private:
  Result<void> watch(wire::UniqueFd socket);
  void wait();
  void take_in();
  size_t accept_some(size_t most);
  bool crowded() const;
  void rest();
  bool has_name() const;
  void find_adopted_name();
  void take_name_away();

  asio::io_context& io_;
  Log& log_;
  MemoryWatch& memory_;
  asio::steady_timer backoff_;
  const int first_reserved_;
  std::string runtime_dir_;
  std::string adopted_path_;  // empty: it has none that can be looked at
  wire::UniqueFd dir_, lock_;
  std::unique_ptr<asio::posix::stream_descriptor> socket_;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  OnConnection on_connection_;
  bool waiting_ = false;
  bool resting_ = false;
  bool adopted_ = false;
};

}  // namespace kiln::server

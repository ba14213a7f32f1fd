// The daemon's socket: connecting, listening, checking the peer.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "kiln/wire/channel.h"
#include "kiln/wire/paths.h"

namespace kiln::wire {
namespace {

struct Address {
  sockaddr_un value{};
  UniqueFd dir;  // keeps /proc/self/fd/N valid
};

// sun_path holds 107 bytes. A longer name goes through the directory's descriptor; it is never cut.
Result<Address> make_address(const std::string& dir, const std::string& name) {
  Address address;
  address.value.sun_family = AF_UNIX;
  std::string path = dir + "/" + name;
  if (path.size() >= sizeof address.value.sun_path) {
    address.dir.reset(::open(dir.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!address.dir) return errno_error(ErrorCode::kNotFound, "cannot open directory " + dir, errno);
    path = "/proc/self/fd/" + std::to_string(address.dir.get()) + "/" + name;
  }
  if (path.size() >= sizeof address.value.sun_path) return invalid_argument("socket name too long: " + path);
  std::memcpy(address.value.sun_path, path.c_str(), path.size() + 1);
  return address;
}

Result<UniqueFd> make_socket() {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return errno_error(ErrorCode::kResourceExhausted, "socket", errno);
  return fd;
}

}  // namespace

namespace {

// Waits where the backlog is full, which poll has no word for; 0 or errno, and ETIMEDOUT after the deadline. It is
// tried once in any case: that there is no time left says nothing about the daemon.
int connect_until(int fd, const sockaddr_un& address, Deadline deadline) {
  for (;;) {
    const int64_t left = std::chrono::ceil<std::chrono::microseconds>(deadline - Clock::now()).count();
    const int64_t wait = std::clamp<int64_t>(left, 1, int64_t{1} << 50);  // 0 would be no limit
    const timeval limit{.tv_sec = wait / 1'000'000, .tv_usec = wait % 1'000'000};
    if (::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) return errno;
    if (::connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return 0;
    if (errno != EAGAIN && errno != EINTR) return errno;
    if (left <= 0) return ETIMEDOUT;
  }
}

}  // namespace

Result<UniqueFd> connect_socket(const std::string& runtime_dir, Deadline deadline) {
  auto address = make_address(runtime_dir, kSocketName);
  if (!address) return address.error();
  auto fd = make_socket();
  if (!fd) return fd;
  const int number = connect_until(fd->get(), address->value, deadline);
  if (number == 0) return fd;
  if (number == ETIMEDOUT) {
    return error(ErrorCode::kDeadlineExceeded,
                 "the daemon at " + runtime_dir + "/" + kSocketName + " takes nobody in: it is stopped, or hangs");
  }
  bool absent = number == ENOENT || number == ECONNREFUSED || number == ENOTSOCK;
  return errno_error(absent ? ErrorCode::kNotFound : ErrorCode::kUnavailable,
                     "cannot connect to " + runtime_dir + "/" + kSocketName, number);
}

Result<UniqueFd> listen_socket(const std::string& runtime_dir, int dir_fd, int backlog) {
  std::string temporary = std::string(kSocketName) + ".tmp." + std::to_string(::getpid());
  auto address = make_address(runtime_dir, temporary);
  if (!address) return address.error();
  auto fd = make_socket();
  if (!fd) return fd;
  refuse_descriptors(fd->get());  // also those that are sent before their connection is accepted
  ::unlinkat(dir_fd, temporary.c_str(), 0);
  // The directory's mode already keeps others out. A socket's file gets the mode of its descriptor as far as umask lets
  // it: 0600 from its first instant.
  ::fchmod(fd->get(), 0600);
  mode_t before = ::umask(077);
  int bound = ::bind(fd->get(), reinterpret_cast<sockaddr*>(&address->value), sizeof address->value);
  int number = errno;
  ::umask(before);
  if (bound != 0) return errno_error(ErrorCode::kUnavailable, "cannot bind a socket in " + runtime_dir, number);
  if (::listen(fd->get(), backlog) != 0) return errno_error(ErrorCode::kUnavailable, "listen", errno);
  if (::renameat(dir_fd, temporary.c_str(), dir_fd, kSocketName) != 0) {
    number = errno;
    ::unlinkat(dir_fd, temporary.c_str(), 0);
    return errno_error(ErrorCode::kUnavailable, "cannot put the socket at " + runtime_dir + "/" + kSocketName, number);
  }
  return fd;
}

namespace {

Result<uid_t> user_behind(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) return peer.uid;
  return errno_error(ErrorCode::kPermissionDenied, "SO_PEERCRED", errno);
}

}  // namespace

Result<void> check_peer(int fd) {
  auto user = user_behind(fd);
  if (!user) return user.error();
  if (*user == ::geteuid()) return {};
  return error(ErrorCode::kPermissionDenied,
               "the peer runs as user " + std::to_string(*user) + ", this process as " + std::to_string(::geteuid()));
}

pid_t peer_process(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 ? peer.pid : 0;
}

Result<void> check_daemon(int fd) {
  auto user = user_behind(fd);
  return user && *user == 0 ? Result<void>() : check_peer(fd);
}

}  // namespace kiln::wire

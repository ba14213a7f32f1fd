// The environment variables of sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3).
#include "processes/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <optional>

namespace kiln::server {
namespace {

constexpr int kFirstSocket = 3;
// Of a watchdog. Who is to be fed more often would take the daemon's time for it; who has a day waits for nothing.
constexpr std::chrono::microseconds kLeastPeriod = std::chrono::milliseconds(100);
constexpr std::chrono::microseconds kLongestPeriod = std::chrono::days(1);

// The variable's value, which children must not see.
std::string take_variable(const char* name) {
  const char* value = ::secure_getenv(name);
  std::string out = value ? value : "";
  ::unsetenv(name);
  return out;
}

int64_t number(const std::string& text) {
  int64_t out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

std::optional<int> socket_option(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  if (::getsockopt(fd, SOL_SOCKET, option, &value, &size) != 0) return std::nullopt;
  return value;
}

// What is no listening socket may be a descriptor of this process's own.
bool listens(int fd) { return socket_option(fd, SO_ACCEPTCONN).value_or(0) != 0; }

// Clients come over no other: who they are is asked of the kernel, which knows it of these alone.
bool is_for_clients(int fd) {
  return socket_option(fd, SO_DOMAIN) == AF_UNIX && socket_option(fd, SO_TYPE) == SOCK_STREAM;
}

bool meant_for_us(const std::string& pid) { return number(pid) == ::getpid(); }

}  // namespace

ServiceManager::ServiceManager() {
  const bool sockets = meant_for_us(take_variable("LISTEN_PID"));
  const int64_t count = number(take_variable("LISTEN_FDS"));
  ::unsetenv("LISTEN_FDNAMES");
  if (sockets && count >= 1 && listens(kFirstSocket)) {
    is_useful_ = is_for_clients(kFirstSocket);
    socket_.reset(kFirstSocket);
    ::fcntl(kFirstSocket, F_SETFD, FD_CLOEXEC);
  }
  notify_path_ = take_variable("NOTIFY_SOCKET");
  const std::string watched = take_variable("WATCHDOG_PID");
  const int64_t period = number(take_variable("WATCHDOG_USEC"));
  if (period > 0 && (watched.empty() || meant_for_us(watched))) {
    watchdog_period_ = std::clamp(std::chrono::microseconds(period), kLeastPeriod, kLongestPeriod);
  }
}

Result<void> ServiceManager::check_socket() const {
  if (is_useful_) return {};
  return invalid_argument(
      "LISTEN_FDS: descriptor 3 is no stream socket of the Unix family; ListenStream= takes a path");
}

void ServiceManager::notify(const std::string& state) const {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (notify_path_.empty() || notify_path_.size() >= sizeof address.sun_path) return;
  std::memcpy(address.sun_path, notify_path_.data(), notify_path_.size());
  if (address.sun_path[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  wire::UniqueFd fd(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + notify_path_.size());
  if (fd) ::sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&address), size);
}

}  // namespace kiln::server

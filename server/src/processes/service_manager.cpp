// The environment variables of sd_listen_fds(3), sd_notify(3) and sd_watchdog_enabled(3).
#include "processes/service_manager.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace kiln::server {
namespace {

constexpr int kFirstSocket = 3;

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

// What is no listening socket may be a descriptor of this process's own.
bool listens(int fd) {
  int on = 0;
  socklen_t size = sizeof on;
  return ::getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &size) == 0 && on != 0;
}

bool meant_for_us(const std::string& pid) { return number(pid) == ::getpid(); }

}  // namespace

ServiceManager::ServiceManager() {
  const bool sockets = meant_for_us(take_variable("LISTEN_PID"));
  const int64_t count = number(take_variable("LISTEN_FDS"));
  ::unsetenv("LISTEN_FDNAMES");
  if (sockets && count >= 1 && listens(kFirstSocket)) {
    socket_.reset(kFirstSocket);
    ::fcntl(kFirstSocket, F_SETFD, FD_CLOEXEC);
  }
  notify_path_ = take_variable("NOTIFY_SOCKET");
  const std::string watched = take_variable("WATCHDOG_PID");
  const int64_t period = number(take_variable("WATCHDOG_USEC"));
  if (period > 0 && (watched.empty() || meant_for_us(watched))) watchdog_period_ = std::chrono::microseconds(period);
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

// Locking, listening, accepting, leaving.
#include "connections/listener.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <new>
#include <thread>

#include "kiln/wire/own_file.h"
#include "kiln/wire/paths.h"

namespace kiln::server {
namespace {

constexpr int kBacklog = 512;
// After so many, those who are connected already have their turn, however fast others come.
constexpr size_t kAcceptedInATurn = 8;
constexpr auto kLockPatience = std::chrono::seconds(4);
constexpr auto kLockPoll = std::chrono::milliseconds(5);
constexpr auto kAcceptBackoff = std::chrono::milliseconds(100);
constexpr const char* kLeavingName = "kilnd.v1.sock.leaving";

bool same_file(int dir, const char* name, dev_t device, ino_t inode) {
  struct stat info{};
  return ::fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && info.st_dev == device && info.st_ino == inode;
}

}  // namespace

Result<void> Listener::elect(const std::string& runtime_dir, bool socket_given) {
  runtime_dir_ = runtime_dir;
  auto dir = wire::open_private_dir(runtime_dir);
  if (!dir) return dir.error();
  dir_ = std::move(*dir);
  const int opened = wire::open_own_file(dir_.get(), wire::kLockName, O_RDWR | O_CREAT);
  if (opened < 0) {
    const std::string path = runtime_dir + "/" + wire::kLockName;
    return error(ErrorCode::kPermissionDenied, "cannot open " + path + ": " + wire::own_file_reason(-opened));
  }
  wire::UniqueFd lock(opened);
  auto patience = std::chrono::steady_clock::now() + kLockPatience;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (socket_given) {
      // A daemon that a client had started. Its name is gone, so it will leave; to ask it would be to ask oneself.
      log_.warn("lock_held", {{"runtime_dir", runtime_dir}});
      return {};
    }
    bool alive = wire::connect_socket(runtime_dir, patience).ok();
    if (alive || std::chrono::steady_clock::now() > patience) {
      return error(ErrorCode::kUnavailable, "another kilnd owns " + runtime_dir);
    }
    // The owner is starting up or on its way out.
    std::this_thread::sleep_for(kLockPoll);
  }
  lock_ = std::move(lock);
  return {};
}

Result<void> Listener::listen(OnConnection on_connection) {
  on_connection_ = std::move(on_connection);
  // A name that is not a socket was not made by a daemon; a directory cannot be renamed over.
  struct stat info{};
  if (::fstatat(dir_.get(), wire::kSocketName, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(info.st_mode)) {
    return error(ErrorCode::kUnavailable, runtime_dir_ + "/" + wire::kSocketName + " is a directory; remove it");
  }
  auto fd = wire::listen_socket(runtime_dir_, dir_.get(), kBacklog);
  if (!fd) return fd.error();
  if (::fstatat(dir_.get(), wire::kSocketName, &info, AT_SYMLINK_NOFOLLOW) != 0) {
    return wire::errno_error(ErrorCode::kUnavailable, "the socket vanished", errno);
  }
  device_ = info.st_dev;
  inode_ = info.st_ino;
  if (auto watching = watch(std::move(*fd)); !watching) return watching;
  wait();
  return {};
}

Result<void> Listener::watch(wire::UniqueFd socket) {
  if (const int flags = ::fcntl(socket.get(), F_GETFL); ::fcntl(socket.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return wire::errno_error(ErrorCode::kUnavailable, "the socket", errno);
  }
  auto descriptor = watched(io_, std::move(socket));
  if (!descriptor) return descriptor.error();
  socket_ = std::make_unique<asio::posix::stream_descriptor>(std::move(*descriptor));
  return {};
}

Result<void> Listener::adopt(wire::UniqueFd socket, OnConnection on_connection) {
  on_connection_ = std::move(on_connection);
  adopted_ = true;
  wire::refuse_descriptors(socket.get());
  if (auto watching = watch(std::move(socket)); !watching) return watching;
  find_adopted_name();
  wait();
  return {};
}

// What lies at the path now counts as the socket: a service manager has bound it just before.
void Listener::find_adopted_name() {
  sockaddr_un address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket_->native_handle(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return;
  if (address.sun_family != AF_UNIX || size <= offsetof(sockaddr_un, sun_path)) return;
  const size_t room = std::min(size - offsetof(sockaddr_un, sun_path), sizeof address.sun_path);
  const std::string path(address.sun_path, ::strnlen(address.sun_path, room));
  struct stat info{};
  if (!path.starts_with('/') || ::lstat(path.c_str(), &info) != 0 || !S_ISSOCK(info.st_mode)) return;
  adopted_path_ = path;
  device_ = info.st_dev;
  inode_ = info.st_ino;
}

void Listener::wait() {
  if (std::exchange(waiting_, true)) return;
  socket_->async_wait(asio::posix::descriptor_base::wait_read, [this](const boost::system::error_code& failed) {
    waiting_ = false;
    if (!failed) take_in();
  });
}

// A few, and the rest behind whatever else is ready.
void Listener::take_in() {
  if (!socket_) return;
  try {
    if (accept_some(kAcceptedInATurn) < kAcceptedInATurn || !socket_ || waiting_) return;
    asio::post(io_, [this] {
      waiting_ = false;
      take_in();
    });
    waiting_ = true;
  } catch (const std::bad_alloc&) {
    rest();
  }
}

// Those who wait in the backlog are better off waiting a little longer than being taken in by a daemon that can do
// nothing for them.
bool Listener::crowded() const {
  if (memory_.is_short()) return true;
  const wire::UniqueFd lowest(::fcntl(socket_->native_handle(), F_DUPFD_CLOEXEC, 0));
  return !lowest || lowest.get() >= first_reserved_;
}

void Listener::rest() {
  if (!std::exchange(resting_, true))
    log_.warn("accept_rests", {{"reason", "few descriptors are left, or no memory, or no watches"}});
  backoff_.expires_after(kAcceptBackoff);
  backoff_.async_wait([this](const boost::system::error_code& failed) {
    if (!failed && socket_) wait();
  });
}

// Fewer than `most`: nobody else is there, which is waited for, or there is no room for them now.
size_t Listener::accept_some(size_t most) {
  for (size_t count = 0; socket_ && count < most;) {
    if (crowded()) {
      rest();
      return count;
    }
    wire::UniqueFd fd(::accept4(socket_->native_handle(), nullptr, nullptr, SOCK_CLOEXEC));
    if (fd) {
      ++count;
      if (!on_connection_(std::move(fd))) {
        rest();
        return count;
      }
    } else if (errno != EINTR && errno != ECONNABORTED) {
      if (errno != EAGAIN) {
        rest();
      } else {
        resting_ = false;
        wait();
      }
      return count;
    }
  }
  return most;
}

bool Listener::has_name() const { return same_file(dir_.get(), wire::kSocketName, device_, inode_); }

bool Listener::reachable() const {
  if (adopted_) return adopted_path_.empty() || same_file(AT_FDCWD, adopted_path_.c_str(), device_, inode_);
  struct stat ours{};
  return ::fstat(dir_.get(), &ours) == 0 && same_file(AT_FDCWD, runtime_dir_.c_str(), ours.st_dev, ours.st_ino) &&
         has_name();
}

// Only a name that leads here is touched: a successor's socket must never be removed.
void Listener::take_name_away() {
  if (!adopted_ && has_name()) ::renameat(dir_.get(), wire::kSocketName, dir_.get(), kLeavingName);
}

bool Listener::leave_if_unused() {
  take_name_away();
  if (accept_some(kBacklog) == 0) {
    leave();
    return true;
  }
  if (!adopted_ && same_file(dir_.get(), kLeavingName, device_, inode_)) {
    ::renameat(dir_.get(), kLeavingName, dir_.get(), wire::kSocketName);
  }
  return false;
}

void Listener::leave() {
  if (!socket_) return;
  take_name_away();
  if (!adopted_ && same_file(dir_.get(), kLeavingName, device_, inode_)) ::unlinkat(dir_.get(), kLeavingName, 0);
  backoff_.cancel();
  boost::system::error_code ignored;
  socket_->close(ignored);
  socket_ = nullptr;
  lock_.reset();
}

}  // namespace kiln::server

#include "measure_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <thread>

#include "kiln/wire/channel.h"
#include "kiln/wire/own_file.h"
#include "kiln/wire/paths.h"

namespace kiln::autotune {

namespace {

using wire::Clock;

bool has_own_runtime_dir() {
  const char* chosen = ::secure_getenv("KILN_RUNTIME_DIR");
  return chosen != nullptr && *chosen != 0;
}

// False: another has it.
Result<bool> take_file(int file) {
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return true;
  if (errno == EWOULDBLOCK || errno == EINTR) return false;
  return wire::errno_error(ErrorCode::kInternal, "flock", errno);
}

// A name in the abstract namespace of sockets: nobody's file, and free again when its process ends, however it ends. Of
// streams, since who may make datagrams could send them to any name.
Result<bool> take_name(DeviceLock& lock, const std::string& device) {
  wire::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return wire::errno_error(ErrorCode::kResourceExhausted, "socket", errno);
  const std::string name = "kiln-measure-" + device;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) == 0) {
    lock.hold(std::move(socket));
    return true;
  }
  if (errno == EADDRINUSE) return false;
  return wire::errno_error(ErrorCode::kInternal, "bind", errno);
}

Result<bool> take(DeviceLock& lock, const std::string& device) {
  auto taken = take_file(lock.file());
  if (!taken || !*taken || has_own_runtime_dir()) return taken;
  return take_name(lock, device);
}

}  // namespace

DeviceLock& DeviceLock::operator=(DeviceLock&& other) noexcept {
  release();
  file_ = std::exchange(other.file_, -1);
  opened_ = std::move(other.opened_);
  name_ = std::move(other.name_);
  return *this;
}

// Where the file stays open its lock does too.
void DeviceLock::release() {
  if (file_ >= 0) (void)::flock(file_, LOCK_UN);
  file_ = -1;
  name_.reset();
  opened_.reset();
}

Result<LockFile> open_lock_file(const std::string& device) {
  auto directory = wire::find_runtime_dir();
  if (!directory) return directory.error();
  auto opened = wire::open_private_dir(*directory);
  if (!opened) return opened.error();
  const std::string file = "measure-" + device + ".lock", path = *directory + "/" + file;
  const int fd = wire::open_own_file(opened->get(), file.c_str(), O_RDWR | O_CREAT);
  if (fd < 0) return error(ErrorCode::kUnavailable, "cannot open " + path + ": " + wire::own_file_reason(-fd));
  return LockFile{wire::UniqueFd(fd), path};
}

Result<DeviceLock> lock_device(const LockOptions& options, const std::function<void()>& waiting) {
  auto opened = options.file ? Result<LockFile>(LockFile()) : open_lock_file(options.device);
  if (!opened) return opened.error();
  const LockFile& file = options.file ? *options.file : *opened;
  const std::string path = file.path;
  const int number = file.file.get();
  DeviceLock lock(number, std::move(opened->file));
  const auto begin = Clock::now();
  auto told = begin;
  for (;;) {
    auto taken = take(lock, options.device);
    if (!taken) return taken.error();
    if (*taken) return lock;
    const auto now = Clock::now();
    if (std::chrono::duration<double>(now - begin).count() > options.patience_s) {
      return error(ErrorCode::kDeadlineExceeded, "another process has been measuring on " + options.device + " for " +
                                                     std::to_string(static_cast<int>(options.patience_s)) + " s (" +
                                                     path + ")");
    }
    if (now - told > std::chrono::seconds(1)) {
      waiting();
      told = now;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace kiln::autotune

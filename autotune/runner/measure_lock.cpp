#include "measure_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

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
struct Name {
  explicit Name(const std::string& device) {
    const std::string name = "kiln-measure-" + device;
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, sizeof address.sun_path - 1);
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  }
  // 0, and `taken` has it; else errno.
  int take(wire::UniqueFd& taken) const {
    wire::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!socket || ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0) return errno;
    taken = std::move(socket);
    return 0;
  }

  sockaddr_un address{};
  socklen_t length = 0;
};

// Whether an attempt that ended in this error took it.
Result<bool> took_name(int error) {
  if (error == 0) return true;
  if (error == EADDRINUSE) return false;
  return wire::errno_error(ErrorCode::kInternal, "the machine's lock", error);
}

Result<bool> take_name(DeviceLock& lock, const LockOptions& options) {
  if (options.keeper) {
    auto taken = options.keeper->take();
    if (taken && *taken) lock.hold(*options.keeper);
    return taken;
  }
  wire::UniqueFd name;
  auto taken = took_name(Name(options.device).take(name));
  if (taken && *taken) lock.hold(std::move(name));
  return taken;
}

Result<bool> take(DeviceLock& lock, const LockOptions& options) {
  auto taken = take_file(lock.file());
  if (!taken || !*taken || has_own_runtime_dir()) return taken;
  return take_name(lock, options);
}

// Words to the keeper, each a byte. The answer is an errno.
constexpr char kTake = 't', kGiveBack = 'g';

// It holds nothing of the other's, whose descriptors somebody waits to see closed, and does what two words say.
[[noreturn]] void keep_name(int socket, const Name& name) {
  ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
  const int own = ::dup2(socket, 0);
  ::syscall(SYS_close_range, 1, ~0u, 0);
  wire::UniqueFd taken;
  for (char word = 0; ::read(own, &word, 1) == 1;) {
    taken.reset();
    const int error = word == kTake ? name.take(taken) : 0;
    if (::write(own, &error, sizeof error) != sizeof error) break;
  }
  ::_exit(0);
}

}  // namespace

DeviceLock& DeviceLock::operator=(DeviceLock&& other) noexcept {
  release();
  file_ = std::exchange(other.file_, -1);
  opened_ = std::move(other.opened_);
  name_ = std::move(other.name_);
  keeper_ = std::exchange(other.keeper_, nullptr);
  return *this;
}

// Where the file stays open its lock does too.
void DeviceLock::release() {
  if (file_ >= 0) (void)::flock(file_, LOCK_UN);
  file_ = -1;
  name_.reset();
  if (keeper_) std::exchange(keeper_, nullptr)->give_back();
  opened_.reset();
}

Result<NameKeeper> NameKeeper::start(const std::string& device) {
  NameKeeper out;
  if (has_own_runtime_dir()) return out;
  const Name name(device);
  auto ends = wire::make_channel_pair();
  if (!ends) return ends.error();
  const pid_t pid = ::fork();
  if (pid == 0) keep_name(ends->theirs.get(), name);
  if (pid < 0) return wire::errno_error(ErrorCode::kResourceExhausted, "fork", errno);
  out.socket_ = std::move(ends->ours);
  return out;
}

Result<bool> NameKeeper::take() {
  int error = 0;
  if (::write(socket_.get(), &kTake, 1) != 1 || ::read(socket_.get(), &error, sizeof error) != sizeof error) {
    return internal_error("the process that keeps the machine's lock is gone");
  }
  return took_name(error);
}

// The answer says that it is done.
void NameKeeper::give_back() {
  int error = 0;
  if (::write(socket_.get(), &kGiveBack, 1) == 1) (void)!::read(socket_.get(), &error, sizeof error);
}

Result<LockFile> open_lock_file(const std::string& device) {
  auto directory = wire::find_runtime_dir();
  if (!directory) return directory.error();
  auto opened = wire::open_private_dir(*directory);
  if (!opened) return opened.error();
  const std::string file = "measure-" + device + ".lock", path = *directory + "/" + file;
  // What is locked need not be written to, but where locks are another machine's.
  const int access = wire::is_on_remote_file_system(*directory) ? O_RDWR : O_RDONLY;
  const int fd = wire::open_own_file(opened->get(), file.c_str(), access | O_CREAT);
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
    auto taken = take(lock, options);
    if (!taken) return taken.error();
    if (*taken) return lock;
    const auto now = Clock::now();
    if (now - told > std::chrono::seconds(1)) {
      waiting();
      told = now;
    }
    if (std::chrono::duration<double>(now - begin).count() > options.patience_s) {
      return error(ErrorCode::kDeadlineExceeded, "another process has been measuring on " + options.device + " for " +
                                                     std::to_string(static_cast<int>(options.patience_s)) + " s (" +
                                                     path + ")");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace kiln::autotune

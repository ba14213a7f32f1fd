#include "measure_lock.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <thread>

#include "kiln/wire/channel.h"
#include "kiln/wire/paths.h"

namespace kiln::autotune {

Result<wire::UniqueFd> lock_device(const LockOptions& options, const std::function<void()>& waiting) {
  using Clock = wire::Clock;
  auto directory = wire::find_runtime_dir();
  if (!directory) return directory.error();
  auto opened = wire::open_private_dir(*directory);
  if (!opened) return opened.error();
  const std::string name = "measure-" + options.device + ".lock";
  wire::UniqueFd lock(::openat(opened->get(), name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!lock) return wire::errno_error(ErrorCode::kUnavailable, "cannot open " + *directory + "/" + name, errno);
  const auto begin = Clock::now();
  auto told = begin;
  while (::flock(lock.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK && errno != EINTR) return wire::errno_error(ErrorCode::kInternal, "flock", errno);
    const auto now = Clock::now();
    if (std::chrono::duration<double>(now - begin).count() > options.patience_s) {
      return error(ErrorCode::kDeadlineExceeded, "another process has been measuring on " + options.device + " for " +
                                                     std::to_string(static_cast<int>(options.patience_s)) + " s (" +
                                                     *directory + "/" + name + ")");
    }
    if (now - told > std::chrono::seconds(1)) {
      waiting();
      told = now;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return lock;
}

}  // namespace kiln::autotune

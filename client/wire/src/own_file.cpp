#include "kiln/wire/own_file.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <system_error>
#include <utility>

#include "kiln/wire/fd.h"

namespace kiln::wire {
namespace {

constexpr int kDirectory = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

int judge_owner(const struct stat& info, bool or_roots) {
  return info.st_uid == ::geteuid() || (or_roots && info.st_uid == 0) ? 0 : -EPERM;
}

int judge_file(const struct stat& info, bool to_write) {
  if (S_ISLNK(info.st_mode)) return -ELOOP;
  if (!S_ISREG(info.st_mode)) return -ENXIO;
  if (to_write && info.st_nlink > 1) return -EMLINK;
  return judge_owner(info, !to_write);
}

bool is_link(int dir, const char* name) {
  struct stat info{};
  return ::fstatat(dir, name, &info, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(info.st_mode);
}

int judge_dir(UniqueFd dir) {
  struct stat info{};
  if (::fstat(dir.get(), &info) != 0) return -errno;
  const int status = judge_owner(info, true);
  return status < 0 ? status : dir.release();
}

int open_one_dir(int dir, const char* name) {
  UniqueFd out(::openat(dir, name, kDirectory));
  if (out) return judge_dir(std::move(out));
  const int number = errno;
  return number == ENOTDIR && is_link(dir, name) ? -ELOOP : -number;
}

int walk(int dir, const std::string& path) {
  UniqueFd at;
  std::string_view rest = path;
  do {
    const std::string name(rest.substr(0, rest.find('/')));
    rest.remove_prefix(std::min(name.size() + 1, rest.size()));
    const int next = open_one_dir(at ? at.get() : dir, name.c_str());
    if (next < 0) return next;
    at.reset(next);
  } while (!rest.empty());
  return at.release();
}

}  // namespace

int open_own_file(int dir, const char* path, int flags, mode_t mode) {
  const int fd = ::openat(dir, path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, mode);
  if (fd < 0) return -errno;
  const int status = judge_own_file(fd, flags);
  if (status == 0) return fd;
  ::close(fd);
  return status;
}

int judge_own_file(int fd, int flags) {
  struct stat info{};
  return ::fstat(fd, &info) != 0 ? -errno : judge_file(info, (flags & O_ACCMODE) != O_RDONLY);
}

int open_own_dir(int dir, const std::string& path) {
  open_how how{};
  how.flags = kDirectory;
  how.resolve = RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
  const int fd = static_cast<int>(::syscall(SYS_openat2, dir, path.c_str(), &how, sizeof how));
  if (fd >= 0) return judge_dir(UniqueFd(fd));
  // Kernels before 5.6 do not know the call, and some sandboxes refuse it; else something is wrong, and this says what.
  return walk(dir, path);
}

int check_own_file(const std::string& path) {
  struct stat info{};
  if (::lstat(path.c_str(), &info) == 0) return judge_file(info, true);
  return errno == ENOENT ? 0 : -errno;
}

bool is_not_ours(int number) { return number == ELOOP || number == ENXIO || number == EPERM || number == EMLINK; }

std::string own_file_reason(int number) {
  switch (number) {
    case ELOOP:
      return "it is a link, which is not followed";
    case ENXIO:
      return "it is no regular file";
    case EPERM:
      return "it belongs to another user";
    case EMLINK:
      return "it has another name elsewhere (a hard link)";
    default:
      return std::generic_category().message(number);
  }
}

}  // namespace kiln::wire

// The real file system.
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

#include "cache/fs.h"
#include "kiln/wire/fd.h"
#include "kiln/wire/own_file.h"

namespace kiln::server {
namespace {

int result(int value) { return value < 0 ? -errno : value; }

// A name and the directory that has it, which is looked up anew each time: the cache may be cleared under a daemon.
class Place {
 public:
  Place(int root, const std::string& path) : root_(root) {
    const size_t slash = path.rfind('/');
    name_ = path.substr(slash + 1);  // npos + 1 is 0
    if (slash == std::string::npos) return;
    status_ = wire::open_own_dir(root, path.substr(0, slash));
    below_.reset(status_);
  }
  int status() const { return status_; }  // -errno
  int dir() const { return below_ ? below_.get() : root_; }
  const char* name() const { return name_.c_str(); }

 private:
  const int root_;
  int status_ = 0;
  wire::UniqueFd below_;
  std::string name_;
};

struct CloseDir {
  void operator()(DIR* dir) const { ::closedir(dir); }
};

// Who has planted it may have planted it deep.
constexpr int kDeepestTree = 64;

int remove_below(int parent, const char* name, int depth) {
  if (depth == kDeepestTree) return -ENAMETOOLONG;
  const int fd = ::openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (fd < 0) return -errno;
  const std::unique_ptr<DIR, CloseDir> stream(::fdopendir(fd));
  if (!stream) {
    const int number = errno;
    ::close(fd);
    return -number;
  }
  while (const dirent* entry = ::readdir(stream.get())) {
    const std::string_view within = entry->d_name;
    if (within == "." || within == ".." || ::unlinkat(fd, entry->d_name, 0) == 0) continue;
    if (errno != EISDIR && errno != EPERM) return -errno;
    if (const int status = remove_below(fd, entry->d_name, depth + 1); status < 0) return status;
  }
  return result(::unlinkat(parent, name, AT_REMOVEDIR));
}

}  // namespace

int PosixFs::open(int dir, const std::string& path, int flags, mode_t mode) {
  const Place at(dir, path);
  return at.status() < 0 ? at.status() : wire::open_own_file(at.dir(), at.name(), flags, mode);
}
int PosixFs::stat(int fd, struct stat& info) { return result(::fstat(fd, &info)); }
ssize_t PosixFs::read(int fd, std::byte* data, size_t size) {
  ssize_t count;
  do {
    count = ::read(fd, data, size);
  } while (count < 0 && errno == EINTR);
  return count < 0 ? -errno : count;
}
// openat2(2): RESOLVE_CACHED. Kernels before 5.12 do not know it, and some sandboxes refuse the call.
int PosixFs::open_cached(int dir, const std::string& path, int flags) {
  open_how how{};
  how.flags = static_cast<uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  how.resolve = RESOLVE_CACHED | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
  const long fd = ::syscall(SYS_openat2, dir, path.c_str(), &how, sizeof how);
  if (fd < 0) return errno == ENOENT ? -ENOENT : -EAGAIN;
  if (wire::judge_own_file(static_cast<int>(fd), flags) == 0) return static_cast<int>(fd);
  ::close(static_cast<int>(fd));
  return -EAGAIN;
}
// preadv2(2): RWF_NOWAIT, which not all file systems know.
ssize_t PosixFs::read_cached(int fd, std::byte* data, size_t size) {
  const iovec whole{data, size};
  const ssize_t count = ::preadv2(fd, &whole, 1, 0, RWF_NOWAIT);
  return count < 0 ? -EAGAIN : count;
}
ssize_t PosixFs::write(int fd, const std::byte* data, size_t size) {
  ssize_t count;
  do {
    count = ::write(fd, data, size);
  } while (count < 0 && errno == EINTR);
  return count < 0 ? -errno : count;
}
int PosixFs::sync_data(int fd) { return result(::fdatasync(fd)); }
int PosixFs::sync_dir(int dir, const std::string& path) {
  int fd = wire::open_own_dir(dir, path);
  if (fd < 0) return fd;
  int status = result(::fsync(fd));
  ::close(fd);
  return status;
}
int PosixFs::allocate(int fd, uint64_t size) { return -::posix_fallocate(fd, 0, static_cast<off_t>(size)); }
int PosixFs::touch(int fd) { return result(::futimens(fd, nullptr)); }
int PosixFs::rename(int dir, const std::string& from, const std::string& to) {
  const Place old(dir, from), now(dir, to);
  const int status = std::min(old.status(), now.status());
  return status < 0 ? status : result(::renameat(old.dir(), old.name(), now.dir(), now.name()));
}
int PosixFs::unlink(int dir, const std::string& path) {
  const Place at(dir, path);
  return at.status() < 0 ? at.status() : result(::unlinkat(at.dir(), at.name(), 0));
}
int PosixFs::remove_tree(int dir, const std::string& path) {
  const Place at(dir, path);
  return at.status() < 0 ? at.status() : remove_below(at.dir(), at.name(), 0);
}
int PosixFs::mkdir(int dir, const std::string& path) {
  const Place at(dir, path);
  return at.status() < 0 ? at.status() : result(::mkdirat(at.dir(), at.name(), 0700));
}
int PosixFs::lock(int fd) { return result(::flock(fd, LOCK_EX | LOCK_NB)); }

int PosixFs::list(int dir, const std::string& path, std::vector<DirEntry>& entries) {
  int fd = wire::open_own_dir(dir, path);
  if (fd < 0) return fd;
  std::unique_ptr<DIR, CloseDir> stream(::fdopendir(fd));
  if (!stream) {
    int number = errno;
    ::close(fd);
    return -number;
  }
  while (dirent* entry = ::readdir(stream.get())) {
    std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    struct stat info{};
    if (::fstatat(fd, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) != 0) continue;  // removed meanwhile
    // Some file systems do not say what a file takes.
    const auto length = static_cast<uint64_t>(info.st_size), taken = static_cast<uint64_t>(info.st_blocks) * 512;
    entries.push_back({.name = std::string(name),
                       .is_dir = S_ISDIR(info.st_mode),
                       .size = taken == 0 ? length : std::min(length, taken),
                       .mtime_ns = info.st_mtim.tv_sec * 1'000'000'000LL + info.st_mtim.tv_nsec,
                       .is_other = !S_ISDIR(info.st_mode) && !S_ISREG(info.st_mode)});
  }
  return 0;
}

}  // namespace kiln::server

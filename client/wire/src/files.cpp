#include "kiln/wire/files.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstring>

#include "kiln/wire/fd.h"

namespace kiln::wire {
namespace {

constexpr size_t kMaxText = size_t{64} << 20;

Error file_error(const std::string& path, const char* what, int number) {
  return invalid_argument(path + ": " + what + ": " + std::strerror(number));
}

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(written));
  }
  return true;
}

// One that has a name and was made by somebody else: who reads it, and when, is up to them. `system`: of zeros where it
// is not known.
bool is_anothers_fifo(const struct stat& status, const struct statfs& system) {
  return S_ISFIFO(status.st_mode) && status.st_uid != ::geteuid() && system.f_type != PIPEFS_MAGIC;
}

bool is_anothers_fifo(int fd) {
  struct stat status{};
  struct statfs system{};
  (void)::fstatfs(fd, &system);
  return ::fstat(fd, &status) == 0 && is_anothers_fifo(status, system);
}

bool is_own_fifo(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && S_ISFIFO(status.st_mode) && status.st_uid == ::geteuid();
}

// A device or a pipe has no content that could be left half-written, and must not be renamed over. Nobody waits for the
// reader of a fifo but its owner.
Result<void> write_into(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!fd && errno == ENXIO) {
    if (!is_own_fifo(path)) return invalid_argument(path + ": cannot be written: nobody reads it");
    fd = UniqueFd(::open(path.c_str(), O_WRONLY | O_NOCTTY | O_CLOEXEC));
  }
  if (!fd) return file_error(path, "cannot be written", errno);
  if (is_anothers_fifo(fd.get())) return invalid_argument(path + ": cannot be written: a fifo of another user's");
  bool done = ::fcntl(fd.get(), F_SETFL, 0) == 0;
  for (auto piece : pieces) done = done && write_all(fd.get(), piece);
  return done ? Result<void>() : file_error(path, "cannot be written", errno);
}

// `/dev/stdout`, `/dev/fd/3`: a link of /proc's at the end of the way. What it leads to is open, and is written into:
// its name is no file's that another could take the place of.
bool names_open_file(std::string path) {
  constexpr int kMostLinks = 40;  // of the kernel
  for (int i = 0; i < kMostLinks; ++i) {
    char target[PATH_MAX];
    const ssize_t length = ::readlink(path.c_str(), target, sizeof target);
    if (length < 0) return false;
    struct statfs system{};
    if (::statfs(directory_of(path).c_str(), &system) == 0 && system.f_type == PROC_SUPER_MAGIC) return true;
    const std::string next(target, static_cast<size_t>(length));
    path = next.starts_with('/') ? next : directory_of(path) + "/" + next;
  }
  return false;
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& target) : path_(target + ".XXXXXX"), fd_(::mkstemp(path_.data())) {}
  ~TemporaryFile() {
    if (fd_ >= 0) ::close(fd_);
    if (fd_ >= 0 && !renamed_) ::unlink(path_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  int fd() const { return fd_; }
  bool rename_to(const std::string& target) {
    renamed_ = ::rename(path_.c_str(), target.c_str()) == 0;
    return renamed_;
  }

 private:
  std::string path_;
  int fd_;
  bool renamed_ = false;
};

}  // namespace

Result<void> refuse_anothers_fifo(const std::string& path) {
  struct stat status{};
  struct statfs system{};
  (void)::statfs(path.c_str(), &system);
  const bool waits = ::stat(path.c_str(), &status) == 0 && is_anothers_fifo(status, system);
  return waits ? invalid_argument(path + ": a fifo of another user's") : Result<void>();
}

Result<InputFile> InputFile::open(const std::string& path) {
  InputFile out;
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));  // a fifo would be waited for
  if (!fd) return file_error(path, "cannot be opened", errno);
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return invalid_argument(path + ": not a regular file");
  }
  out.file_.reset(::fdopen(fd.get(), "rb"));
  if (!out.file_) return file_error(path, "cannot be opened", errno);
  (void)fd.release();
  out.remaining_ = static_cast<size_t>(status.st_size);
  return out;
}

bool InputFile::read(void* data, size_t size) {
  if (size > remaining_ || std::fread(data, 1, size, file_.get()) != size) return false;
  remaining_ -= size;
  return true;
}

Result<std::string> read_text(const std::string& path) {
  auto file = InputFile::open(path);
  if (!file) return file.error();
  if (file->remaining() > kMaxText) {
    return invalid_argument(path + ": has " + std::to_string(file->remaining()) +
                            " bytes, and text files are read up to " + std::to_string(kMaxText >> 20) + " MiB");
  }
  std::string text(file->remaining(), 0);
  if (!file->read(text.data(), text.size())) return invalid_argument(path + ": cannot be read to its end");
  return text;
}

Result<void> write_file(const std::string& path, std::span<const std::span<const std::byte>> pieces) {
  struct stat status{};
  const bool is_there = ::stat(path.c_str(), &status) == 0 && !S_ISDIR(status.st_mode);
  if (is_there && (!S_ISREG(status.st_mode) || names_open_file(path))) return write_into(path, pieces);
  TemporaryFile file(path);
  bool done = file.fd() >= 0;
  for (auto piece : pieces) done = done && write_all(file.fd(), piece);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  done = done && ::fchmod(file.fd(), 0666 & ~mask) == 0 && file.rename_to(path);
  if (!done) return file_error(path, "cannot be written", errno);
  return {};
}

Result<void> write_text(const std::string& path, std::string_view text) {
  const std::span<const std::byte> pieces[] = {std::as_bytes(std::span(text))};
  return write_file(path, pieces);
}

Result<void> check_writable(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return file_error(path, "cannot be written", EISDIR);
    if (!S_ISREG(status.st_mode)) return {};
  }
  if (::access(directory_of(path).c_str(), W_OK | X_OK) != 0) return file_error(path, "cannot be written", errno);
  return {};
}

}  // namespace kiln::wire

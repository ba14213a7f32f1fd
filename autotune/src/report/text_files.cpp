#include "report/text_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

#include "kiln/wire/files.h"

namespace kiln::autotune {
namespace {

Error file_error(const std::string& path, const char* what, int number) {
  return invalid_argument(path + ": " + what + ": " + std::strerror(number));
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// A device or a pipe has no content that could be left half-written, and must not be renamed over.
Result<void> write_to_device(const std::string& path, std::string_view text) {
  if (auto fine = wire::refuse_anothers_fifo(path); !fine) return fine;
  const int fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  const bool done = fd >= 0 && write_all(fd, text);
  const int number = errno;
  if (fd >= 0) ::close(fd);
  return done ? Result<void>() : file_error(path, "cannot be written", number);
}

}  // namespace

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

Result<std::string> read_text_file(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return file_error(path, "cannot be opened", errno);
  if (S_ISDIR(status.st_mode)) return file_error(path, "cannot be read", EISDIR);
  if (auto fine = wire::refuse_anothers_fifo(path); !fine) return fine.error();
  std::ifstream file(path, std::ios::binary);
  if (!file) return file_error(path, "cannot be opened", errno);
  std::ostringstream text;
  text << file.rdbuf();
  // Nothing to read sets the output's failure, not the input's.
  if (file.bad()) return invalid_argument(path + ": cannot be read to its end");
  return std::move(text).str();
}

Result<void> write_text_file(const std::string& path, std::string_view text) {
  struct stat status{};
  const bool exists = ::stat(path.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) return file_error(path, "cannot be written", EISDIR);
  if (exists && !S_ISREG(status.st_mode)) return write_to_device(path, text);
  std::string temporary = path + ".XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return file_error(path, "cannot be written", errno);
  const mode_t mask = ::umask(0);
  ::umask(mask);
  const bool done = write_all(fd, text) && ::fchmod(fd, 0666 & ~mask) == 0 && ::fsync(fd) == 0 &&
                    ::rename(temporary.c_str(), path.c_str()) == 0;
  const int number = errno;
  ::close(fd);
  if (done) return {};
  ::unlink(temporary.c_str());
  return file_error(path, "cannot be written", number);
}

Result<void> make_directories(const std::string& path) {
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  const int number = errno;
  const std::string parent = directory_of(path);
  if (number != ENOENT || parent == path) return file_error(path, "cannot be created", number);
  if (auto made = make_directories(parent); !made) return made;
  if (::mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return {};
  return file_error(path, "cannot be created", errno);
}

}  // namespace kiln::autotune

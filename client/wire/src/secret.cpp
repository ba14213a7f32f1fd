#include "kiln/wire/secret.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "kiln/wire/fd.h"

namespace kiln::wire {
namespace {

constexpr off_t kMaxSecret = 4096;

Error secret_error(const std::string& path, const std::string& what) { return invalid_argument(path + ": " + what); }

}  // namespace

Result<std::string> read_secret(const std::string& path) {
  UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0) return secret_error(path, std::generic_category().message(errno));
  if (!S_ISREG(info.st_mode)) return secret_error(path, "not a regular file");
  if (info.st_mode & 077) return secret_error(path, "others than its owner have access to it (chmod 600)");
  if (info.st_size > kMaxSecret) return secret_error(path, "too long for a secret");
  std::string text(static_cast<size_t>(info.st_size), '\0');
  const ssize_t count = ::read(file.get(), text.data(), text.size());
  if (count < 0) return secret_error(path, std::generic_category().message(errno));
  text.resize(static_cast<size_t>(count));
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

Result<std::string> read_key(const std::string& path) {
  auto key = read_secret(path);
  if (key && key->size() < kMinKey) {
    return secret_error(path, "shorter than " + std::to_string(kMinKey) + " bytes");
  }
  return key;
}

}  // namespace kiln::wire

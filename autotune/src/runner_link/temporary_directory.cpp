#include "runner_link/temporary_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <chrono>
#include <filesystem>

namespace kiln::autotune {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPrefix = "kiln-runner-";
constexpr auto kYoung = std::chrono::minutes(1);  // perhaps made just now, and not locked yet

// Not valid where another process has it.
wire::UniqueFd lock(const fs::path& path) {
  wire::UniqueFd out(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  struct stat info{};
  const bool ours = out && ::fstat(out.get(), &info) == 0 && info.st_uid == ::geteuid();
  if (!ours || ::flock(out.get(), LOCK_EX | LOCK_NB) != 0) out.reset();
  return out;
}

void remove_abandoned(const fs::path& parent) {
  std::error_code status, ignored;
  for (fs::directory_iterator next(parent, status), end; !status && next != end; next.increment(status)) {
    if (!next->path().filename().string().starts_with(kPrefix)) continue;
    const fs::file_time_type changed = next->last_write_time(ignored);
    if (ignored || fs::file_time_type::clock::now() - changed < kYoung) continue;
    if (lock(next->path())) fs::remove_all(next->path(), ignored);
  }
}

}  // namespace

Result<TemporaryDirectory> TemporaryDirectory::make() {
  std::error_code status;
  const fs::path parent = fs::temp_directory_path(status);
  remove_abandoned(parent);
  std::string path = (parent / (std::string(kPrefix) + "XXXXXX")).string();
  if (status || ::mkdtemp(path.data()) == nullptr) {
    return error(ErrorCode::kResourceExhausted, path + ": no temporary directory can be made");
  }
  return TemporaryDirectory(path, lock(path));
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  if (lock_) fs::remove_all(path_, ignored);
}

}  // namespace kiln::autotune

// Directory lookup and the executables.
#include "kiln/wire/paths.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

#include "kiln/wire/channel.h"
#include "kiln/wire/trusted.h"

namespace kiln::wire {
namespace {

namespace fs = std::filesystem;

// Somebody else's directory, or one that others can enter, is not a place for a private socket.
bool is_private(const std::string& path) {
  struct stat info{};
  return ::stat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
         (info.st_mode & 077) == 0;
}

// The first that is there. One that others could have put there is passed over, and `passed_over` says so.
std::string first_executable(const std::vector<fs::path>& candidates, std::string& passed_over) {
  for (const auto& candidate : candidates) {
    auto found = find_program(candidate.string());
    if (found) return fs::weakly_canonical(*found).string();
    if (found.error().code == ErrorCode::kPermissionDenied) passed_over += "; " + found.error().message;
  }
  return {};
}

std::vector<std::string> runtime_candidates(bool (*is_remote)(const std::string&)) {
  if (std::string chosen = environment("KILN_RUNTIME_DIR"); !chosen.empty()) return {chosen};
  std::vector<std::string> out;
  std::string uid = std::to_string(::geteuid());
  if (std::string xdg = environment("XDG_RUNTIME_DIR"); is_private(xdg)) out.push_back(xdg + "/kiln");
  if (is_private("/run/user/" + uid)) out.push_back("/run/user/" + uid + "/kiln");
  if (std::string home = environment("HOME"); !home.empty()) {
    if (std::string run = home + "/.cache/kiln/run"; !is_remote(run)) out.push_back(run);
  }
  out.push_back("/tmp/kiln-" + uid);
  return out;
}

// Nobody else's business either: what Kiln keeps there may lie right in one of them.
void make_parents(const fs::path& path) {
  std::error_code ignored;
  const fs::path parent = path.parent_path();
  if (parent.empty() || parent == path || fs::exists(parent, ignored)) return;
  make_parents(parent);
  ::mkdir(parent.c_str(), 0700);
}

}  // namespace

Result<UniqueFd> open_private_dir(const std::string& path) {
  if (path.empty()) return invalid_argument("the name of a directory is empty");
  std::error_code failed;
  const fs::path absolute = fs::absolute(path, failed);
  if (!failed) make_parents(absolute);
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
    return errno_error(ErrorCode::kPermissionDenied, "cannot create directory " + path, errno);
  }
  UniqueFd dir(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!dir) return errno_error(ErrorCode::kPermissionDenied, "cannot open directory " + path, errno);
  struct stat info{};
  if (::fstat(dir.get(), &info) != 0) return errno_error(ErrorCode::kInternal, "stat " + path, errno);
  if (info.st_uid != ::geteuid()) {
    return error(ErrorCode::kPermissionDenied, "directory " + path + " belongs to another user");
  }
  if ((info.st_mode & 077) != 0) {
    return error(ErrorCode::kPermissionDenied, "directory " + path + " is open to other users; its mode must be 0700");
  }
  return dir;
}

Result<std::string> find_runtime_dir(bool (*is_remote)(const std::string&)) {
  Error last = error(ErrorCode::kUnavailable, "no directory for the daemon's socket");
  for (const auto& candidate : runtime_candidates(is_remote)) {
    auto dir = open_private_dir(candidate);
    if (dir) return candidate;
    last.message += "; " + dir.error().message;
  }
  return last;
}

std::string present_runtime_dir() {
  for (const auto& candidate : runtime_candidates(is_on_remote_file_system)) {
    struct stat info{};
    const bool there = ::lstat(candidate.c_str(), &info) == 0;
    if (there && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() && (info.st_mode & 077) == 0) return candidate;
  }
  return {};
}

bool is_on_remote_file_system(const std::string& path) {
  // statfs(2), linux/magic.h; GPFS and BeeGFS by their own sources.
  constexpr uint32_t kRemote[] = {0x6969,     0x517b,     0xff534d42, 0xfe534d42, 0x0bd00bd0, 0x47504653,
                                  0x19830326, 0x00c36400, 0x5346414f, 0x01021997, 0x65735546};
  std::error_code ignored;
  struct statfs info{};
  for (fs::path at = fs::absolute(path, ignored);; at = at.parent_path()) {
    if (::statfs(at.c_str(), &info) == 0) break;
    if (!at.has_relative_path()) return false;
  }
  return std::ranges::find(kRemote, static_cast<uint32_t>(info.f_type)) != std::end(kRemote);
}

CacheDir find_cache_dir(bool (*is_remote)(const std::string&)) {
  if (std::string chosen = environment("KILN_CACHE_DIR"); !chosen.empty()) return {chosen, {}};
  std::string path;
  if (std::string xdg = environment("XDG_CACHE_HOME"); !xdg.empty()) {
    path = xdg + "/kiln";
  } else if (std::string home = environment("HOME"); !home.empty()) {
    path = home + "/.cache/kiln";
  }
  if (path.empty() || !is_remote(path)) return {path, {}};
  return {"/var/tmp/kiln-" + std::to_string(::geteuid()), path};
}

std::string self_path() {
  std::error_code failed;
  auto path = fs::read_symlink("/proc/self/exe", failed);
  return failed ? std::string() : path.string();
}

Result<std::string> find_kilnd(const std::string& programs_dir) {
  if (std::string chosen = environment("KILN_KILND"); !chosen.empty()) {
    auto named = find_program(chosen);
    if (!named) return error(ErrorCode::kUnavailable, "KILN_KILND names " + chosen + ": " + named.error().message);
    return named;
  }
  std::vector<fs::path> candidates;
  if (fs::path self = self_path(); !self.empty()) {
    candidates.push_back(self.parent_path() / "kilnd");
    candidates.push_back(self.parent_path() / "../bin/kilnd");
  }
  if (!programs_dir.empty()) candidates.push_back(fs::path(programs_dir) / "kilnd");
  std::string passed_over;
  if (std::string found = first_executable(candidates, passed_over); !found.empty()) return found;
  auto in_path = find_program("kilnd");
  if (in_path) return fs::weakly_canonical(*in_path).string();
  const std::string installed = programs_dir.empty() ? "" : " or in " + programs_dir;
  return error(ErrorCode::kUnavailable, "kilnd not found beside " + self_path() + ", in ../bin" + installed +
                                            passed_over + "; " + in_path.error().message +
                                            "; set KILN_KILND to its path");
}

namespace {

Result<std::string> find_beside(const std::string& kilnd_path, const std::string& name) {
  const fs::path dir = fs::path(kilnd_path).parent_path();
  std::string passed_over;
  std::string found =
      first_executable({dir / name, dir / "../libexec/kiln" / name, dir / "../bin" / name}, passed_over);
  if (!found.empty()) return found;
  return error(ErrorCode::kUnavailable,
               name + " not found beside " + kilnd_path + " or in ../libexec/kiln" + passed_over);
}

}  // namespace

Result<std::string> find_worker(const std::string& kilnd_path) { return find_beside(kilnd_path, "kiln-worker"); }
Result<std::string> find_tuner(const std::string& kilnd_path) { return find_beside(kilnd_path, "kiln-tune"); }
Result<std::string> find_runner(const std::string& program_path) { return find_beside(program_path, "kiln-runner"); }

}  // namespace kiln::wire

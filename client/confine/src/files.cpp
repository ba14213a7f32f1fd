// Landlock, by its system calls: the C library has no functions for them, and the kernel's header may be older than the
// kernel.
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "kiln/confine/confine.h"
#include "kiln/wire/channel.h"

namespace kiln::confine {
namespace {

constexpr int kCreateRuleset = 444, kAddRule = 445, kRestrictSelf = 446;  // the same for every processor
constexpr unsigned kAskVersion = 1;
constexpr int kPathBeneath = 1;

constexpr uint64_t kExecute = 1, kWriteFile = 2, kReadFile = 4, kReadDir = 8, kTruncate = 1 << 14, kIoctl = 1 << 15;
constexpr uint64_t kOfFiles = kExecute | kWriteFile | kReadFile | kTruncate | kIoctl;

struct Ruleset {
  uint64_t files, network, scope;
};
struct __attribute__((packed)) PathRule {
  uint64_t allowed;
  int32_t directory;
};

// All that a version knows: bits count up.
uint64_t file_rights(int version) {
  const int bits = version >= 5 ? 16 : version >= 3 ? 15 : version >= 2 ? 14 : 13;
  return (uint64_t{1} << bits) - 1;
}

Result<void> add(int ruleset, const std::string& path, uint64_t rights) {
  const wire::UniqueFd file(::open(path.c_str(), O_PATH | O_CLOEXEC));
  struct stat info{};
  if (!file || ::fstat(file.get(), &info) != 0) return {};
  const PathRule rule{S_ISDIR(info.st_mode) ? rights : rights & kOfFiles, file.get()};
  if (::syscall(kAddRule, ruleset, kPathBeneath, &rule, 0) == 0) return {};
  return wire::errno_error(ErrorCode::kInternal, "Landlock: " + path, errno);
}

}  // namespace

void hide_from_others() { ::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); }

namespace {

// What root may beyond other users, but for reading. The C library has no function for it either.
int drop_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct rights[_LINUX_CAPABILITY_U32S_3] = {};
  if (::syscall(SYS_capget, &header, rights) != 0) return -1;
  const uint32_t kept = rights[0].effective & (1u << CAP_DAC_READ_SEARCH);
  for (auto& half : rights) half = {};
  rights[0].effective = rights[0].permitted = kept;
  return static_cast<int>(::syscall(SYS_capset, &header, rights));
}

}  // namespace

Result<void> gain_no_rights() {
  if (drop_capabilities() != 0) return wire::errno_error(ErrorCode::kInternal, "capset", errno);
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) return {};
  return wire::errno_error(ErrorCode::kInternal, "PR_SET_NO_NEW_PRIVS", errno);
}

int landlock_version() {
  const long version = ::syscall(kCreateRuleset, nullptr, 0, kAskVersion);
  return version > 0 ? static_cast<int>(version) : 0;
}

Result<void> open_only(const Files& files) {
  const int version = landlock_version();
  if (version == 0) return {};
  // Fields that an older kernel does not know must be zero.
  const uint64_t all = file_rights(version);
  const Ruleset attributes{all, version >= 4 ? uint64_t{3} : 0, version >= 6 ? uint64_t{3} : 0};
  const wire::UniqueFd ruleset(static_cast<int>(::syscall(kCreateRuleset, &attributes, sizeof attributes, 0)));
  if (!ruleset) return wire::errno_error(ErrorCode::kInternal, "Landlock", errno);
  for (const std::string& path : files.read) {
    if (auto added = add(ruleset.get(), path, kExecute | kReadFile | kReadDir); !added) return added;
  }
  for (const std::string& path : files.write) {
    if (auto added = add(ruleset.get(), path, all); !added) return added;
  }
  if (::syscall(kRestrictSelf, ruleset.get(), 0) == 0) return {};
  return wire::errno_error(ErrorCode::kInternal, "Landlock", errno);
}

}  // namespace kiln::confine

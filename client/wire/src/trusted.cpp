#include "kiln/wire/trusted.h"

#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <sstream>
#include <vector>

#include "kiln/wire/channel.h"

namespace kiln::wire {
namespace {

using Path = std::filesystem::path;

constexpr int kMaxLinks = 40;

std::string user_name(uid_t user) {
  std::vector<char> text(16 << 10);
  passwd entry{}, *found = nullptr;
  return ::getpwuid_r(user, &entry, text.data(), text.size(), &found) == 0 && found ? entry.pw_name : "";
}

// Whose primary group it is: its members do not name them.
struct PrimaryUsers {
  bool the_user = false, others = false;
};

// By /etc/passwd alone, where all are named: other sources need not list theirs. Nothing: it cannot be read.
std::optional<PrimaryUsers> primary_users(gid_t group, uid_t user) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen("/etc/passwd", "re"), std::fclose);
  PrimaryUsers out;
  if (!file) return errno == ENOENT ? std::optional(out) : std::nullopt;
  std::vector<char> text(64 << 10);
  passwd entry{}, *found = nullptr;
  int status = 0;
  while ((status = ::fgetpwent_r(file.get(), &entry, text.data(), text.size(), &found)) == 0) {
    if (entry.pw_gid == group) (entry.pw_uid == user ? out.the_user : out.others) = true;
  }
  return status == ENOENT ? std::optional(out) : std::nullopt;
}

// The group is the primary one of `user` and of nobody else, has his name, and no other member: as useradd makes one
// for each user of Debian, Fedora and others, with a umask that lets it write.
bool is_private_group(gid_t group, uid_t user) {
  const auto primary = primary_users(group, user);
  if (!primary || primary->others) return false;
  std::vector<char> text(64 << 10);
  ::group entry{}, *found = nullptr;
  if (::getgrgid_r(group, &entry, text.data(), text.size(), &found) != 0) return false;  // very many members
  if (!found) return user != 0 && group == ::getegid();  // a user that a container has no names for
  if (!primary->the_user) return false;
  const std::string name = user_name(user);
  if (name.empty() || name != entry.gr_name) return false;
  for (char** member = entry.gr_mem; *member; ++member) {
    if (name != *member) return false;
  }
  return true;
}

// With an access list the group's bits are what its users and groups may have at most.
bool has_access_list(const std::string& path) {
  return ::lgetxattr(path.c_str(), "system.posix_acl_access", nullptr, 0) > 0;
}

// What is at fault at one place of the way; empty: nothing.
std::string fault(const std::string& path, const struct stat& info, bool below_sticky, uid_t owner_of_all) {
  const uid_t self = ::geteuid();
  // In a namespace without root, what is root's seems to be somebody's, as the root directory does; but so does all
  // that others have put into /tmp.
  const bool roots = info.st_uid == 0 || (info.st_uid == owner_of_all && !below_sticky);
  if (info.st_uid != self && !roots) return "belongs to user " + std::to_string(info.st_uid);
  if (S_ISLNK(info.st_mode) || (S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX))) return {};
  if (info.st_mode & S_IWOTH) return "can be written by everybody";
  if (!(info.st_mode & S_IWGRP)) return {};
  const bool closed = is_private_group(info.st_gid, self) || is_private_group(info.st_gid, 0);
  if (closed && !has_access_list(path)) return {};
  return "can be written by group " + std::to_string(info.st_gid);
}

// The parts of a path, the first of them last.
std::vector<std::string> parts_of(const Path& path) {
  std::vector<std::string> out;
  for (const Path& part : path.relative_path()) {
    if (!part.empty() && part != ".") out.push_back(part.string());
  }
  std::reverse(out.begin(), out.end());
  return out;
}

}  // namespace

Result<void> check_trusted(const std::string& path) {
  std::error_code failed;
  const Path whole = std::filesystem::absolute(path, failed);
  if (failed) return error(ErrorCode::kPermissionDenied, path + ": " + failed.message());
  Path at = "/";
  std::vector<std::string> rest = parts_of(whole);
  bool below_sticky = false;
  std::optional<uid_t> owner_of_all;
  for (int links = 0;;) {
    struct stat info{};
    if (::lstat(at.c_str(), &info) != 0) {
      return errno_error(ErrorCode::kUnavailable, path + " is not used: " + at.string() + " cannot be looked at",
                         errno);
    }
    if (!owner_of_all) owner_of_all = info.st_uid;
    if (const std::string why = fault(at, info, below_sticky, *owner_of_all); !why.empty()) {
      return error(ErrorCode::kPermissionDenied, path + " is not used: " + at.string() + " " + why +
                                                     "; it and the directories above it must belong to " +
                                                     "root or to user " + std::to_string(::geteuid()) +
                                                     " and be closed to others");
    }
    below_sticky = S_ISDIR(info.st_mode) && (info.st_mode & S_ISVTX) && (info.st_mode & (S_IWOTH | S_IWGRP));
    if (S_ISLNK(info.st_mode)) {
      const Path target = std::filesystem::read_symlink(at, failed);
      if (failed || ++links > kMaxLinks) return error(ErrorCode::kPermissionDenied, path + ": too many links");
      at = target.is_absolute() ? Path("/") : at.parent_path();
      const std::vector<std::string> more = parts_of(target);
      rest.insert(rest.end(), more.begin(), more.end());
      continue;
    }
    if (rest.empty()) return {};
    const bool up = rest.back() == "..";
    at = up ? at.parent_path() : at / rest.back();
    below_sticky = below_sticky && !up;
    rest.pop_back();
  }
}

namespace {

bool is_executable(const Path& path) {
  std::error_code ignored;
  return std::filesystem::is_regular_file(path, ignored) && ::access(path.c_str(), X_OK) == 0;
}

Result<std::string> check_program(const std::string& name) {
  std::error_code failed;
  const std::string whole = std::filesystem::absolute(name, failed).string();
  if (failed || !is_executable(whole)) return error(ErrorCode::kUnavailable, name + " is not an executable file");
  auto trusted = check_trusted(whole);
  return trusted ? Result<std::string>(whole) : trusted.error();
}

}  // namespace

Result<std::string> find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return check_program(name);
  Error failure = error(ErrorCode::kUnavailable, name + " is not in PATH");
  std::istringstream directories(environment("PATH"));
  for (std::string directory; std::getline(directories, directory, ':');) {
    if (directory.empty()) continue;
    auto found = check_program(directory + "/" + name);
    if (found) return found;
    if (found.error().code != ErrorCode::kPermissionDenied) continue;
    failure.code = ErrorCode::kPermissionDenied;
    failure.message += "; " + found.error().message;
  }
  return failure;
}

std::string environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value ? value : "";
}

}  // namespace kiln::wire

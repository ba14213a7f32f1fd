#include "vendor.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace kiln::client::gpu {

ErrorCode code_of(Status status, bool is_sticky) {
  if (is_sticky) return ErrorCode::kUnavailable;
  switch (status) {
    case kOutOfMemory:
      return ErrorCode::kOutOfMemory;
    case kLaunchOutOfResources:
      return ErrorCode::kResourceExhausted;
    case kInvalidValue:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kInternal;
  }
}

Error not_after_fork() {
  return error(
      ErrorCode::kUnavailable,
      "the GPU's driver was in use before fork(), and does not work in the child: fork before the first use, or "
      "start another program");
}

std::string closed_files(std::span<const char* const> files) {
  for (const char* file : files) {
    if (::faccessat(AT_FDCWD, file, R_OK | W_OK, AT_EACCESS) == 0 || errno == ENOENT) continue;
    return std::string("; this process may not open ") + file + ": " + std::strerror(errno);
  }
  return "";
}

Result<void> check_ordinal(const std::string& kind, int ordinal, int count, const char* who_sees) {
  if (ordinal >= 0 && ordinal < count) return {};
  return invalid_argument("there is no device " + kind + ":" + std::to_string(ordinal) + "; " + who_sees + " sees " +
                          std::to_string(count));
}

}  // namespace kiln::client::gpu

#include "kiln/dsl/result.h"

#include <array>

namespace kiln {
namespace {

constexpr std::array<std::string_view, 15> kNames = {
    "INVALID_ARGUMENT", "VERIFY_FAILED",     "COMPILE_FAILED", "WORKER_CRASHED",     "POISONED",
    "OUT_OF_MEMORY",    "DEADLINE_EXCEEDED", "CANCELLED",      "RESOURCE_EXHAUSTED", "DRAINING",
    "VERSION_MISMATCH", "PERMISSION_DENIED", "NOT_FOUND",      "UNAVAILABLE",        "INTERNAL"};
static_assert(kNames.size() == static_cast<size_t>(ErrorCode::kInternal) + 1);

}  // namespace

std::string_view to_string(ErrorCode code) { return kNames.at(static_cast<size_t>(code)); }

ErrorCode parse_error_code(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (kNames[i] == name) return static_cast<ErrorCode>(i);
  }
  return ErrorCode::kInternal;
}

}  // namespace kiln

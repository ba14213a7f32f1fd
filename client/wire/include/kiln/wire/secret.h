// Secrets that lie in files.
#pragma once

#include <string>

#include "kiln/dsl/result.h"

namespace kiln::wire {

inline constexpr size_t kMinKey = 32;

// What a file holds up to its last line's end. Refused where others than its owner may read or write it.
Result<std::string> read_secret(const std::string& path);
// The same for a key that authenticates, which has at least kMinKey bytes.
Result<std::string> read_key(const std::string& path);

}  // namespace kiln::wire

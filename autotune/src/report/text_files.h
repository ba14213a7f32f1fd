// Whole files of text: read at once, and written so that they appear complete or not at all.
#pragma once

#include <string>
#include <string_view>

#include "kiln/dsl/result.h"

namespace kiln::autotune {

Result<std::string> read_text_file(const std::string& path);
// Beside its name, then renamed: an old file stays where this fails.
Result<void> write_text_file(const std::string& path, std::string_view text);
// A directory with its parents; those that are missing are for this user alone.
Result<void> make_directories(const std::string& path);
std::string directory_of(const std::string& path);

}  // namespace kiln::autotune

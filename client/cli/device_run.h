// `kiln run` on a GPU.
#pragma once

#include <string>
#include <vector>

#include "kiln/client/handle.h"

namespace kiln::cli {

// Copies the arrays to the first device of a kind, "cuda" or "amd", launches there, waits, and copies back what the
// kernel may have written.
Result<void> launch_on_device(const std::string& kind, const client::UntypedFunction& function,
                              std::vector<client::Argument> arguments, client::LaunchOptions options);

}  // namespace kiln::cli

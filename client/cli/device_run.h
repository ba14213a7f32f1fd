// `kiln run` on a GPU.
#pragma once

#include <string>
#include <vector>

#include "kiln/client/handle.h"

namespace kiln::cli {

// Copies the arrays to the first device of a kind, "cuda" or "amd", launches there, waits, and copies back what the
// kernel may have written. Then it launches `repeat` times more, and gives what each took in milliseconds, by events of
// the device.
Result<std::vector<double>> launch_on_device(const std::string& kind, const client::UntypedFunction& function,
                                             std::vector<client::Argument> arguments, client::LaunchOptions options,
                                             int repeat = 0);

}  // namespace kiln::cli

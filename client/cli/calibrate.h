// `kiln calibrate`: scales for quantised layers from samples of tensors.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::cli {

struct CalibrateFlags {
  std::vector<std::string> tensors;  // NAME=FILE.npy or NAME=DIRECTORY; a name may be repeated
  std::string type = "u8", method = "minmax", output;
  double percent = 99.99;
  int bins = 2048;
  int axis = -1;  // below 0: one scale for the tensor
};
Result<void> calibrate(const CalibrateFlags& flags);

void add_calibrate_command(CLI::App& app, CalibrateFlags& flags, std::function<Result<void>()>& action);

}  // namespace kiln::cli

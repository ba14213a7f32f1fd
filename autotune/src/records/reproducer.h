// What is kept of a wrong result, for whoever looks for the compiler's bug.
#pragma once

#include <string>

#include "kiln/autotune/runner.h"

namespace kiln::autotune {

struct WrongResult {
  const dsl::Kernel& kernel;
  const Workload& workload;
  std::string device;  // as the runner's flags name it: "cpu", "cuda --device 1"
  Config expected_config, actual_config;
  const Artifact& expected;
  const Artifact& actual;
  std::string difference;
};

// Writes a directory into `parent`, named by kernel and contents; it appears complete or not at all. Gives its path.
Result<std::string> write_reproducer(const std::string& parent, const WrongResult& wrong);

// $XDG_DATA_HOME/kiln/reproducers, ~/.local/share/kiln/reproducers; empty where there is no home.
std::string default_reproducer_dir();

}  // namespace kiln::autotune

// `kiln targets`: what code can be made for, and how each op is computed there.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::cli {

struct TargetsFlags {
  std::vector<std::string> targets;  // empty: all
  std::string op;                    // "dot", "math exp"; empty: all
  bool json = false;
};
Result<void> targets(const TargetsFlags& flags);

void add_targets_command(CLI::App& app, TargetsFlags& flags, std::function<Result<void>()>& action);

}  // namespace kiln::cli

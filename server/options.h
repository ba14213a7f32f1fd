// The options of kilnd: from the command line, the environment and a file.
#pragma once

#include <CLI/CLI.hpp>

#include "config.h"

namespace kiln::server {

void add_options(CLI::App& app, Config& config);

// After parsing: which of the options were given, and where.
std::map<std::string, std::string> option_sources(const CLI::App& app, int argc, char** argv);

}  // namespace kiln::server

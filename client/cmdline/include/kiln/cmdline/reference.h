// `PROGRAM --reference FORMAT`: a program's option table in the form that manual pages and completions are made of.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

namespace kiln::cmdline {

// The sections COMMANDS and OPTIONS of a manual page. `program` is the name in the title of each usage.
std::string manual_sections(const CLI::App& app, const std::string& program);

// Two shell functions that any Bourne-like shell with `case` and `local` reads: _kiln_table_PROGRAM sets
// kiln_commands and kiln_options for a path of subcommands, _kiln_values_PROGRAM sets kiln_values for a path and an
// option, and fails where the option takes no value. `-` is `_` in the names.
std::string shell_tables(const CLI::App& app, const std::string& program);

// `complete` lines for fish, which need its function __kiln_at (packaging/completion.fish).
std::string fish_lines(const CLI::App& app, const std::string& program);

// Where the command line is `--reference man|sh|fish` and nothing else: prints that, and gives the exit code.
std::optional<int> print_reference(const CLI::App& app, const std::string& program, int argc, char** argv);

}  // namespace kiln::cmdline

// A program's commands in one list, each with its options, as all forms of the reference need them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace kiln::cmdline {

struct Command {
  std::string path;  // of subcommands, by spaces; empty for the program itself
  std::string help;
  bool delegates = false;  // what follows is another program's
  std::vector<std::string> subcommands;
  std::vector<const CLI::Option*> options, positionals;
};

// The program first, then its subcommands in the order of the table, each before its own.
std::vector<Command> commands_of(const CLI::App& app);

// "-o", "--output": the short ones first.
std::vector<std::string> names_of(const CLI::Option& option);
bool takes_value(const CLI::Option& option);
// What a check against a set allows; empty where anything goes.
std::vector<std::string> choices_of(const CLI::Option& option);
// The type's name without its checks.
std::string type_of(const CLI::Option& option);
// A check that is not a set of choices, as --help has it.
std::string check_of(const CLI::Option& option);

std::string join(const std::vector<std::string>& words, const std::string& separator);

}  // namespace kiln::cmdline

// Tables for completion: for bash and zsh as functions that set variables, for fish as `complete` lines.
#include "commands.h"
#include "kiln/cmdline/reference.h"

namespace kiln::cmdline {
namespace {

std::string single_quoted(const std::string& text, const std::string& quote) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? quote : std::string(1, c);
  return out + "'";
}

std::string shell_quoted(const std::string& text) { return single_quoted(text, "'\\''"); }
std::string fish_quoted(const std::string& text) {
  std::string doubled;  // in fish a backslash means something between single quotes
  for (const char c : text) doubled += c == '\\' ? "\\\\" : std::string(1, c);
  return single_quoted(doubled, "\\'");
}

std::string function_suffix(std::string program) {
  for (char& c : program) c = c == '-' ? '_' : c;
  return program;
}

std::vector<std::string> all_names(const Command& command) {
  std::vector<std::string> out;
  for (const CLI::Option* option : command.options) {
    for (const std::string& name : names_of(*option)) out.push_back(name);
  }
  return out;
}

std::string values_case(const Command& command, const CLI::Option& option) {
  std::vector<std::string> patterns;
  for (const std::string& name : names_of(option)) patterns.push_back(shell_quoted(command.path + " " + name));
  return "    " + join(patterns, " | ") + ") kiln_values=" + shell_quoted(join(choices_of(option), " ")) + " ;;\n";
}

std::string fish_option(const std::string& start, const CLI::Option& option) {
  std::string out = start;
  for (const std::string& name : option.get_snames()) out += " -s " + name;
  for (const std::string& name : option.get_lnames()) out += " -l " + name;
  const auto choices = choices_of(option);
  if (!choices.empty()) {
    out += " -x -a " + fish_quoted(join(choices, " "));
  } else if (takes_value(option)) {
    out += " -r";
  }
  return out + " -d " + fish_quoted(option.get_description()) + "\n";
}

}  // namespace

std::string shell_tables(const CLI::App& app, const std::string& program) {
  std::string tables, values;
  for (const Command& command : commands_of(app)) {
    tables += "    " + shell_quoted(command.path) + ") kiln_commands=" + shell_quoted(join(command.subcommands, " ")) +
              " kiln_options=" + shell_quoted(join(all_names(command), " ")) + " ;;\n";
    for (const CLI::Option* option : command.options) {
      if (takes_value(*option)) values += values_case(command, *option);
    }
  }
  const std::string suffix = function_suffix(program);
  return "_kiln_table_" + suffix + "() {\n  kiln_commands= kiln_options=\n  case $1 in\n" + tables + "  esac\n}\n" +
         "_kiln_values_" + suffix + "() {\n  kiln_values=\n  case \"$1 $2\" in\n" + values +
         "    *) return 1 ;;\n  esac\n}\n";
}

std::string fish_lines(const CLI::App& app, const std::string& program) {
  const std::vector<Command> commands = commands_of(app);
  std::string out;
  for (const Command& command : commands) {
    const std::string start = "complete -c " + program + " -n " + fish_quoted("__kiln_at " + command.path);
    for (const std::string& sub : command.subcommands) {
      const std::string path = command.path.empty() ? sub : command.path + " " + sub;
      for (const Command& other : commands) {
        if (other.path == path) out += start + " -f -a " + sub + " -d " + fish_quoted(other.help) + "\n";
      }
    }
    for (const CLI::Option* option : command.options) out += fish_option(start, *option);
  }
  return out;
}

}  // namespace kiln::cmdline

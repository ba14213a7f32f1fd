// Sections of a manual page, in the man macros that man-db and mandoc read.
#include "commands.h"
#include "kiln/cmdline/reference.h"

namespace kiln::cmdline {
namespace {

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";  // a minus that can be copied, not a hyphen
    } else {
      out += c;
    }
  }
  // At the start of a line these two begin a request.
  return out.starts_with('.') || out.starts_with('\'') ? "\\&" + out : out;
}

std::string bold(const std::string& text) { return "\\fB" + escaped(text) + "\\fR"; }
std::string italic(const std::string& text) { return "\\fI" + escaped(text) + "\\fR"; }

std::string value_text(const CLI::Option& option) {
  std::vector<std::string> choices;
  for (const std::string& choice : choices_of(option)) choices.push_back(bold(choice));
  return choices.empty() ? italic(type_of(option)) : join(choices, "|");
}

std::string option_text(const CLI::Option& option) {
  std::vector<std::string> names;
  for (const std::string& name : names_of(option)) names.push_back(bold(name));
  std::string out = ".TP\n" + join(names, ", ");
  if (takes_value(option)) out += " " + value_text(option);
  out += "\n" + escaped(option.get_description()) + ".\n";
  if (const std::string check = check_of(option); !check.empty()) out += "(" + escaped(check) + ")\n";
  if (!option.get_default_str().empty()) out += "Default: " + bold(option.get_default_str()) + ".\n";
  if (!option.get_envname().empty()) out += "In the environment: " + bold(option.get_envname()) + ".\n";
  return out;
}

std::string positional_text(const CLI::Option& option) {
  std::string out = ".TP\n" + italic(option.get_name(true));
  const std::string help = option.get_description();
  return out + "\n" + (help.empty() ? std::string("Required") : escaped(help)) + ".\n";
}

std::string usage(const Command& command, const std::string& program) {
  std::string out = bold(program + (command.path.empty() ? "" : " " + command.path));
  if (!command.subcommands.empty()) out += " " + italic("COMMAND");
  if (!command.options.empty()) out += " [" + italic("OPTION") + "]...";
  for (const CLI::Option* positional : command.positionals) {
    std::string word = italic(positional->get_name(true));
    if (positional->get_items_expected_max() > 1) word += "...";
    out += positional->get_required() ? " " + word : " [" + word + "]";
  }
  return out;
}

std::string details(const Command& command) {
  std::string out;
  for (const CLI::Option* positional : command.positionals) out += positional_text(*positional);
  for (const CLI::Option* option : command.options) out += option_text(*option);
  return out;
}

}  // namespace

std::string manual_sections(const CLI::App& app, const std::string& program) {
  const std::vector<Command> commands = commands_of(app);
  std::string out;
  for (const Command& command : commands) {
    if (command.path.empty()) continue;
    out += (out.empty() ? ".SH COMMANDS\n" : "");
    out += ".SS \"" + escaped(program + " " + command.path) + "\"\n" + usage(command, program) + "\n.PP\n" +
           escaped(command.help) + ".\n" + details(command);
  }
  return out + ".SH OPTIONS\n" + details(commands.front());
}

}  // namespace kiln::cmdline

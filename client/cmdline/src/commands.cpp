// Walks a CLI::App.
#include "commands.h"

#include <algorithm>

namespace kiln::cmdline {
namespace {

bool has(const std::vector<const CLI::Option*>& options, const CLI::Option& wanted) {
  return std::any_of(options.begin(), options.end(),
                     [&](const CLI::Option* option) { return names_of(*option) == names_of(wanted); });
}

// A group's options are those of the command that it stands in; both have --help.
void add_options(const CLI::App& app, Command& command) {
  for (const CLI::Option* option : app.get_options()) {
    const bool hidden = option->get_group().empty();
    if (hidden || (option->nonpositional() && has(command.options, *option))) continue;
    (option->nonpositional() ? command.options : command.positionals).push_back(option);
  }
  for (const CLI::App* group : app.get_subcommands([](const CLI::App* sub) { return sub->get_name().empty(); })) {
    add_options(*group, command);
  }
}

void collect(const CLI::App& app, const std::string& path, std::vector<Command>& out) {
  Command command;
  command.path = path;
  command.help = app.get_description();
  command.delegates = app.get_prefix_command();
  add_options(app, command);
  const auto named = app.get_subcommands([](const CLI::App* sub) { return !sub->get_name().empty(); });
  for (const CLI::App* sub : named) command.subcommands.push_back(sub->get_name());
  out.push_back(std::move(command));
  for (const CLI::App* sub : named) collect(*sub, path.empty() ? sub->get_name() : path + " " + sub->get_name(), out);
}

// "TEXT:{a,b}" and "S:FLOAT in [0 - 1]" are a name and a check.
std::string after_name(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t colon = type.find(':');
  return colon == std::string::npos ? std::string() : type.substr(colon + 1);
}

}  // namespace

std::vector<Command> commands_of(const CLI::App& app) {
  std::vector<Command> out;
  collect(app, "", out);
  return out;
}

std::vector<std::string> names_of(const CLI::Option& option) {
  std::vector<std::string> out;
  for (const std::string& name : option.get_snames()) out.push_back("-" + name);
  for (const std::string& name : option.get_lnames()) out.push_back("--" + name);
  return out;
}

bool takes_value(const CLI::Option& option) { return option.get_items_expected_max() > 0; }

std::vector<std::string> choices_of(const CLI::Option& option) {
  const std::string check = after_name(option);
  if (check.size() < 2 || check.front() != '{' || check.back() != '}') return {};
  return CLI::detail::split(check.substr(1, check.size() - 2), ',');
}

std::string type_of(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.empty() ? "TEXT" : type.substr(0, type.find(':'));
}

std::string check_of(const CLI::Option& option) {
  return choices_of(option).empty() ? after_name(option) : std::string();
}

std::string join(const std::vector<std::string>& words, const std::string& separator) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : separator) + word;
  return out;
}

}  // namespace kiln::cmdline

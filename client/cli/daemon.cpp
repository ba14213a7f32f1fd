// `kiln serve`, `ping`, `stats` and `stop`: the daemon from the command line; and `kiln tune`, which is a program of
// its own like the daemon.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "answers.h"
#include "commands.h"
#include "kiln/client/connection.h"
#include "kiln/wire/files.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/printable.h"

namespace kiln::cli {
namespace {

// The daemon that runs, whatever its build; none is started for a question about it.
Result<std::unique_ptr<client::Connection>> running_daemon() {
  client::ConnectOptions options;
  options.client_name = "kiln";
  options.autostart = options.exact_build = options.allow_pipe = false;
  return client::Connection::open(options);
}

// One line a number, nested objects by dotted names.
void print_flat(const std::string& name, const nlohmann::json& value) {
  if (!value.is_object()) {
    std::printf("%-40s %s\n", wire::printable(name).c_str(),
                wire::printable(value.is_string() ? value.get<std::string>() : wire::dump_ascii(value)).c_str());
    return;
  }
  for (const auto& [key, inner] : value.items()) print_flat(name.empty() ? key : name + "." + key, inner);
}

Result<void> print_poison(const nlohmann::json& values) {
  wire::Fields all(values);
  for (const auto& one : all.objects("poison")) {
    wire::Fields kernel(one);
    const std::string key = wire::printable(kernel.text("key")), cause = wire::printable(kernel.text("cause"));
    const uint64_t kills = kernel.number("kills"), left_ms = kernel.number("left_ms");
    if (!kernel.ok()) return bad_answer(kernel.error());
    std::printf("%s  killed %llu workers, last: %s; refused for %llu s more\n", key.c_str(),
                static_cast<unsigned long long>(kills), cause.c_str(), static_cast<unsigned long long>(left_ms / 1000));
  }
  return all.ok() ? Result<void>() : bad_answer(all.error());
}

// This process becomes the program; returns only where that fails.
Error become(const std::string& program, std::vector<std::string> words) {
  std::vector<char*> argv = {const_cast<char*>(program.c_str())};
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  ::execv(program.c_str(), argv.data());
  return error(ErrorCode::kUnavailable, program + ": cannot be started: " + std::strerror(errno));
}

}  // namespace

Result<void> serve(const std::vector<std::string>& daemon_flags) {
  auto kilnd = wire::find_kilnd();
  if (!kilnd) return kilnd.error();
  std::vector<std::string> words = {"--foreground"};
  words.insert(words.end(), daemon_flags.begin(), daemon_flags.end());
  return become(*kilnd, std::move(words));
}

Result<void> tune(const std::vector<std::string>& words) {
  auto tuner = wire::find_tuner(wire::self_path());
  if (!tuner) return tuner.error();
  return become(*tuner, words);
}

Result<void> ping() {
  auto daemon = running_daemon();
  if (!daemon) return daemon.error();
  if (auto done = (*daemon)->ping(); !done) return done;
  const wire::Welcome server = (*daemon)->server();
  // Line by line: the target lists every feature of the CPU.
  std::printf("pid            %lld\nbuilder        %s\nnative target  %s\n", static_cast<long long>(server.pid),
              wire::printable(server.builder_id).c_str(), wire::printable(server.native_target).c_str());
  return {};
}

Result<void> stats(const StatsFlags& flags) {
  auto daemon = running_daemon();
  if (!daemon) return daemon.error();
  if (flags.clear_poison) return (*daemon)->clear_poison();
  if (flags.prometheus) {
    auto text = (*daemon)->stats("prometheus");
    if (!text) return text.error();
    std::printf("%s", wire::printable_lines(*text).c_str());
    return {};
  }
  const auto text = (*daemon)->stats();
  if (!text) return text.error();
  const auto values = wire::parse_object(*text);
  if (!values) return bad_answer(values.error());
  if (flags.json) {
    std::printf("%s\n", wire::dump_ascii(*values, 2).c_str());
  } else if (flags.poison) {
    return print_poison(*values);
  } else {
    print_flat("", *values);
  }
  return {};
}

Result<void> trace(const std::string& file, uint32_t last) {
  auto daemon = running_daemon();
  if (!daemon) return daemon.error();
  auto text = (*daemon)->stats("trace", last);
  if (!text) return text.error();
  if (!file.empty() && file != "-") return wire::write_text(file, *text);
  std::printf("%s\n", wire::printable_lines(*text).c_str());
  return {};
}

Result<void> stop() {
  auto daemon = running_daemon();
  if (!daemon) return daemon.error();
  return (*daemon)->shutdown();
}

}  // namespace kiln::cli

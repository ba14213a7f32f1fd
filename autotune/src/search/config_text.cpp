// Configs as text.
#include <charconv>

#include "kiln/autotune/space.h"
#include "kiln/target/schedule_options.h"

namespace kiln::autotune {
namespace {

// An integer, or the name that a value of a schedule option has.
std::optional<int64_t> value_of(const std::string& name, std::string_view text) {
  if (const auto named = target::parse_option_name(name, text)) return named;
  int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string to_string(const Config& config) {
  std::string out;
  for (const auto& [name, value] : config) out += (out.empty() ? "" : ",") + name + "=" + std::to_string(value);
  return out;
}

Result<Config> parse_config(const std::string& text) {
  Config out;
  for (size_t start = 0; start < text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    const std::string item = text.substr(start, comma - start);
    const size_t equals = item.find('=');
    const std::string name = item.substr(0, equals);
    if (equals == std::string::npos || equals == 0)
      return invalid_argument("the config `" + text + "`: write NAME=VALUE");
    const auto value = value_of(name, std::string_view(item).substr(equals + 1));
    if (!value) return invalid_argument("the config `" + text + "`: `" + item + "` has no integer");
    if (!out.emplace(name, *value).second) {
      return invalid_argument("the config `" + text + "`: `" + name + "` stands twice");
    }
    start = comma + 1;
  }
  return out;
}

}  // namespace kiln::autotune

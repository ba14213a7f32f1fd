// Configs as text.
#include <charconv>

#include "kiln/autotune/space.h"

namespace kiln::autotune {

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
    int64_t value = 0;
    if (equals == std::string::npos || equals == 0)
      return invalid_argument("the config `" + text + "`: write NAME=VALUE");
    auto [end, status] = std::from_chars(item.data() + equals + 1, item.data() + item.size(), value);
    if (status != std::errc() || end != item.data() + item.size()) {
      return invalid_argument("the config `" + text + "`: `" + item + "` has no integer");
    }
    if (!out.emplace(item.substr(0, equals), value).second) {
      return invalid_argument("the config `" + text + "`: `" + item.substr(0, equals) + "` stands twice");
    }
    start = comma + 1;
  }
  return out;
}

}  // namespace kiln::autotune

// Words of a text.
#pragma once

#include <algorithm>
#include <string_view>
#include <vector>

namespace kiln::target {

// The parts of a text between separators, none of them empty.
inline std::vector<std::string_view> parts(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

}  // namespace kiln::target

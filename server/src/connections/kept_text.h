// Words of others that are kept: no more of them than somebody will read.
#pragma once

#include <string>

namespace kiln::server {

inline constexpr size_t kMostOfAPhase = 32, kMostOfAClientsName = 256, kMostOfATraceId = 128, kMostOfAMessage = 8192;

inline std::string cut(std::string text, size_t most) {
  if (text.size() > most) {
    text.resize(most);
    text.shrink_to_fit();
  }
  return text;
}

}  // namespace kiln::server

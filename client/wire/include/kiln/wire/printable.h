// Names and messages come from other programs and from files, and a terminal obeys what it is shown: what a program of
// ours prints of them goes through here.
#pragma once

#include <string>
#include <string_view>

namespace kiln::wire {

// The text with a question mark for each control character (C0, DEL, and C1 as UTF-8), but for those in `kept`.
inline std::string printable(std::string_view text, std::string_view kept = "") {
  auto is_control = [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; };
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_c1 = byte == 0xc2 && i + 1 < text.size() && (static_cast<unsigned char>(text[i + 1]) & 0xe0) == 0x80;
    if (is_c1) ++i;
    const bool replace = is_c1 || (is_control(byte) && kept.find(text[i]) == std::string_view::npos);
    out += replace ? '?' : static_cast<char>(byte);
  }
  return out;
}

// Of a text of several lines.
inline std::string printable_lines(std::string_view text) { return printable(text, "\n\t"); }

}  // namespace kiln::wire

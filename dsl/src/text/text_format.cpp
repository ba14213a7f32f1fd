#include "kiln/dsl/text_format.h"

namespace kiln::dsl {

std::string in_quotes(std::string_view text) {
  static constexpr unsigned char kBeforeC1 = 0xc2;
  auto is_c1 = [&](size_t i) { return i < text.size() && (static_cast<unsigned char>(text[i]) & 0xe0) == 0x80; };
  std::string out = "\"";
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    const bool half = (byte == kBeforeC1 && is_c1(i + 1)) ||
                      (is_c1(i) && i > 0 && static_cast<unsigned char>(text[i - 1]) == kBeforeC1);
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (byte < 0x20 || byte == 0x7f || half) {
      static constexpr char kHex[] = "0123456789abcdef";
      out += "\\x";
      out += kHex[byte >> 4];
      out += kHex[byte & 15];
    } else {
      out += c;
    }
  }
  return out + "\"";
}

}  // namespace kiln::dsl

// What printers and readers of the text forms must agree on: names, strings and numbers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "kiln/dsl/types.h"

namespace kiln::dsl {

inline bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }
inline bool is_name_char(char c) { return is_name_start(c) || is_digit(c) || c == '.'; }

// Names of kernels, parameters, constexprs and space axes; value names too, where those are no numbers.
inline bool is_name(std::string_view text) {
  if (text.empty() || text.size() > 256 || !is_name_start(text[0])) return false;
  for (char c : text) {
    if (!is_name_char(c)) return false;
  }
  return true;
}

// What keeps a text from being a name, or "".
inline const char* name_problem(std::string_view text) {
  if (is_name(text)) return "";
  return text.size() > 256 && is_name(text.substr(0, 256)) ? "is longer than 256 characters" : "has no usable name";
}

// In double quotes, as the text forms have strings. Of control characters, also those of two bytes (C1), none is left:
// a terminal would obey them.
std::string in_quotes(std::string_view text);

// A number of an element type, by its bits: ints in decimal, floats as the shortest decimal that reads back to the same
// bits, `inf`, `-inf`, `nan`, and any other NaN as 0x….
std::string literal_text(ElementType element, uint64_t bits);

// The bits of a literal: digits of a decimal number, `inf` or `nan`, or 0x… for the bits themselves; `negative` for one
// behind a minus. Nothing when it is no value of the element type.
std::optional<uint64_t> parse_literal(ElementType element, std::string_view digits, bool negative);

}  // namespace kiln::dsl

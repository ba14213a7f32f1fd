// Tokens of the text form.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kiln/dsl/result.h"

namespace kiln::dsl {

enum class TokenKind : uint8_t { kEnd, kName, kValue, kNumber, kString, kPunct };

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string_view text;  // a value without its %, a string with its quotes
  uint32_t line = 1;
  uint32_t column = 1;
};

// Thrown inside the parser only; parse() turns it into an Error.
struct SyntaxError {
  Error error;
};

// Splits the text into tokens on demand. Numbers are left as they are written: whether `1e5` or `0x7f` will do depends
// on where it stands.
class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file_name) : text_(text), file_name_(file_name) { advance(); }

  const Token& peek() const { return token_; }
  // The token after peek(), without moving.
  Token peek_second() const;
  Token next();

  [[noreturn]] void fail(const Token& at, const std::string& message) const;

 private:
  void advance();
  void skip_space();
  void take_string();
  char at(size_t offset) const { return position_ + offset < text_.size() ? text_[position_ + offset] : '\0'; }

  std::string_view text_;
  std::string file_name_;
  size_t position_ = 0, line_start_ = 0;
  uint32_t line_ = 1;
  Token token_;
};

// "`carry`", "the end of the file", …: a token as an error names it.
std::string describe(const Token& token);

}  // namespace kiln::dsl

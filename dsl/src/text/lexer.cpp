#include "kiln/dsl/lexer.h"

#include <algorithm>

#include "ir/diagnostic.h"
#include "kiln/dsl/text_format.h"

namespace kiln::dsl {

std::string describe(const Token& token) {
  if (token.kind == TokenKind::kEnd) return "the end of the file";
  constexpr size_t kMaxShown = 40;
  std::string text = (token.kind == TokenKind::kValue ? "%" : "") + std::string(token.text.substr(0, kMaxShown));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
  }
  return "`" + text + (token.text.size() > kMaxShown ? "…`" : "`");
}

void Lexer::fail(const Token& at, const std::string& message) const {
  const std::string head =
      file_name_ + ":" + std::to_string(at.line) + ":" + std::to_string(at.column) + ": error: " + message;
  // The token's line, found by its own position; past the end there is none to show.
  const auto offset = static_cast<size_t>(at.text.data() - text_.data());
  if (at.text.data() == nullptr || offset > text_.size()) throw SyntaxError{invalid_argument(head)};
  const size_t before = offset == 0 ? std::string_view::npos : text_.rfind('\n', offset - 1);
  const size_t start = before == std::string_view::npos ? 0 : before + 1;
  const size_t end = std::min(text_.find('\n', offset), text_.size());
  throw SyntaxError{invalid_argument(with_caret(head, text_.substr(start, end - start), at.column))};
}

Token Lexer::peek_second() const {
  Lexer ahead = *this;
  ahead.advance();
  return ahead.token_;
}

Token Lexer::next() {
  const Token out = token_;
  advance();
  return out;
}

void Lexer::skip_space() {
  for (;;) {
    const char c = at(0);
    if (c == '\n') {
      ++line_;
      line_start_ = ++position_;
    } else if (c == ' ' || c == '\t' || c == '\r') {
      ++position_;
    } else if (c == '/' && at(1) == '/') {
      while (position_ < text_.size() && text_[position_] != '\n') ++position_;
    } else {
      return;
    }
  }
}

void Lexer::advance() {
  skip_space();
  token_ = {TokenKind::kEnd, text_.substr(position_, 0), line_, static_cast<uint32_t>(position_ - line_start_ + 1)};
  if (position_ == text_.size()) return;
  const size_t start = position_;
  const char c = at(0);
  if (c == '"') return take_string();
  if (is_name_start(c)) {
    token_.kind = TokenKind::kName;
    while (is_name_char(at(0))) ++position_;
  } else if (c == '%' && is_name_char(at(1))) {
    token_.kind = TokenKind::kValue;
    ++position_;
    while (is_name_char(at(0))) ++position_;
    token_.text = text_.substr(start + 1, position_ - start - 1);
    return;
  } else if (is_digit(c)) {
    token_.kind = TokenKind::kNumber;
    // A sign belongs to the number right behind the e of a decimal one.
    const bool hex = c == '0' && at(1) == 'x';
    while (is_name_char(at(0)) || (!hex && (at(0) == '+' || at(0) == '-') && text_[position_ - 1] == 'e')) ++position_;
  } else {
    token_.kind = TokenKind::kPunct;
    ++position_;
    // Keep a multi-byte character whole, for the error that will show it.
    while ((static_cast<unsigned char>(at(0)) & 0xc0) == 0x80) ++position_;
  }
  token_.text = text_.substr(start, position_ - start);
}

void Lexer::take_string() {
  const size_t start = position_++;
  token_.kind = TokenKind::kString;
  while (position_ < text_.size() && at(0) != '"' && at(0) != '\n') position_ += at(0) == '\\' && at(1) != '\n' ? 2 : 1;
  if (position_ >= text_.size() || at(0) != '"') {
    token_.text = text_.substr(start, 1);
    position_ = std::min(position_, text_.size());
    fail(token_, "the string has no closing quote");
  }
  ++position_;
  token_.text = text_.substr(start, position_ - start);
}

}  // namespace kiln::dsl

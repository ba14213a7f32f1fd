#include "kiln/dsl/text_reader.h"

#include <charconv>
#include <limits>

#include "ir/kernel_limits.h"
#include "kiln/dsl/text_format.h"

namespace kiln::dsl {
namespace {

constexpr AtomKind kFunctions[] = {AtomKind::kDiv, AtomKind::kRem, AtomKind::kMin, AtomKind::kMax,
                                   AtomKind::kEq,  AtomKind::kNe,  AtomKind::kLt,  AtomKind::kLe};

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

bool TextReader::is(std::string_view text) const {
  const Token& token = lexer_.peek();
  return (token.kind == TokenKind::kName || token.kind == TokenKind::kPunct) && token.text == text;
}

bool TextReader::accept(std::string_view text) {
  if (!is(text)) return false;
  lexer_.next();
  return true;
}

void TextReader::fail_expected(const std::string& what) const {
  fail(lexer_.peek(), "expected " + what + ", found " + describe(lexer_.peek()));
}

Token TextReader::expect(std::string_view text) {
  if (!is(text)) fail_expected("`" + std::string(text) + "`");
  return lexer_.next();
}

Token TextReader::expect(TokenKind kind, const char* what) {
  if (lexer_.peek().kind != kind) fail_expected(what);
  return lexer_.next();
}

Expr TextReader::bounded(Expr expr, const Token& at) const {
  if (expr.terms().size() > kMaxTerms) fail(at, "the expression has too many terms");
  if (tree_size(expr, kMaxExprSize) == kMaxExprSize) fail(at, "the expression is too large");
  for (const Term& term : expr.terms()) {
    if (term.atoms.size() > kMaxAtoms) fail(at, "the expression has too many factors");
  }
  return expr;
}

Expr TextReader::parse_expr() {
  const Token at = lexer_.peek();
  if (++expr_depth_ > kMaxExprDepth) fail(at, "the expression is nested too deeply");
  Expr sum = parse_product(accept("-"));
  while (is("+") || is("-")) {
    const bool negative = lexer_.next().text == "-";
    sum = bounded(sum + parse_product(negative), at);
  }
  --expr_depth_;
  return sum;
}

Expr TextReader::parse_product(bool negative) {
  const Token at = lexer_.peek();
  Expr product = parse_factor(negative);
  while (accept("*")) {
    const Expr factor = parse_factor(accept("-"));
    if (product.terms().size() * factor.terms().size() > kMaxTerms) fail(at, "the expression has too many terms");
    product = bounded(product * factor, at);
  }
  return product;
}

Expr TextReader::parse_factor(bool negative) {
  const Token token = lexer_.next();
  if (token.kind == TokenKind::kNumber) {
    uint64_t magnitude = 0;
    auto [end, status] = std::from_chars(token.text.data(), token.text.data() + token.text.size(), magnitude);
    constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (end != token.text.data() + token.text.size()) fail(token, "expected an integer, found " + describe(token));
    if (status != std::errc() || magnitude > kMax + (negative ? 1 : 0)) fail(token, "the integer is too large");
    return Expr(static_cast<int64_t>(negative ? -magnitude : magnitude));
  }
  Expr factor;
  if (token.kind == TokenKind::kName) {
    factor = parse_name(token);
  } else if (token.kind == TokenKind::kPunct && token.text == "(") {
    factor = parse_expr();
    expect(")");
  } else {
    fail(token, "expected an integer expression, found " + describe(token));
  }
  return negative ? factor * Expr(-1) : factor;
}

// A name of the reader's own, or div(a, b) and its like.
Expr TextReader::parse_name(const Token& name) {
  if (accept("(")) {
    for (AtomKind kind : kFunctions) {
      if (name.text != to_string(kind)) continue;
      Expr a = parse_expr();
      expect(",");
      Expr b = parse_expr();
      expect(")");
      return bounded(Expr::apply(kind, std::move(a), std::move(b)), name);
    }
    fail(name, "there is no function " + describe(name) + "; there are div, rem, min, max, eq, ne, lt, le");
  }
  return atom(name);
}

int64_t TextReader::parse_int() {
  const bool negative = accept("-");
  if (lexer_.peek().kind != TokenKind::kNumber) fail_expected("an integer");
  return parse_factor(negative).as_constant().value_or(0);
}

std::vector<Expr> TextReader::parse_list() {
  std::vector<Expr> out;
  expect("[");
  while (!is("]")) {
    if (out.size() == kMaxShape) fail(lexer_.peek(), "too many entries");
    out.push_back(parse_expr());
    if (!accept(",")) break;
  }
  expect("]");
  return out;
}

// 0 or 1, or in words.
int64_t TextReader::parse_flag(std::string_view name) {
  const Token token = lexer_.next();
  const bool word = token.kind == TokenKind::kName || token.kind == TokenKind::kNumber;
  if (word && (token.text == "1" || token.text == "true")) return 1;
  if (word && (token.text == "0" || token.text == "false")) return 0;
  fail(token, "`" + std::string(name) + "` is 0 or 1, not " + describe(token));
}

ElementType TextReader::parse_element() {
  if (lexer_.peek().kind != TokenKind::kName) fail_expected("an element type");
  const Token name = lexer_.next();
  auto element = parse_element_type(name.text);
  if (!element) fail(name, "there is no element type " + describe(name));
  return *element;
}

std::string TextReader::parse_string() {
  const Token token = expect(TokenKind::kString, "a string in double quotes");
  const std::string_view body = token.text.substr(1, token.text.size() - 2);
  std::string out;
  for (size_t i = 0; i < body.size(); ++i) {
    if (body[i] != '\\') {
      out += body[i];
      continue;
    }
    const char escape = ++i < body.size() ? body[i] : '\0';
    if (escape == 'n')
      out += '\n';
    else if (escape == 't')
      out += '\t';
    else if (escape == '"' || escape == '\\')
      out += escape;
    else if (escape == 'x' && i + 2 < body.size() && hex_value(body[i + 1]) >= 0 && hex_value(body[i + 2]) >= 0) {
      out += static_cast<char>(hex_value(body[i + 1]) * 16 + hex_value(body[i + 2]));
      i += 2;
    } else {
      fail(token, "the string has an unknown escape; there are \\n \\t \\\" \\\\ and \\xHH");
    }
  }
  return out;
}

}  // namespace kiln::dsl

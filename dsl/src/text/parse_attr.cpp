// Text to IR: attributes, types and integer expressions.
#include <charconv>
#include <limits>

#include "ir/kernel_limits.h"
#include "text/parser.h"
#include "text/text_format.h"

namespace kiln::dsl {
namespace {

constexpr AtomKind kFunctions[] = {AtomKind::kDiv, AtomKind::kRem, AtomKind::kMin, AtomKind::kMax,
                                   AtomKind::kEq,  AtomKind::kNe,  AtomKind::kLt,  AtomKind::kLe};

int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

}  // namespace

// Whether the brace ahead opens attributes: a region begins with a value or with the name of an op.
bool Parser::attrs_follow(const OpInfo& table) const {
  if (!is("{")) return false;
  if (!table.has(kRegion)) return true;
  const Token second = lexer_.peek_second();
  for (const AttrInfo& attr : table.attrs) {
    if (second.kind == TokenKind::kName && second.text == attr.name) return true;
  }
  return false;
}

// {name = value, …}
void Parser::parse_attrs(Op& op, const Token& op_token) {
  const auto& table = info(op.code).attrs;
  std::vector<std::optional<Attr>> given(table.size());
  std::optional<Number> number;
  if (attrs_follow(info(op.code))) {
    expect("{");
    while (!is("}")) {
      const Token name = expect(TokenKind::kName, "an attribute");
      size_t index = 0;
      while (index < table.size() && table[index].name != name.text) ++index;
      if (index == table.size()) fail(name, info(op.code).name + " has no attribute " + describe(name));
      if (given[index]) fail(name, "the attribute " + describe(name) + " is given twice");
      expect("=");
      given[index] = parse_attr_value(table[index], number);
      if (!accept(",")) break;
    }
    expect("}");
  }
  for (size_t i = 0; i < table.size(); ++i) {
    if (!given[i]) given[i] = default_attr(table[i]);
    if (!given[i]) fail(op_token, info(op.code).name + " lacks the attribute `" + table[i].name + "`");
    op.attrs.push_back(std::move(*given[i]));
  }
  if (op.code != OpCode::kConstant || !number) return;
  const ElementType element = std::get<ElementType>(op.attrs[1]);
  auto bits = parse_literal(element, number->digits, number->negative);
  if (!bits) {
    fail(number->at,
         (number->negative ? "-" : "") + number->digits + " is not a value of " + std::string(info(element).name));
  }
  op.attrs[0] = Literal{*bits};
}

Attr Parser::parse_attr_value(const AttrInfo& expected, std::optional<Number>& number) {
  switch (expected.kind) {
    case AttrKind::kInt:
      return parse_int();
    case AttrKind::kFlag:
      return parse_flag(expected);
    case AttrKind::kExpr:
      return parse_expr();
    case AttrKind::kShape:
      return parse_list();
    case AttrKind::kElement:
      return parse_element();
    case AttrKind::kString:
      return parse_string();
    case AttrKind::kLiteral:
      number = parse_number();
      if (number) return Literal{};
      return parse_expr();
    case AttrKind::kEnum:
      break;
  }
  const Token word = lexer_.next();
  std::string known;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    if (word.kind == TokenKind::kName && word.text == expected.values[i]) return static_cast<int64_t>(i);
    known += (i ? ", " : "") + expected.values[i];
  }
  fail(word, "`" + expected.name + "` is one of " + known + ", not " + describe(word));
}

// A lone number, `inf` or `nan`. Anything else, like `BLOCK*2` or `2*BLOCK`, is left for parse_expr.
std::optional<Parser::Number> Parser::parse_number() {
  Lexer start = lexer_;
  Number number{lexer_.peek(), "", accept("-")};
  const Token token = lexer_.peek();
  const bool word = token.kind == TokenKind::kName && (token.text == "inf" || token.text == "nan");
  if (token.kind == TokenKind::kNumber || word) {
    lexer_.next();
    if (is(",") || is("}")) {
      number.digits = std::string(token.text);
      return number;
    }
  }
  lexer_ = start;
  return std::nullopt;
}

ElementType Parser::parse_element() {
  if (lexer_.peek().kind != TokenKind::kName) fail_expected("an element type");
  const Token name = lexer_.next();
  auto element = parse_element_type(name.text);
  if (!element) fail(name, "there is no element type " + describe(name));
  return *element;
}

// f32 | ptr<f32> | tile<[BM, 64], f32> | tile<[BM], ptr<f32>> | descriptor<[BM, 64], f32>
Type Parser::parse_type() {
  Type type;
  type.descriptor = is("descriptor");
  const bool tile = is("tile") || type.descriptor;
  if (tile) {
    lexer_.next();
    expect("<");
    const Token at = lexer_.peek();
    type.shape = parse_list();
    if (type.shape.empty()) fail(at, "a tile has at least one extent; a scalar is written without `tile`");
    expect(",");
  }
  if (!type.descriptor && accept("ptr")) {
    type.pointer = true;
    expect("<");
    type.element = parse_element();
    expect(">");
  } else {
    type.element = parse_element();
  }
  if (tile) expect(">");
  return type;
}

std::vector<Expr> Parser::parse_list() {
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

Expr Parser::bounded(Expr expr, const Token& at) const {
  if (expr.terms().size() > kMaxTerms) fail(at, "the expression has too many terms");
  if (tree_size(expr, kMaxExprSize) == kMaxExprSize) fail(at, "the expression is too large");
  for (const Term& term : expr.terms()) {
    if (term.atoms.size() > kMaxAtoms) fail(at, "the expression has too many factors");
  }
  return expr;
}

Expr Parser::parse_expr() {
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

Expr Parser::parse_product(bool negative) {
  const Token at = lexer_.peek();
  Expr product = parse_factor(negative);
  while (accept("*")) {
    const Expr factor = parse_factor(accept("-"));
    if (product.terms().size() * factor.terms().size() > kMaxTerms) fail(at, "the expression has too many terms");
    product = bounded(product * factor, at);
  }
  return product;
}

Expr Parser::parse_factor(bool negative) {
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

// A constexpr, a parameter, or div(a, b) and its like.
Expr Parser::parse_name(const Token& name) {
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
  if (auto index = kernel_.find_constexpr(name.text)) return Expr::constexpr_ref(*index);
  if (auto index = kernel_.find_param(name.text)) return Expr::param_ref(*index);
  fail(name, "there is no constexpr or parameter " + describe(name));
}

int64_t Parser::parse_int() {
  const bool negative = accept("-");
  if (lexer_.peek().kind != TokenKind::kNumber) fail_expected("an integer");
  return parse_factor(negative).as_constant().value_or(0);
}

// 0 or 1, or in words.
int64_t Parser::parse_flag(const AttrInfo& expected) {
  const Token token = lexer_.next();
  const bool word = token.kind == TokenKind::kName || token.kind == TokenKind::kNumber;
  if (word && (token.text == "1" || token.text == "true")) return 1;
  if (word && (token.text == "0" || token.text == "false")) return 0;
  fail(token, "`" + expected.name + "` is 0 or 1, not " + describe(token));
}

std::string Parser::parse_string() {
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

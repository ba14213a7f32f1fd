// Text to IR: attributes and types.
#include "ir/kernel_limits.h"
#include "kiln/dsl/text_format.h"
#include "text/parser.h"

namespace kiln::dsl {

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
      return parse_flag(expected.name);
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

}  // namespace kiln::dsl

// Text to graph: nodes and their attributes.
#include <algorithm>
#include <bit>

#include "ir/limits.h"
#include "kiln/dsl/text_format.h"
#include "text/graph_parser.h"

namespace kiln::graph {

using dsl::describe;

// %a, %b = op %x, _, %y {axis = 0} : f32[n], i64[n]
void GraphParser::parse_node() {
  std::vector<Name> names;
  do {
    names.push_back(parse_value("a result like `%y`"));
  } while (accept(","));
  expect("=");
  const Token at = expect(TokenKind::kName, "the name of an op");
  const auto code = parse_op(at.text);
  if (!code) fail(at, "there is no op " + describe(at));
  if (++node_count_ > kMaxNodes) fail(at, "the graph has too many nodes");
  const OpInfo& op = info(*code);
  const std::vector<ValueId> operands = parse_operands(*code);
  AttrList attrs = parse_attrs(*code, at);
  const auto results = check(builder_.add(*code, operands, std::move(attrs), location(names[0].at)), at);
  if (results.count != names.size()) {
    fail(names[0].at, op.name + " gives " + std::to_string(results.count) +
                          (results.count == 1 ? " result" : " results") + ", not " + std::to_string(names.size()));
  }
  check_written_types(op, results);
  define_results(names, results);
}

std::vector<ValueId> GraphParser::parse_operands(TensorOp op) {
  std::vector<ValueId> out;
  const auto follows = [&] { return lexer_.peek().kind == TokenKind::kValue || is("%") || is("_"); };
  if (!follows()) return out;
  do {
    if (out.size() == kMaxOperands) fail(lexer_.peek(), info(op).name + " has too many operands");
    if (accept("_")) {
      out.push_back(kNoValue);
      continue;
    }
    const Name name = parse_value("an operand like `%x`, or `_` for one that is left out");
    out.push_back(use(name));
  } while (accept(","));
  return out;
}

// `: type, …` may be left out; where it stands it must say what the op gives.
void GraphParser::check_written_types(const OpInfo& op, GraphBuilder::Results results) {
  if (!accept(":")) return;
  for (uint32_t i = 0; i < results.count; ++i) {
    if (i > 0) expect(",");
    const Token at = lexer_.peek();
    const TensorType written = parse_type();
    const TensorType& given = builder_.type(results.first + i);
    if (written == given) continue;
    const dsl::ExprNames names = builder_.graph().expr_names();
    fail(at, op.name + " gives " + to_string(given, names) + ", not " + to_string(written, names));
  }
}

// Equal nodes are one: its values then keep the names that they got first.
void GraphParser::define_results(const std::vector<Name>& names, GraphBuilder::Results results) {
  for (uint32_t i = 0; i < results.count; ++i) {
    const ValueId id = results.first + i;
    define_value(names[i], id);
    if (!is_number(names[i]) && !builder_.body().names.contains(id)) builder_.set_name(id, names[i].text);
  }
}

// --- attributes ---

// {name = value, …}
AttrList GraphParser::parse_attrs(TensorOp code, const Token& at) {
  const OpInfo& op = info(code);
  std::vector<std::optional<Attr>> given(op.attrs.size());
  Numbers numbers;
  if (accept("{")) {
    while (!is("}")) {
      const Token name = expect(TokenKind::kName, "an attribute");
      const size_t index = attr_index(code, name.text);
      if (index == op.attrs.size()) fail(name, op.name + " has no attribute " + describe(name));
      if (given[index]) fail(name, "the attribute " + describe(name) + " is given twice");
      expect("=");
      given[index] = parse_attr(op.attrs[index], numbers);
      if (!accept(",")) break;
    }
    expect("}");
  }
  AttrList out;
  for (size_t i = 0; i < op.attrs.size(); ++i) {
    if (!given[i]) given[i] = default_attr(op.attrs[i]);
    if (!given[i]) fail(at, op.name + " lacks the attribute `" + op.attrs[i].name + "`");
    out.push_back(std::move(*given[i]));
  }
  std::vector<uint64_t> bits;
  const auto element = std::ranges::find(op.attrs, AttrKind::kElement, &AttrInfo::kind) - op.attrs.begin();
  bits.reserve(numbers.size());
  for (const Number& number : numbers) {
    bits.push_back(bits_of(number, std::get<ElementType>(out[static_cast<size_t>(element)])));
  }
  fill_literals(op, out, std::move(bits));
  return out;
}

// Puts what was written into the op's literal or data; no op has both.
void GraphParser::fill_literals(const OpInfo& op, AttrList& attrs, std::vector<uint64_t> bits) {
  for (size_t i = 0; i < attrs.size(); ++i) {
    if (op.attrs[i].kind == AttrKind::kLiteral) attrs[i] = Literal{bits[0]};
    if (op.attrs[i].kind == AttrKind::kData) attrs[i] = std::move(bits);
  }
}

uint64_t GraphParser::bits_of(const Number& number, ElementType element) const {
  const auto bits = dsl::parse_literal(element, number.digits, number.negative);
  if (bits) return *bits;
  fail(number.at, (number.negative ? "-" : "") + std::string(number.digits.substr(0, 40)) + " is not a value of " +
                      std::string(dsl::info(element).name));
}

// Literals go to `numbers`, and leave an empty attribute until their type is known.
Attr GraphParser::parse_attr(const AttrInfo& expected, Numbers& numbers) {
  switch (expected.kind) {
    case AttrKind::kInt:
      return parse_int();
    case AttrKind::kFlag:
      return parse_flag(expected.name);
    case AttrKind::kFloat:
      return std::bit_cast<double>(bits_of(parse_number(), ElementType::kF64));
    case AttrKind::kExpr:
      return parse_expr();
    case AttrKind::kShape:
      return parse_list();
    case AttrKind::kInts:
      return parse_ints();
    case AttrKind::kElement:
      return parse_element();
    case AttrKind::kString:
      return parse_string();
    case AttrKind::kLiteral:
      numbers.push_back(parse_number());
      return Literal{};
    case AttrKind::kData:
      numbers = parse_numbers();
      return std::vector<uint64_t>();
    case AttrKind::kBody: {
      const Name name = parse_global("the name of a body like `@step`");
      return int64_t{find(bodies_, name, "the body " + describe_global(name))};
    }
    case AttrKind::kKernel: {
      const Name name = parse_global("the name of a kernel like `@scale`");
      return int64_t{find(kernels_, name, "the kernel " + describe_global(name))};
    }
    case AttrKind::kEnum:
      break;
  }
  return parse_enum(expected);
}

Attr GraphParser::parse_enum(const AttrInfo& expected) {
  const Token word = lexer_.next();
  std::string known;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    if (word.kind == TokenKind::kName && word.text == expected.values[i]) return static_cast<int64_t>(i);
    known += (i > 0 ? ", " : "") + expected.values[i];
  }
  fail(word, "`" + expected.name + "` is one of " + known + ", not " + describe(word));
}

GraphParser::Number GraphParser::parse_number() {
  const Token at = lexer_.peek();
  const bool negative = accept("-");
  if (lexer_.peek().kind != TokenKind::kNumber && !is("inf") && !is("nan")) fail_expected("a number");
  return {at, lexer_.next().text, negative};
}

GraphParser::Numbers GraphParser::parse_numbers() {
  Numbers out;
  expect("[");
  while (!is("]")) {
    out.push_back(parse_number());
    if (!accept(",")) break;
  }
  expect("]");
  return out;
}

std::vector<int64_t> GraphParser::parse_ints() {
  std::vector<int64_t> out;
  expect("[");
  while (!is("]")) {
    if (out.size() == kMaxListed) fail(lexer_.peek(), "too many entries");
    out.push_back(parse_int());
    if (!accept(",")) break;
  }
  expect("]");
  return out;
}

}  // namespace kiln::graph

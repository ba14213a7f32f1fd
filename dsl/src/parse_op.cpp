// Text to IR: ops, regions, and the scopes of value names.
#include "kernel_limits.h"
#include "parser.h"
#include "text_format.h"

namespace kiln::dsl {
namespace {

std::string count_of(size_t count, const char* what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

}  // namespace

ValueId Parser::use(const Token& token) {
  auto found = names_.find(std::string(token.text));
  if (found == names_.end()) fail(token, describe(token) + " is not defined");
  if (!found->second.visible) {
    fail(token, describe(token) + " is not visible here: it belongs to a region that does not enclose this op");
  }
  return found->second.id;
}

ValueId Parser::define(const Token& token, const Type& type) {
  std::string name(token.text);
  const auto id = static_cast<ValueId>(kernel_.values.size());
  auto [place, fresh] = names_.try_emplace(name, Name{id, true, token.line});
  if (!fresh) fail(token, describe(token) + " is already defined in line " + std::to_string(place->second.line));
  // Numbered values have no name of their own.
  kernel_.values.push_back({type, is_name(name) ? name : ""});
  scope_.push_back(std::move(name));
  return id;
}

void Parser::parse_ops(Region& region) {
  while (lexer_.peek().kind == TokenKind::kValue || lexer_.peek().kind == TokenKind::kName) {
    if (++op_count_ > kMaxOps) fail(lexer_.peek(), "the kernel has too many ops");
    region.ops.push_back(parse_op());
  }
  if (!is("}")) fail_expected("an op or `}`");
}

Op Parser::parse_op() {
  std::vector<Token> results;
  if (lexer_.peek().kind == TokenKind::kValue) {
    do {
      results.push_back(expect(TokenKind::kValue, "a result like `%x`"));
    } while (accept(","));
    expect("=");
  }
  const Token op_token = expect(TokenKind::kName, "the name of an op");
  auto code = dsl::parse_op(op_token.text);
  if (!code) fail(op_token, "there is no op " + describe(op_token));

  const Token& start = results.empty() ? op_token : results[0];
  Op op{*code, {}, {}, {}, {}, {1, start.line, start.column}};
  std::vector<Token> args;
  if (op.code == OpCode::kFor)
    parse_loop_head(op, args);
  else
    parse_operands(op);
  parse_attrs(op, op_token);

  if (auto fits = check_arity(op.code, op.operands.size(), op.attrs); !fits) fail(op_token, fits.error().message);
  std::vector<Type> operands;
  for (ValueId id : op.operands) operands.push_back(kernel_.type(id));
  auto types = infer_types(op.code, operands, op.attrs, kernel_.expr_names());
  if (!types) fail(op_token, types.error().message);
  if (types->size() != results.size()) {
    fail(start, info(op.code).name + " gives " + count_of(types->size(), "result") + ", not " +
                    std::to_string(results.size()));
  }
  parse_result_types(op, results.size(), *types);

  // Names become visible behind the op; in a loop's own region its results are not.
  for (size_t i = 0; i < results.size(); ++i) op.results.push_back(define(results[i], (*types)[i]));
  if (op.code == OpCode::kFor) {
    for (const Token& result : results) names_[std::string(result.text)].visible = false;
    parse_loop_region(op, args);
    for (const Token& result : results) names_[std::string(result.text)].visible = true;
  }
  return op;
}

void Parser::parse_operands(Op& op) {
  const auto& expected = info(op.code).operands;
  if (expected.empty() || lexer_.peek().kind != TokenKind::kValue) return;
  do {
    op.operands.push_back(use(expect(TokenKind::kValue, "an operand like `%x`")));
  } while (accept(","));
}

// for %k = %lo to %hi step %st carry (%acc = %init, …)
void Parser::parse_loop_head(Op& op, std::vector<Token>& args) {
  args.push_back(expect(TokenKind::kValue, "the loop's index like `%k`"));
  expect("=");
  op.operands.push_back(use(expect(TokenKind::kValue, "the start, a value like `%lo`")));
  expect("to");
  op.operands.push_back(use(expect(TokenKind::kValue, "the end, a value like `%hi`")));
  expect("step");
  op.operands.push_back(use(expect(TokenKind::kValue, "the step, a value like `%st`")));
  if (!accept("carry")) return;
  expect("(");
  while (!is(")")) {
    args.push_back(expect(TokenKind::kValue, "a carried value like `%acc = %init`"));
    expect("=");
    op.operands.push_back(use(expect(TokenKind::kValue, "the carried value's start like `%init`")));
    if (!accept(",")) break;
  }
  expect(")");
}

void Parser::parse_loop_region(Op& op, const std::vector<Token>& args) {
  const Token open = expect("{");
  if (++region_depth_ > kMaxRegionDepth) fail(open, "regions are nested too deeply");
  const size_t outer = scope_.size();
  Region region;
  for (size_t i = 0; i < args.size(); ++i) {
    // The index has the type of the start, a carried value that of its first value. (A copy: define() grows the list.)
    const Type type = kernel_.type(op.operands[i == 0 ? 0 : i + 2]);
    region.args.push_back(define(args[i], type));
  }
  parse_ops(region);
  expect("}");
  for (; scope_.size() > outer; scope_.pop_back()) names_[scope_.back()].visible = false;
  --region_depth_;
  op.regions.push_back(std::move(region));
}

// `: type, …` may be left out; where it stands it must say what the op gives.
void Parser::parse_result_types(const Op& op, size_t result_count, const std::vector<Type>& types) {
  if (!is(":")) return;
  const Token colon = lexer_.next();
  if (result_count == 0) fail(colon, info(op.code).name + " gives no result");
  for (size_t i = 0; i < result_count; ++i) {
    if (i > 0) expect(",");
    const Token at = lexer_.peek();
    const Type written = parse_type();
    if (written == types[i]) continue;
    const ExprNames names = kernel_.expr_names();
    fail(at, info(op.code).name + " gives " + to_string(types[i], names) + ", not " + to_string(written, names));
  }
}

}  // namespace kiln::dsl

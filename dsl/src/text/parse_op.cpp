// Text to IR: ops, regions, and the scopes of value names.
#include "ir/kernel_limits.h"
#include "kiln/dsl/text_format.h"
#include "text/parser.h"

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
  else if (op.code == OpCode::kWhile)
    parse_carry(op, args);
  else
    parse_operands(op);
  parse_attrs(op, op_token);
  if (auto fits = check_arity(op.code, op.operands.size(), op.attrs); !fits) fail(op_token, fits.error().message);

  // What is wrong with the operands is said before what is wrong inside. The results of `if` are what it yields.
  const std::vector<Type> operands = operand_types(op);
  const ExprNames names = kernel_.expr_names();
  auto types = infer_types(op.code, operands, op.attrs, names);
  if (!types) fail(op_token, types.error().message);
  auto check_count = [&] {
    if (types->size() == results.size()) return;
    fail(start, info(op.code).name + " gives " + count_of(types->size(), "result") + ", not " +
                    std::to_string(results.size()));
  };
  if (op.code != OpCode::kIf) check_count();
  const std::vector<WrittenType> written = parse_written_types(op, results.size());
  parse_regions(op, op_token, args);
  if (op.code == OpCode::kIf) {
    std::vector<Type> yields;
    for (ValueId id : op.regions[0].ops.back().operands) yields.push_back(kernel_.type(id));
    types = infer_types(op.code, operands, op.attrs, names, yields);
    check_count();
  }
  check_written_types(op, written, *types);
  // Names become visible behind the op: in its own regions its results are not.
  for (size_t i = 0; i < results.size(); ++i) op.results.push_back(define(results[i], (*types)[i]));
  return op;
}

std::vector<Type> Parser::operand_types(const Op& op) const {
  std::vector<Type> out;
  for (ValueId id : op.operands) out.push_back(kernel_.type(id));
  return out;
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
  parse_carry(op, args);
}

// carry (%acc = %init, …), or nothing
void Parser::parse_carry(Op& op, std::vector<Token>& args) {
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

void Parser::parse_regions(Op& op, const Token& op_token, const std::vector<Token>& head_args) {
  const std::vector<RegionTypes> expected = region_types(op.code, operand_types(op), op.attrs);
  for (size_t i = 0; i < expected.size(); ++i) {
    const bool first = i == 0;
    if (op.code == OpCode::kIf && !first && !accept("else")) {
      // Without a second branch there is nothing to choose between.
      op.regions.push_back({{}, {{OpCode::kYield, {}, {}, {}, {}, op.loc}}});
      continue;
    }
    if (op.code == OpCode::kWhile && !first) expect("do");
    const bool named = op.code == OpCode::kIf || (first && !head_args.empty());
    parse_region(op, named ? head_args : parse_region_args(op, expected[i]), expected[i].args);
  }
  if (op.code != OpCode::kIf) return;
  for (const Region& region : op.regions) {
    if (region.ops.empty() || region.ops.back().code != OpCode::kYield) {
      fail(op_token, "if: each branch must end with yield");
    }
  }
}

// (%l, %r), or nothing where the region takes none
std::vector<Token> Parser::parse_region_args(const Op& op, const RegionTypes& expected) {
  std::vector<Token> args;
  const Token open = lexer_.peek();
  if (!expected.args.empty() || is("(")) {
    expect("(");
    while (!is(")")) {
      args.push_back(expect(TokenKind::kValue, "an argument of the region like `%l`"));
      if (!accept(",")) break;
    }
    expect(")");
  }
  if (args.size() != expected.args.size()) {
    fail(open, info(op.code).name + ": this region takes " + count_of(expected.args.size(), "argument") + " (" +
                   expected.arg_doc + "), not " + std::to_string(args.size()));
  }
  return args;
}

void Parser::parse_region(Op& op, const std::vector<Token>& args, const std::vector<Type>& types) {
  const Token open = expect("{");
  if (++region_depth_ > kMaxRegionDepth) fail(open, "regions are nested too deeply");
  const size_t outer = scope_.size();
  Region region;
  for (size_t i = 0; i < args.size(); ++i) region.args.push_back(define(args[i], types[i]));
  parse_ops(region);
  expect("}");
  for (; scope_.size() > outer; scope_.pop_back()) names_[scope_.back()].visible = false;
  --region_depth_;
  op.regions.push_back(std::move(region));
}

// `: type, …` may be left out; where it stands it must say what the op gives.
std::vector<Parser::WrittenType> Parser::parse_written_types(const Op& op, size_t result_count) {
  if (!is(":")) return {};
  const Token colon = lexer_.next();
  if (result_count == 0) fail(colon, info(op.code).name + " gives no result");
  std::vector<WrittenType> out;
  for (size_t i = 0; i < result_count; ++i) {
    if (i > 0) expect(",");
    const Token at = lexer_.peek();
    out.push_back({at, parse_type()});
  }
  return out;
}

void Parser::check_written_types(const Op& op, const std::vector<WrittenType>& written,
                                 const std::vector<Type>& types) {
  for (size_t i = 0; i < written.size(); ++i) {
    if (written[i].type == types[i]) continue;
    const ExprNames names = kernel_.expr_names();
    fail(written[i].at,
         info(op.code).name + " gives " + to_string(types[i], names) + ", not " + to_string(written[i].type, names));
  }
}

}  // namespace kiln::dsl

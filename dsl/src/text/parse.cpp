// Text to IR: the kernel's header, and what all rules share.
#include "ir/kernel_limits.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/text_format.h"
#include "kiln/target/schedule_options.h"
#include "text/parser.h"
#include "verify/verify_rules.h"

namespace kiln::dsl {
namespace {

constexpr size_t kMaxText = 16u << 20;

}  // namespace

Parser::Parser(std::string_view text, std::string_view file_name) : Parser(Lexer(text, file_name), file_name) {}

Parser::Parser(Lexer lexer, std::string_view file_name) : TextReader(std::move(lexer)) {
  kernel_.files.emplace_back(file_name);
}

Kernel Parser::run() {
  Kernel out = kernel();
  if (lexer_.peek().kind != TokenKind::kEnd) fail_expected("the end of the file after the kernel");
  return out;
}

Kernel Parser::kernel() {
  expect("kernel");
  kernel_.name = std::string(expect(TokenKind::kName, "the kernel's name").text);
  expect("(");
  while (!is(")")) {
    parse_param();
    if (!accept(",")) break;
  }
  expect(")");
  expect("{");
  while (parse_header_item()) {
  }
  parse_ops(kernel_.body);
  expect("}");
  return std::move(kernel_);
}

Expr Parser::atom(const Token& name) {
  if (auto index = kernel_.find_constexpr(name.text)) return Expr::constexpr_ref(*index);
  if (auto index = kernel_.find_param(name.text)) return Expr::param_ref(*index);
  fail(name, "there is no constexpr or parameter " + describe(name));
}

void Parser::parse_param() {
  const Token name = expect(TokenKind::kValue, "a parameter like `%x: f32`");
  if (!is_name(name.text)) {
    fail(name, is_name(name.text.substr(0, 1)) ? "a parameter's name has up to 256 characters"
                                               : "a parameter's name must begin with a letter");
  }
  if (kernel_.params.size() == kMaxListed) fail(name, "too many parameters");
  expect(":");
  Param param{std::string(name.text), parse_type(), accept("readonly"), kNoValue, accept("may_alias")};
  param.value = define(name, param.type);
  kernel_.params.push_back(std::move(param));
}

bool Parser::parse_header_item() {
  if (is("constexpr"))
    parse_constexpr();
  else if (is("defaults"))
    parse_target_defaults();
  else if (is("space"))
    parse_space();
  else if (is("where"))
    parse_constraint();
  else if (is("array"))
    parse_array();
  else if (is("grid"))
    parse_grid();
  else if (is("option"))
    parse_option();
  else
    return false;
  return true;
}

void Parser::parse_constexpr() {
  lexer_.next();
  const Token name = expect(TokenKind::kName, "the constexpr's name");
  if (kernel_.find_constexpr(name.text) || kernel_.find_param(name.text)) {
    fail(name, "the name " + describe(name) + " is taken");
  }
  if (kernel_.constexprs.size() == kMaxListed) fail(name, "too many constexprs");
  Constexpr item{std::string(name.text), std::nullopt};
  if (accept("=")) item.default_value = parse_int();
  kernel_.constexprs.push_back(std::move(item));
}

void Parser::parse_target_defaults() {
  lexer_.next();
  const Token at = lexer_.peek();
  if (at.kind != TokenKind::kString) fail_expected("a target in quotes, like \"cuda\"");
  if (kernel_.target_defaults.size() == kMaxListed) fail(at, "too many targets with defaults");
  auto [entry, is_new] = kernel_.target_defaults.try_emplace(parse_string());
  if (!is_new) fail(at, "the target " + describe(at) + " has defaults already");
  expect("{");
  while (!is("}")) {
    const Token name = expect(TokenKind::kName, "the name of a constexpr or a schedule option");
    if (entry->second.size() == kMaxListed) fail(name, "too many values");
    expect("=");
    if (!entry->second.emplace(name.text, parse_config_value(name)).second)
      fail(name, describe(name) + " has a value already");
    if (!accept(",")) break;
  }
  expect("}");
}

void Parser::parse_space() {
  lexer_.next();
  std::string target;
  if (lexer_.peek().kind == TokenKind::kString) target = parse_string();
  const Token name = expect(TokenKind::kName, "the name of a constexpr or a schedule option");
  if (kernel_.space.size() == kMaxListed) fail(name, "too many space axes");
  SpaceAxis axis{std::string(name.text), {}, std::move(target)};
  expect("=");
  expect("[");
  while (!is("]")) {
    if (axis.values.size() == kMaxListed) fail(lexer_.peek(), "too many values");
    axis.values.push_back(parse_config_value(name));
    if (!accept(",")) break;
  }
  expect("]");
  kernel_.space.push_back(std::move(axis));
}

// A number, or the name that a value of this schedule option has.
int64_t Parser::parse_config_value(const Token& name) {
  if (lexer_.peek().kind != TokenKind::kName) return parse_int();
  const Token text = lexer_.next();
  if (const auto value = target::parse_option_name(name.text, text.text)) return *value;
  const target::ScheduleOption* option = target::find_schedule_option(name.text);
  fail(text, describe(name) + " cannot be " + describe(text) + "; it must be " +
                 (option != nullptr ? option->allowed() : "an integer"));
}

void Parser::parse_constraint() {
  const Token at = lexer_.next();
  if (kernel_.constraints.size() == kMaxListed) fail(at, "too many constraints");
  Condition condition{parse_expr(), {}};
  if (accept(",")) condition.message = parse_string();
  kernel_.constraints.push_back(std::move(condition));
}

void Parser::parse_array() {
  lexer_.next();
  const Token name = expect(TokenKind::kName, "the name of a pointer parameter");
  if (kernel_.arrays.size() == kMaxListed) fail(name, "too many arrays");
  expect("=");
  ArrayInfo array{std::string(name.text), parse_expr(), std::nullopt};
  if (accept("in")) {
    expect("[");
    Expr low = parse_expr();
    expect(",");
    array.range.emplace(std::move(low), parse_expr());
    expect("]");
  }
  kernel_.arrays.push_back(std::move(array));
}

void Parser::parse_grid() {
  const Token at = lexer_.next();
  std::vector<Expr> extents = parse_list();
  if (extents.empty() || extents.size() > 3) fail(at, "a grid has 1 to 3 extents");
  for (size_t i = 0; i < extents.size(); ++i) kernel_.grid[i] = std::move(extents[i]);
}

void Parser::parse_option() {
  lexer_.next();
  const Token name = expect(TokenKind::kName, "the option's name");
  std::string known;
  const KernelOption* found = nullptr;
  for (const KernelOption& option : kernel_options()) {
    if (option.name == name.text) found = &option;
    known += (known.empty() ? "" : ", ") + std::string(option.name);
  }
  if (!found) fail(name, "there is no option " + describe(name) + "; there are " + known);
  expect("=");
  if (!found->set(kernel_.options, lexer_.peek().text)) {
    fail_expected(found->word.empty() ? "`true` or `false`" : "`true`, `false` or `" + std::string(found->word) + "`");
  }
  lexer_.next();
}

Expr Parser::parse_expr_of(const Kernel& kernel, std::string_view text) {
  Parser parser(text, "");
  parser.kernel_.params = kernel.params;
  parser.kernel_.constexprs = kernel.constexprs;
  Expr expr = parser.parse_expr();
  if (parser.lexer_.peek().kind != TokenKind::kEnd) parser.fail_expected("the end of the expression");
  return expr;
}

Result<Expr> parse_expr(const Kernel& kernel, std::string_view text) {
  if (text.size() > kMaxText) return invalid_argument("the expression is too long");
  try {
    Expr expr = Parser::parse_expr_of(kernel, text);
    const std::string problem = expr_problem(kernel, expr, true);
    if (!problem.empty()) return invalid_argument("the expression `" + std::string(text) + "` " + problem);
    return expr;
  } catch (const SyntaxError& failed) {
    return invalid_argument("the expression `" + std::string(text) + "`: " + failed.error.message);
  }
}

Kernel read_kernel(Lexer& lexer, std::string_view file_name) {
  Parser parser(lexer, file_name);
  Kernel kernel = parser.kernel();
  lexer = parser.lexer();
  return kernel;
}

Result<Kernel> parse(std::string_view text, std::string_view file_name) {
  if (text.size() > kMaxText) {
    return invalid_argument(std::string(file_name) + ": the text is larger than " + std::to_string(kMaxText >> 20) +
                            " MiB");
  }
  try {
    return Parser(text, file_name).run();
  } catch (const SyntaxError& failed) {
    return failed.error;
  }
}

}  // namespace kiln::dsl

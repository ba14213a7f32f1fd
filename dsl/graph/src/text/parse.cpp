// Text to graph: what a file holds, and what all rules share.
#include <charconv>

#include "ir/limits.h"
#include "kiln/dsl/verify.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"
#include "text/graph_parser.h"

namespace kiln::graph {

using dsl::describe;

GraphParser::GraphParser(std::string_view text, std::string_view file_name)
    : TextReader(text, file_name), builder_(""), file_(builder_.add_file(file_name)), file_name_(file_name) {}

Graph GraphParser::run() {
  std::string name;
  for (;;) {
    if (is("dim")) {
      parse_dim();
    } else if (is("kernel")) {
      parse_kernel();
    } else if (is("body")) {
      parse_body();
    } else if (is("graph")) {
      lexer_.next();
      name = parse_name("the graph's name").text;
      break;
    } else {
      fail_expected("`dim`, `kernel`, `body` or `graph`");
    }
  }
  parse_graph();
  if (lexer_.peek().kind != TokenKind::kEnd) fail_expected("the end of the file after the graph");
  set_gradients();
  Graph graph = builder_.take();
  graph.bodies[0].name = std::move(name);
  return graph;
}

// --- names ---

GraphParser::Name GraphParser::parse_name(const char* what) {
  const Token at = lexer_.peek();
  if (at.kind == TokenKind::kString) return {at, parse_string()};
  return {at, std::string(expect(TokenKind::kName, what).text)};
}

// %x, %0, or %"any text"
GraphParser::Name GraphParser::parse_value(const char* what) {
  const Token at = lexer_.peek();
  if (at.kind == TokenKind::kValue) return {at, std::string(lexer_.next().text)};
  if (!is("%")) fail_expected(what);
  lexer_.next();
  return {at, parse_string()};
}

GraphParser::Name GraphParser::parse_global(const char* what) {
  if (!is("@")) fail_expected(what);
  lexer_.next();
  return parse_name(what);
}

std::string GraphParser::describe_global(const Name& name) { return describe(name.at).insert(1, "@"); }

uint32_t GraphParser::find(const Names& names, const Name& name, const std::string& shown, const char* problem) const {
  const auto found = names.find(name.text);
  if (found == names.end()) fail(name.at, shown + problem);
  return found->second.id;
}

void GraphParser::define(Names& names, const Name& name, const std::string& shown, uint32_t id) {
  if (name.text.size() > kMaxName) fail(name.at, "a name has up to " + std::to_string(kMaxName) + " characters");
  const auto [place, fresh] = names.try_emplace(name.text, Definition{id, name.at.line});
  if (!fresh) fail(name.at, shown + " is already defined in line " + std::to_string(place->second.line));
}

ValueId GraphParser::use(const Name& value) const {
  return find(is_number(value) ? numbered_ : values_, value, describe(value.at));
}

void GraphParser::define_value(const Name& value, ValueId id) {
  define(is_number(value) ? numbered_ : values_, value, describe(value.at), id);
}

// --- dims and types ---

dsl::Expr GraphParser::atom(const Token& name) {
  const auto found = dims_.find(std::string(name.text));
  if (found == dims_.end()) fail(name, "there is no dim " + describe(name));
  return Expr::constexpr_ref(found->second.id);
}

// dim n: 1..4096 multiple 8
void GraphParser::parse_dim() {
  lexer_.next();
  const Token at = expect(TokenKind::kName, "the dim's name");
  const Name name{at, std::string(at.text)};
  if (dims_.size() == kMaxDims) fail(at, "too many dims");
  DimInfo dim;
  dim.name = name.text;
  if (accept(":")) parse_bounds(dim);
  if (accept("multiple")) dim.multiple = parse_int();
  define(dims_, name, describe(at), static_cast<uint32_t>(dims_.size()));
  check(builder_.add_dim(dim), at);
}

void GraphParser::parse_bounds(DimInfo& dim) {
  const Token at = lexer_.peek();
  const size_t dots = at.text.find("..");
  if (at.kind != TokenKind::kNumber || dots == std::string_view::npos) fail_expected("a range like `1..4096` or `0..`");
  lexer_.next();
  const auto number = [&](std::string_view digits) {
    int64_t value = 0;
    const auto [end, status] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (status != std::errc() || end != digits.data() + digits.size()) {
      fail(at, "expected a range like `1..4096` or `0..`, found " + describe(at));
    }
    return value;
  };
  dim.low = number(at.text.substr(0, dots));
  if (dots + 2 < at.text.size()) dim.high = number(at.text.substr(dots + 2));
}

// f32[n, 784]
TensorType GraphParser::parse_type() {
  TensorType type;
  type.element = parse_element();
  const Token at = lexer_.peek();
  type.shape = parse_list();
  if (type.shape.size() > kMaxRank) fail(at, "a tensor has at most " + std::to_string(kMaxRank) + " axes");
  return type;
}

// --- kernels ---

// kernel @k { operands …  results …  arguments …  gradient @g  code …  kernel k(…) {…} }
void GraphParser::parse_kernel() {
  lexer_.next();
  const Name name = parse_global("the kernel's name like `@scale`");
  if (kernels_.size() == kMaxKernels) fail(name.at, "too many kernels");
  TileKernel kernel;
  kernel.name = name.text;
  expect("{");
  parse_kernel_types("operands", kernel.operands);
  parse_kernel_types("results", kernel.results);
  if (accept("arguments")) {
    do {
      if (kernel.arguments.size() == kMaxListed) fail(lexer_.peek(), "too many arguments");
      kernel.arguments.push_back(parse_argument());
    } while (accept(","));
  }
  const auto id = static_cast<uint32_t>(kernels_.size());
  if (accept("gradient")) gradients_.emplace_back(id, parse_global("the gradient's body like `@g`"));
  while (is("code")) {
    if (kernel.codes.size() == kMaxCodes) fail(lexer_.peek(), "too many codes");
    kernel.codes.push_back(parse_code());
  }
  if (!is("kernel")) fail_expected("`operands`, `results`, `arguments`, `gradient`, `code`, or the text of a kernel");
  const Token at = lexer_.peek();
  kernel.kernel = dsl::read_kernel(lexer_, file_name_);
  if (auto sound = dsl::verify(kernel.kernel); !sound) {
    if (sound.error().message.starts_with(file_name_)) throw dsl::SyntaxError{sound.error()};
    fail(at, sound.error().message);  // of the kernel's head, which has no place of its own
  }
  expect("}");
  define(kernels_, name, "the kernel " + describe_global(name), id);
  check(builder_.add_kernel(std::move(kernel)), at);
}

void GraphParser::parse_kernel_types(std::string_view what, std::vector<TensorType>& types) {
  if (!accept(what)) return;
  do {
    if (types.size() == kMaxListed) fail(lexer_.peek(), "too many " + std::string(what));
    types.push_back(parse_type());
  } while (accept(","));
}

// operand 0, result 1, or an expression over dims
TileKernel::Argument GraphParser::parse_argument() {
  using Kind = TileKernel::Argument::Kind;
  const bool numbered = lexer_.peek_second().kind == TokenKind::kNumber;
  if (!numbered || (!is("operand") && !is("result"))) return {Kind::kScalar, 0, parse_expr()};
  const Kind kind = lexer_.next().text == "operand" ? Kind::kOperand : Kind::kResult;
  const Token at = lexer_.peek();
  const int64_t index = parse_int();
  if (index >= static_cast<int64_t>(kMaxListed)) fail(at, "the number is too large");
  return {kind, static_cast<uint32_t>(index), {}};
}

// code "cuda" ptx threads 256 { ".version 8.0\n" … }
TileKernel::Code GraphParser::parse_code() {
  lexer_.next();
  TileKernel::Code out;
  out.target = parse_string();
  const Token at = expect(TokenKind::kName, "the form of the code: `llvm`, `ptx` or `amd`");
  const auto form = dsl::parse_code_form(at.text);
  if (!form) fail(at, "the form of code is `llvm`, `ptx` or `amd`, not " + describe(at));
  out.code.form = *form;
  while (!is("{")) {
    if (accept("entry")) {
      out.code.entry = parse_string();
    } else if (accept("file")) {
      out.code.file = parse_string();
    } else if (accept("threads")) {
      out.code.threads = parse_int();
    } else if (accept("shared")) {
      out.code.shared_bytes = parse_int();
    } else {
      fail_expected("`entry`, `file`, `threads`, `shared`, or the code in `{ }`");
    }
  }
  expect("{");
  while (!is("}")) out.code.text += parse_string();
  expect("}");
  return out;
}

void GraphParser::set_gradients() {
  for (const auto& [kernel, name] : gradients_) {
    builder_.set_kernel_gradient(kernel, find(bodies_, name, "the body " + describe_global(name), " is not defined"));
  }
}

// --- bodies ---

void GraphParser::parse_body() {
  lexer_.next();
  const Name name = parse_global("the body's name like `@step`");
  builder_.open_body(name.text);
  begin_body();
  parse_inputs(false);
  parse_statements();
  define(bodies_, name, "the body " + describe_global(name), builder_.close_body());
}

void GraphParser::parse_graph() {
  begin_body();
  parse_inputs(true);
  parse_statements();
  for (const Donation& donation : donations_) {
    const Token& at = donation.output.at;
    const uint32_t output = find(outputs_, donation.output, "the output " + describe(at), " is not there");
    if (auto donated = builder_.donate(donation.input, output); !donated) fail(at, donated.error().message);
  }
}

void GraphParser::begin_body() {
  // Not clear(): it takes as long as the largest body so far.
  for (Names* names : {&values_, &numbered_, &outputs_}) *names = Names();
}

// (%x: f32[n, 784], %m: f32[256] donated to m2)
void GraphParser::parse_inputs(bool is_main) {
  expect("(");
  while (!is(")")) {
    const Name name = parse_value("an input like `%x: f32[n, 4]`");
    expect(":");
    TensorType type = parse_type();
    const auto index = static_cast<uint32_t>(builder_.body().inputs.size());
    const ValueId id = check(builder_.add_input(name.text, std::move(type), location(name.at)), name.at);
    define_value(name, id);
    if (is("donated")) {
      if (!is_main) fail(lexer_.peek(), "only inputs of the graph are donated, not those of a body");
      lexer_.next();
      expect("to");
      donations_.push_back({index, parse_name("the name of an output")});
    }
    if (!accept(",")) break;
  }
  expect(")");
}

void GraphParser::parse_statements() {
  expect("{");
  while (!is("}")) {
    if (is("output")) {
      parse_output();
    } else if (lexer_.peek().kind == TokenKind::kValue || is("%")) {
      parse_node();
    } else {
      fail_expected("a node like `%y = relu %x`, `output` or `}`");
    }
  }
  const Token end = expect("}");
  if (builder_.body().outputs.empty()) fail(end, "a body needs an output like `output y = %x`");
}

// output y = %h
void GraphParser::parse_output() {
  lexer_.next();
  const Name name = parse_name("the output's name");
  expect("=");
  const Name value = parse_value("a value like `%h`");
  const ValueId id = use(value);
  define(outputs_, name, "the output " + describe(name.at), static_cast<uint32_t>(outputs_.size()));
  if (auto added = builder_.add_output(name.text, id); !added) fail(name.at, added.error().message);
}

Result<Graph> parse(std::string_view text, std::string_view file_name) {
  const std::string file(file_name);
  if (text.size() > kMaxText) {
    return invalid_argument(file + ":1:1: error: the text is larger than " + std::to_string(kMaxText >> 20) + " MiB");
  }
  try {
    Graph graph = GraphParser(text, file_name).run();
    if (auto sound = verify(graph); !sound) {
      Error error = sound.error();
      if (!error.message.starts_with(file)) error.message = file + ":1:1: error: " + error.message;
      return error;
    }
    return graph;
  } catch (const dsl::SyntaxError& failed) {
    return failed.error;
  }
}

}  // namespace kiln::graph

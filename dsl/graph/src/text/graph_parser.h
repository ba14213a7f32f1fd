// The parser of the text form of graphs: recursive descent over docs/reference/graph-text.md, one function a rule.
// Nothing recurses but expressions, whose depth is limited.
#pragma once

#include <string>
#include <unordered_map>
#include <vector>

#include "kiln/dsl/text_format.h"
#include "kiln/dsl/text_reader.h"
#include "kiln/graph/builder.h"

namespace kiln::graph {

class GraphParser : private dsl::TextReader {
 public:
  GraphParser(std::string_view text, std::string_view file_name);
  Graph run();

 private:
  using Token = dsl::Token;
  using TokenKind = dsl::TokenKind;

  // A name as it is written: a word, or a string where it is none.
  struct Name {
    Token at;
    std::string text;
  };
  // A name that has been defined, for the error where it is defined again.
  struct Definition {
    uint32_t id;
    uint32_t line;
  };
  using Names = std::unordered_map<std::string, Definition>;
  struct Donation {
    uint32_t input;
    Name output;
  };

  // parse.cpp: what a file holds
  void parse_dim();
  void parse_bounds(DimInfo& dim);
  void parse_kernel();
  void parse_kernel_types(std::string_view what, std::vector<TensorType>& types);
  TileKernel::Argument parse_argument();
  TileKernel::Code parse_code();
  void parse_body();
  void begin_body();
  void parse_graph();
  void parse_inputs(bool is_main);
  void parse_statements();
  void parse_output();
  void set_gradients();

  // parse_node.cpp
  void parse_node();
  std::vector<ValueId> parse_operands(TensorOp op);
  void check_written_types(const OpInfo& op, GraphBuilder::Results results);
  void define_results(const std::vector<Name>& names, GraphBuilder::Results results);
  // A literal, whose type is known only when all attributes are read.
  struct Number {
    Token at;
    std::string_view digits;
    bool negative = false;
  };
  using Numbers = std::vector<Number>;
  AttrList parse_attrs(TensorOp op, const Token& at);
  Attr parse_attr(const AttrInfo& expected, Numbers& numbers);
  Attr parse_enum(const AttrInfo& expected);
  Number parse_number();
  Numbers parse_numbers();
  std::vector<int64_t> parse_ints();
  uint64_t bits_of(const Number& number, ElementType element) const;
  static void fill_literals(const OpInfo& op, AttrList& attrs, std::vector<uint64_t> bits);

  // both
  dsl::Expr atom(const Token& name) override;
  TensorType parse_type();
  Name parse_name(const char* what);
  Name parse_value(const char* what);
  static bool is_number(const Name& value) {
    return value.at.kind == TokenKind::kValue && dsl::is_digit(value.text[0]);
  }
  ValueId use(const Name& value) const;
  void define_value(const Name& value, ValueId id);
  Name parse_global(const char* what);
  static std::string describe_global(const Name& name);  // "`@step`"
  // The number of what a name stands for; fails where it is not there.
  static constexpr const char* kAbove = " is not defined above";
  uint32_t find(const Names& names, const Name& name, const std::string& shown, const char* problem = kAbove) const;
  void define(Names& names, const Name& name, const std::string& shown, uint32_t id);
  Location location(const Token& at) const { return {file_, at.line, at.column}; }
  // The value, or a failure at the token.
  template <class T>
  T check(Result<T> result, const Token& at) const {
    if (!result) fail(at, result.error().message);
    return std::move(*result);
  }

  GraphBuilder builder_;
  uint32_t file_;
  std::string file_name_;
  Names dims_, bodies_, kernels_;
  // Of the body that is read. `%0` is a number, and another value than `%"0"`.
  Names values_, numbered_, outputs_;
  std::vector<Donation> donations_;
  std::vector<std::pair<uint32_t, Name>> gradients_;  // of kernels: bodies that may come later
  size_t node_count_ = 0;
};

}  // namespace kiln::graph

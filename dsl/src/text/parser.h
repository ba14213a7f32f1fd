// The parser of the text form: recursive descent over docs/reference/kiln-text.md, one function a rule.
#pragma once

#include <unordered_map>
#include <vector>

#include "kiln/dsl/ir.h"
#include "kiln/dsl/text_reader.h"

namespace kiln::dsl {

class Parser : private TextReader {
 public:
  Parser(std::string_view text, std::string_view file_name);
  // Of a text that holds more than the kernel.
  Parser(Lexer lexer, std::string_view file_name);
  // A kernel and nothing behind it.
  Kernel run();
  // A kernel; what is behind it is left.
  Kernel kernel();
  const Lexer& lexer() const { return lexer_; }
  // An expression alone, over the constexprs and parameters of a kernel.
  static Expr parse_expr_of(const Kernel& kernel, std::string_view text);

 private:
  // parse.cpp: the kernel and its header
  void parse_param();
  void parse_constexpr();
  void parse_target_defaults();
  void parse_space();
  void parse_constraint();
  void parse_array();
  void parse_grid();
  void parse_option();
  bool parse_header_item();

  // parse_op.cpp: ops and regions
  struct Name {
    ValueId id = kNoValue;
    bool visible = true;
    uint32_t line = 0;
  };
  void parse_ops(Region& region);
  Op parse_op();
  void parse_loop_head(Op& op, std::vector<Token>& args);
  void parse_carry(Op& op, std::vector<Token>& args);
  void parse_operands(Op& op);
  struct WrittenType {
    Token at;
    Type type;
  };
  std::vector<WrittenType> parse_written_types(const Op& op, size_t result_count);
  void check_written_types(const Op& op, const std::vector<WrittenType>& written, const std::vector<Type>& types);
  // `head_args`: the arguments of the first region, where the op's head names them.
  void parse_regions(Op& op, const Token& op_token, const std::vector<Token>& head_args);
  void parse_region(Op& op, const std::vector<Token>& args, const std::vector<Type>& types);
  std::vector<Token> parse_region_args(const Op& op, const RegionTypes& expected);
  std::vector<Type> operand_types(const Op& op) const;
  ValueId use(const Token& token);
  ValueId define(const Token& token, const Type& type);

  // parse_attr.cpp: attributes and types
  struct Number {  // a literal whose type is known only when all attributes are read
    Token at;
    std::string digits;
    bool negative = false;
  };
  void parse_attrs(Op& op, const Token& op_token);
  Attr parse_attr_value(const AttrInfo& expected, std::optional<Number>& number);
  std::optional<Number> parse_number();
  bool attrs_follow(const OpInfo& table) const;
  Type parse_type();
  int64_t parse_config_value(const Token& name);

  Expr atom(const Token& name) override;

  Kernel kernel_;
  std::unordered_map<std::string, Name> names_;
  std::vector<std::string> scope_;  // visible names defined in regions, innermost last
  int region_depth_ = 0;
  size_t op_count_ = 0;
};

}  // namespace kiln::dsl

// What the readers of `.kiln` and `.kg` text have in common: tokens that must stand next, numbers, strings, element
// types, and integer expressions over names that each reader looks up itself.
//
// Errors are thrown as SyntaxError inside of a reader; its parse() catches it, so that none leaves a room.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "kiln/dsl/expr.h"
#include "kiln/dsl/ir.h"
#include "kiln/dsl/lexer.h"
#include "kiln/dsl/types.h"

namespace kiln::dsl {

class TextReader {
 public:
  // `text` must outlive the reader.
  TextReader(std::string_view text, std::string_view file_name) : lexer_(text, file_name) {}
  virtual ~TextReader() = default;

 protected:
  explicit TextReader(Lexer lexer) : lexer_(std::move(lexer)) {}

  // The constexpr or parameter of this name; fails where there is none.
  virtual Expr atom(const Token& name) = 0;

  bool is(std::string_view text) const;  // a name or punctuation
  bool accept(std::string_view text);
  Token expect(std::string_view text);
  Token expect(TokenKind kind, const char* what);
  [[noreturn]] void fail(const Token& at, const std::string& message) const { lexer_.fail(at, message); }
  [[noreturn]] void fail_expected(const std::string& what) const;

  Expr parse_expr();  // polynomials within the limits of kernels: depth, terms, factors
  std::vector<Expr> parse_list();
  int64_t parse_int();
  int64_t parse_flag(std::string_view name);  // 0 or 1, or in words
  ElementType parse_element();
  std::string parse_string();

  Lexer lexer_;

 private:
  Expr parse_product(bool negative);
  Expr parse_factor(bool negative);
  Expr parse_name(const Token& name);
  Expr bounded(Expr expr, const Token& at) const;

  int expr_depth_ = 0;
};

// Reads a kernel where the lexer stands, of a text that holds more than it, and moves the lexer behind it. Throws
// SyntaxError. Locations are lines of the whole text. The result is not yet verified.
Kernel read_kernel(Lexer& lexer, std::string_view file_name);

}  // namespace kiln::dsl

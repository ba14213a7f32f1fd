// What passes build ops with: fresh values, types by the language's own rules, the location of what is replaced.
#pragma once

#include <utility>
#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::codegen {

using Wide = __int128;  // holds every int element, every sum, and every product of two but the largest of u64

// The op's value at a place of the table that is an enum, a flag or an int.
inline int64_t int_attr(const dsl::Op& op, size_t index) { return std::get<int64_t>(op.attrs[index]); }
// … that is an integer expression, which instantiation has made a number.
inline int64_t number_attr(const dsl::Op& op, size_t index) {
  return std::get<dsl::Expr>(op.attrs[index]).as_constant().value();
}
std::vector<dsl::Expr> shape_of(const std::vector<int64_t>& extents);

// An int element as a number, and back by keeping the low bits.
Wide number_from_bits(dsl::ElementType element, uint64_t bits);
uint64_t bits_from_number(dsl::ElementType element, Wide number);
Wide lowest(dsl::ElementType element);
Wide highest(dsl::ElementType element);

// Appends ops to a list.
class OpBuilder {
 public:
  OpBuilder(dsl::Kernel& kernel, std::vector<dsl::Op>& out, const dsl::Location& loc)
      : kernel_(kernel), out_(out), loc_(loc) {}

  // The result of a new op; attributes with defaults may be left out at the end.
  dsl::ValueId add(dsl::OpCode code, std::vector<dsl::ValueId> operands, std::vector<dsl::Attr> attrs = {});
  // An op without results.
  void effect(dsl::OpCode code, std::vector<dsl::ValueId> operands, std::vector<dsl::Attr> attrs = {});
  dsl::ValueId constant(dsl::ElementType element, uint64_t bits);
  // Every element of a tile of this shape (or the scalar itself).
  dsl::ValueId splat(dsl::ValueId scalar, const std::vector<dsl::Expr>& shape);
  const dsl::Type& type(dsl::ValueId id) const { return kernel_.type(id); }
  // Defines a value that has a type already: all its elements are this one.
  void define(dsl::ValueId id, uint64_t bits);

 private:
  dsl::Kernel& kernel_;
  std::vector<dsl::Op>& out_;
  dsl::Location loc_;
};

}  // namespace kiln::codegen

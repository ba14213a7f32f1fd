// What passes build ops with: fresh values, types by the language's own rules, the location of what is replaced. For
// authors there is builder.h, which traces.
#pragma once

#include <vector>

#include "kiln/dsl/ir.h"

namespace kiln::dsl {

// Appends ops to a list, which need not be one of the kernel's yet; both outlive the builder. The values belong to the
// kernel. Operands and attributes must be such as infer_types() takes: anything else is a mistake of the pass, and ends
// the program. Attributes with defaults may be left out at the end. One thread at a time.
class OpBuilder {
 public:
  OpBuilder(Kernel& kernel, std::vector<Op>& out, const Location& loc) : kernel_(kernel), out_(out), loc_(loc) {}

  // The result of a new op, which has one.
  ValueId add(OpCode code, std::vector<ValueId> operands, std::vector<Attr> attrs = {});
  // All results, of an op with as many as its type rule says; the regions of a reduce or scan. (What loops and branches
  // yield is the pass's to say: they are made by hand.)
  std::vector<ValueId> add_all(OpCode code, std::vector<ValueId> operands, std::vector<Attr> attrs = {},
                               std::vector<Region> regions = {});
  // An op without results.
  void effect(OpCode code, std::vector<ValueId> operands, std::vector<Attr> attrs = {});
  ValueId constant(ElementType element, uint64_t bits);
  // Every element of a tile of this shape (or the scalar itself).
  ValueId splat(ValueId scalar, const std::vector<Expr>& shape);
  // Defines a value that has a type already: all its elements are this one.
  void define(ValueId id, uint64_t bits);

  const Type& type(ValueId id) const { return kernel_.type(id); }

 private:
  Kernel& kernel_;
  std::vector<Op>& out_;
  Location loc_;
};

}  // namespace kiln::dsl

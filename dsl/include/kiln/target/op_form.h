// The rows of the capability matrix (capabilities.h): ops, and of an op whose code an attribute chooses (which
// function, which type a cast goes to) one row for each value.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "kiln/dsl/ir.h"

namespace kiln::target {

struct OpForm {
  dsl::OpCode op;
  int64_t choice = 0;  // the value of that attribute, of a cast's the element type; 0 where there is none

  bool operator==(const OpForm&) const = default;
};

// All, in the order of the op table.
std::span<const OpForm> op_forms();
// "add", "math exp", "cast f16", "atomic_rmw min"
std::string to_string(const OpForm& form);
// Of an op of a kernel, and the element type that it computes with: of a cast and a load that of what it reads.
OpForm form_of(const dsl::Op& op);
dsl::ElementType element_of(const dsl::Kernel& kernel, const dsl::Op& op);

// Operands and attributes of an op of the form on small tiles of the element type. The error is what the type rules say
// of it: the language has no such op.
struct OpInstance {
  std::vector<dsl::Type> operands;
  std::vector<dsl::Attr> attrs;
};
Result<OpInstance> instance_of(const OpForm& form, dsl::ElementType element);

}  // namespace kiln::target

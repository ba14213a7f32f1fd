// The smallest kernel of an op: it loads the operands, computes the op, and stores what comes out.
#pragma once

#include "kiln/target/op_form.h"

namespace kiln::test {

// Inline assembly is for one target: its text and constraints.
struct AsmText {
  std::string text, constraints;
};

// The language has the op (target::instance_of).
dsl::Kernel form_kernel(const target::OpForm& form, dsl::ElementType element, const AsmText& assembly);

}  // namespace kiln::test

// What is said of a kernel's parameters where nothing is in the way of the widest accesses.
#pragma once

#include "kiln/dsl/ir.h"

namespace kiln::test {

// Aligned pointers, and extents that are multiples of 16.
inline dsl::Facts aligned_facts(const dsl::Kernel& kernel) {
  dsl::Facts out;
  for (const dsl::Param& param : kernel.params) {
    out.push_back(param.type.pointer                  ? dsl::ParamFact::kAlign16
                  : dsl::is_float(param.type.element) ? dsl::ParamFact::kNone
                                                      : dsl::ParamFact::kMultiple16);
  }
  return out;
}

}  // namespace kiln::test

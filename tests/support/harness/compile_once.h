// The same code for the same kernel, compiled once in a process: for tests that run one kernel on several inputs. Tests
// of the compiler's own, such as whether it makes the same twice, compile anew (harness.h).
#pragma once

#include "harness.h"

namespace kiln::test {

// As compile() of harness.h.
Result<Artifact> compile_once(const dsl::Kernel& kernel, const dsl::ConstexprValues& constexprs,
                              const dsl::Facts& facts = {}, const std::string& target = "");

}  // namespace kiln::test

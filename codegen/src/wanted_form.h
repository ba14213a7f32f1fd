// What a request wants of its compile, as its `emit` says (docs/reference/artifact.md).
#pragma once

#include <string>

#include "backend.h"
#include "kiln/dsl/ir.h"

namespace kiln::codegen {

struct WantedForm {
  std::string form;   // one of the backend's, `ir` or `ir:PASS`
  std::string entry;  // the name of the code's entry
};

// Of `so:NAME` and `obj:NAME` the entry is NAME, so that several kernels go into one program; `so` is what a launcher
// loads. A kernel whose code names lines has an entry of its own name, for profilers and debuggers, which show it.
// Error: the backend has no such form, or no such pass.
Result<WantedForm> wanted_form(const std::string& emit, const dsl::Kernel& kernel, const Backend& backend);

}  // namespace kiln::codegen

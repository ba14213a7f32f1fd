// What a request wants of its compile, as its `emit` says (docs/reference/artifact.md).
#pragma once

#include <string>

#include "backend.h"

namespace kiln::codegen {

struct WantedForm {
  std::string form;   // one of the backend's, `ir` or `ir:PASS`
  std::string entry;  // the name of the code's entry
};

// Of `so:NAME` and `obj:NAME` the entry is NAME, so that several kernels go into one program; `so` is what a launcher
// loads. Error: the backend has no such form, or no such pass.
Result<WantedForm> wanted_form(const std::string& emit, const Backend& backend);

}  // namespace kiln::codegen

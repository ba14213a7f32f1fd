// From a kernel's launches to its code, in as many attempts as that takes: where code turns out badly, another is made.
#pragma once

#include "backend.h"

namespace kiln::codegen {

// Code, and what is said of it.
struct Compiled {
  abi::Metadata metadata;
  std::vector<std::byte> code;
  int64_t spilled_bytes = 0;
};

// `metadata`: what is known of the artifact already. Of the IR as text there is no code.
Result<Compiled> make_code(const Backend& backend, const dsl::CompileRequest& request, const LaunchSequence& sequence,
                           const Observer& observer, const abi::Metadata& metadata);

}  // namespace kiln::codegen

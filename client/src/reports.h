// What compiled code tells of by number, in the words of the interpreter: failures of asserts and bounds, and prints.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "kiln/abi/cpu_abi.h"
#include "kiln/abi/metadata.h"
#include "kiln/dsl/interpreter.h"

namespace kiln::client {

// `checks` and `prints` of an artifact's metadata.
struct Reports {
  std::vector<abi::Check> checks;
  std::vector<abi::Print> prints;
};

// The error of a launch whose entry returned `code`, which is not zero.
Error failure_of(const dsl::Kernel& kernel, const Reports& reports, int32_t code, const kiln_failure& failure,
                 const std::array<uint32_t, 3>& grid, std::span<const dsl::Argument> arguments);

// `values`: a dense row-major array each.
dsl::PrintRecord print_record(const abi::Print& print, const std::array<uint32_t, 3>& grid, uint64_t program,
                              const void* const* values);

}  // namespace kiln::client

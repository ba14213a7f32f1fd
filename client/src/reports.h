// What compiled code tells of by number, in the words of the interpreter: failures of asserts and bounds, and prints.
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "kiln/abi/cpu_abi.h"
#include "kiln/dsl/interpreter.h"

namespace kiln::client {

// Where an op stands in the author's source; line 0: unknown.
struct SourcePlace {
  std::string file;
  uint32_t line = 0, column = 0;
};

// `checks` and `prints` of an artifact's metadata.
struct CheckInfo {
  std::string op, message;
  SourcePlace place;
  int64_t extent = -1;  // gather: of the axis that the index counts along
};
struct PrintInfo {
  std::string message;
  SourcePlace place;
  std::vector<dsl::PrintedValue> values;  // without their bits
};
struct Reports {
  std::vector<CheckInfo> checks;
  std::vector<PrintInfo> prints;
};
Result<Reports> parse_reports(const nlohmann::json& metadata);

// The error of a launch whose entry returned `code`, which is not zero.
Error failure_of(const dsl::Kernel& kernel, const Reports& reports, int32_t code, const kiln_failure& failure,
                 const std::array<uint32_t, 3>& grid, std::span<const dsl::Argument> arguments);

// `values`: a dense row-major array each.
dsl::PrintRecord print_record(const PrintInfo& print, const std::array<uint32_t, 3>& grid, uint64_t program,
                              const void* const* values);

}  // namespace kiln::client

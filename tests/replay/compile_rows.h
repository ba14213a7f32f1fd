// Rows compiled by a process for each core, since a process compiles one kernel at a time.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "kiln/dsl/result.h"
#include "rows.h"

namespace kiln::replay {

// What a row compiles to, in words of a line.
struct Outcome {
  std::string kernel;  // a hash of what is compiled: kernel, config, facts
  std::string code;    // a hash of the code's text, or "refused"
  uint64_t bytes = 0;  // of that text
  bool operator==(const Outcome&) const = default;
};
using Outcomes = std::map<std::string, Outcome>;  // by the row's name

// Of the kernel, config and facts: what is compiled, without compiling it.
std::string kernel_hash(const Subject& subject);

// The code's text, or why there is none. In this process.
std::string code_of(const Row& row, Outcome& outcome);

// `keep`: a folder where each text is written, or empty. Error: a compile ended its process, and which, or a text could
// not be written.
Result<Outcomes> compile_rows(const std::vector<Row>& rows, const std::string& keep);

// A name of the row that is a file's too.
std::string file_name(const std::string& row_name);

}  // namespace kiln::replay

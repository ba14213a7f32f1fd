// Requests for a kernel as tools and benchmarks of the tests make them, and what they compile to, in this process.
#pragma once

#include <string>

#include "kiln/dsl/artifact.h"
#include "kiln/dsl/config.h"
#include "kiln/dsl/request.h"

namespace kiln::test {

// Of a launch with aligned pointers and round extents: pointers and ints are multiples of 16.
dsl::Facts aligned_facts(const dsl::Kernel& kernel);

// Error for a name that the library does not have.
Result<dsl::Kernel> library_kernel(const std::string& name);

// With the constexprs that `config` leaves out as the kernel's text gives them to the target.
Result<RequestBytes> request_for(const dsl::Kernel& kernel, const std::string& target,
                                 const dsl::ConstexprValues& config, const dsl::Facts& facts, const std::string& emit);

Result<Artifact> compile_kernel(const dsl::Kernel& kernel, const std::string& target,
                                const dsl::ConstexprValues& config, const dsl::Facts& facts, const std::string& emit);

// What the tools that print a kernel's code have in common on their command lines.
struct CommandLine {
  std::string kernel = {}, target = {};
  dsl::ConstexprValues config = {};  // --set NAME=VALUE
  bool aligned = false;

  dsl::Facts facts(const dsl::Kernel& kernel) const;
  // Takes the argument at `i`, and its value; false where it is not one of these. Golden files (….check) are skipped.
  bool take(int argc, char** argv, int& i);
};

}  // namespace kiln::test

#include "requests/requests.h"

#include <algorithm>
#include <cstdlib>

#include "kiln/codegen/compile.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/kernels.h"

namespace kiln::test {

dsl::Facts aligned_facts(const dsl::Kernel& kernel) {
  dsl::Facts out;
  for (const dsl::Param& param : kernel.params) {
    out.push_back(param.type.pointer                ? dsl::ParamFact::kAlign16
                  : dsl::is_int(param.type.element) ? dsl::ParamFact::kMultiple16
                                                    : dsl::ParamFact::kNone);
  }
  return out;
}

Result<dsl::Kernel> library_kernel(const std::string& name) {
  for (const dsl::LibraryKernel& kernel : dsl::library_kernels()) {
    if (kernel.name == name) return *kernel.ir;
  }
  return invalid_argument("the library has no kernel `" + name + "`");
}

Result<RequestBytes> request_for(const dsl::Kernel& kernel, const std::string& target,
                                 const dsl::ConstexprValues& config, const dsl::Facts& facts, const std::string& emit) {
  auto complete = dsl::complete_constexprs(kernel, config, target);
  if (!complete) return complete.error();
  return dsl::encode_request({kernel, target, *complete, facts, emit});
}

Result<Artifact> compile_kernel(const dsl::Kernel& kernel, const std::string& target,
                                const dsl::ConstexprValues& config, const dsl::Facts& facts, const std::string& emit) {
  static const bool warm = (codegen::initialise(), true);
  (void)warm;
  const auto request = request_for(kernel, target, config, facts, emit);
  if (!request) return request.error();
  return codegen::compile(request->canonical, request->debug, {});
}

dsl::Facts CommandLine::facts(const dsl::Kernel& kernel) const {
  return aligned ? aligned_facts(kernel) : dsl::Facts();
}

bool CommandLine::take(int argc, char** argv, int& i) {
  const std::string argument = argv[i];
  const auto value = [&] { return i + 1 < argc ? std::string(argv[++i]) : std::string(); };
  if (argument == "--target") {
    target = value();
  } else if (argument == "--set") {
    const std::string set = value();
    const size_t equals = std::min(set.find('='), set.size());
    config[set.substr(0, equals)] = std::atoll(set.c_str() + std::min(equals + 1, set.size()));
  } else if (argument == "--aligned") {
    aligned = true;
  } else if (argument.starts_with("--")) {
    return false;
  } else if (!argument.ends_with(".check")) {
    kernel = argument;
  }
  return true;
}

}  // namespace kiln::test

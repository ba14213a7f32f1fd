// Requests for real kernels: those of tests/golden, with small constexprs.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/text.h"

namespace kiln::service_test {

inline Result<dsl::Kernel> golden_kernel(const std::string& name) {
  std::ifstream in(std::string(KILN_SOURCE_DIR) + "/tests/golden/" + name + ".kiln");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  return dsl::parse(text, name);
}

inline dsl::ConstexprValues small_config(const dsl::Kernel& kernel) {
  dsl::ConstexprValues out;
  for (const auto& constexpr_ : kernel.constexprs) out[constexpr_.name] = constexpr_.default_value.value_or(64);
  return out;
}

inline Result<RequestBytes> golden_request(const std::string& name, const std::string& target) {
  auto kernel = golden_kernel(name);
  if (!kernel) return kernel.error();
  return dsl::encode_request({*kernel, target, small_config(*kernel), {}});
}

}  // namespace kiln::service_test

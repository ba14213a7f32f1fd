// Requests for real kernels: those of tests/golden, with small constexprs.
#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/text.h"

namespace kiln::service_test {

inline Result<RequestBytes> golden_request(const std::string& name, const std::string& target) {
  std::ifstream in(std::string(KILN_SOURCE_DIR) + "/tests/golden/" + name + ".kiln");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  auto kernel = dsl::parse(text, name);
  if (!kernel) return kernel.error();
  dsl::ConstexprValues values;
  for (const auto& constexpr_ : kernel->constexprs) values[constexpr_.name] = constexpr_.default_value.value_or(64);
  return dsl::encode_request({*kernel, target, values, {}});
}

}  // namespace kiln::service_test

// What tests of custom kernels share.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "harness.h"
#include "kiln/codegen/compile.h"
#include "kiln/dsl/custom_kernel.h"
#include "kiln/dsl/text.h"

namespace kiln::test {

// A kernel without ops, "name(parameters) {\n  grid […]\n}\n".
inline dsl::Kernel declared(const std::string& text) {
  auto kernel = dsl::parse("kernel " + text, "declared");
  EXPECT_TRUE(kernel.ok()) << kernel.error().message;
  return kernel.ok() ? *kernel : dsl::Kernel();
}

// As a worker does.
inline Result<Artifact> compile_custom(const dsl::CustomRequest& request) {
  initialise();
  auto bytes = dsl::encode_custom_request(request);
  if (!bytes) return bytes.error();
  EXPECT_TRUE(dsl::is_custom_request(bytes->canonical));
  return codegen::compile_custom(bytes->canonical, bytes->debug, {});
}

// Its message; "none" where there is no error.
inline std::string refusal_of(const dsl::CustomRequest& request) {
  auto artifact = compile_custom(request);
  return artifact ? "none" : artifact.error().message;
}

}  // namespace kiln::test

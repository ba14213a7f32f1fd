// Kernels and artifacts as a compiler for GPUs would make them, loaded and launched.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kiln/client/client.h"
#include "kiln/client/gpu.h"
#include "variant.h"

namespace kiln::test {

// A kernel by its parameters ("%x: ptr<f32>, %n: i32") and grid ("[div(n + 63, 64), 1, 1]"), of one op at line 3.
dsl::Kernel kernel_of(const std::string& params, const std::string& grid = "[1, 1, 1]");
// PTX for the kernel, for sm_90a, with blocks of 128 threads; `more` is merged into the metadata's JSON. It must be as
// metadata are, or the test fails; of read_artifact_of the error says what is not.
Result<Artifact> read_artifact_of(const dsl::Kernel& kernel, const nlohmann::json& more);
Artifact artifact_of(const dsl::Kernel& kernel, const nlohmann::json& more = nlohmann::json::object());

Result<std::shared_ptr<const client::Variant>> load(const dsl::Kernel& kernel, const Artifact& artifact);
// The variant must load, or the test fails.
std::shared_ptr<const client::Variant> loaded(const dsl::Kernel& kernel, const Artifact& artifact);
Result<void> launch(const client::Variant& variant, const dsl::Kernel& kernel,
                    const std::vector<client::Argument>& arguments, const client::LaunchOptions& options = {});

inline client::Argument pointer(const void* data) { return {const_cast<void*>(data), dsl::kUnknownExtent, 0}; }
inline client::Argument scalar(uint64_t bits) { return {nullptr, 0, bits}; }

Device open_device(int ordinal = 0);
Stream new_stream(const Device& device);

// The message of a failure; "" where there is none.
inline std::string message(const Result<void>& result) { return result ? "" : result.error().message; }
template <class T>
std::string message(const Result<T>& result) {
  return result ? "" : result.error().message;
}

}  // namespace kiln::test

// What the fuzz targets share: a broken promise ends the process, which is what libFuzzer calls a finding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <span>
#include <string>
#include <string_view>

#include "kiln/dsl/result.h"

namespace kiln::fuzz {

inline void check(bool holds, const char* promise, std::string_view detail = {}) {
  if (holds) return;
  std::cerr << "broken promise: " << promise << "\n" << detail << std::endl;
  std::abort();
}

// Hostile input is the user's mistake and never ours, and it is explained.
inline void check_refusal(const Error& error) {
  check(error.code != ErrorCode::kInternal, "an error of the input is no internal error", error.message);
  check(!error.message.empty(), "an error says what is wrong");
}

template <class T>
const T& expect(const Result<T>& result, const char* promise, std::string_view detail = {}) {
  if (!result) check(false, promise, result.error().message + "\n" + std::string(detail));
  return *result;
}

}  // namespace kiln::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

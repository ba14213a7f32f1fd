// What benchmarks by hand have in common: an error ends them, by their name, and many times are told by their median.
#pragma once

#include <errno.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "kiln/dsl/result.h"

namespace kiln::bench {

[[noreturn]] inline void fail(const std::string& what) {
  std::fprintf(stderr, "%s: %s\n", program_invocation_short_name, what.c_str());
  std::exit(1);
}

template <class T>
T need(Result<T> result) {
  if (!result) fail(result.error().message);
  return std::move(*result);
}
inline void need(const Result<void>& result) {
  if (!result) fail(result.error().message);
}

// 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace kiln::bench

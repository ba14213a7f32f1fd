// Elementary functions beside SLEEF, libmvec and oneDNN: ns per element at 128 Ki elements in cache, one thread, by
// turns, medians; and each side's largest error on these arguments.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "cpu/lines.h"
#include "kiln/client/client.h"

namespace kiln::bench {

struct MathReport {
  // Of every function "ns/element" and "ulp" of all sides; and "ns/element as exact" of ours and of those whose error
  // is no larger than ours, or than one ulp.
  std::vector<Measurement> lines;
  std::string missing;  // which library is absent and why
};

// Prints each line as it is measured. The calling thread's OpenMP has one thread meanwhile. False: a kernel could not
// be had, which is printed.
bool measure_math(Client& client, const std::function<bool(const std::string& function)>& wants, MathReport& report);

}  // namespace kiln::bench

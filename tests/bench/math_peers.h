// Vector math libraries that are loaded at run time: SLEEF, glibc's libmvec, oneDNN.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace kiln::bench {

struct MathPeer {
  std::string name;  // with the bound in ulp that the library states
  std::function<void()> run;
};

// Applies `function` ("exp", …; "pow" takes y, too) to `count` elements, a multiple of 16, in the widest vectors of
// this machine. Empty for what no library has; `missing` says which library is absent and why.
template <class T>
std::vector<MathPeer> math_peers(const std::string& function, const T* x, const T* y, T* out, long count,
                                 std::string& missing);

// math_onednn.cpp: the same by oneDNN, in as many threads as OpenMP has; empty where it is absent or has no such
// function.
std::function<void()> onednn_function(const std::string& function, const float* x, float* out, long count);

}  // namespace kiln::bench

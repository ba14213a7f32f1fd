// Vector math libraries that are loaded at run time: SLEEF and glibc's libmvec.
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

}  // namespace kiln::bench

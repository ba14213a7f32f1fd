// References fast enough for all 2^32 arguments: the vector functions of the C library's libmvec in double, whose error
// (at most 4 ulp of a double, glibc manual, "Known Maximum Errors in Math Functions") is nothing in ulp of f32.
#pragma once

#include <cstddef>
#include <string>

namespace kiln::test {

class VectorReference {
 public:
  // `name` as docs/reference/ops.md writes the function. Without libmvec, AVX2 or the function in it there is none.
  explicit VectorReference(const std::string& name);
  bool exists() const { return function_ != nullptr; }

  // out[i] = f(x[i]) for a count that is a multiple of four. Requires exists().
  void operator()(const float* x, double* out, size_t count) const;

 private:
  void* function_ = nullptr;
};

}  // namespace kiln::test

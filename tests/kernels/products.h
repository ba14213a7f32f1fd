// What the tests of products share: shapes, operands and the float64 product.
#pragma once

#include "check.h"

namespace kiln::test {

struct Product {
  int64_t m, n, k, bm, bn, bk, parts = 1, workers = 0;
  size_t of(int64_t a, int64_t b) const { return static_cast<size_t>(a * b); }
  dsl::ConstexprValues config() const {
    dsl::ConstexprValues out = {{"BM", bm}, {"BN", bn}, {"BK", bk}};
    if (parts > 1) out["split_k"] = parts;
    if (workers > 0) out["stream_k"] = workers;
    return out;
  }
};

// a·b in float64; rows are independent of each other.
inline std::vector<double> multiply(const std::vector<double>& a, const std::vector<double>& b, int64_t m, int64_t n,
                                    int64_t k) {
  std::vector<double> out(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t l = 0; l < k; ++l) {
      const double x = a[static_cast<size_t>(i * k + l)];
      for (int64_t j = 0; j < n; ++j) out[static_cast<size_t>(i * n + j)] += x * b[static_cast<size_t>(l * n + j)];
    }
  }
  return out;
}

template <class T>
std::vector<Memory<T>> elements(size_t count, uint32_t seed) {
  if constexpr (std::is_same_v<T, lang::i8>) {
    const auto wide = ints(count, -128, 128, seed);
    return {wide.begin(), wide.end()};
  } else {
    return normals_of<T>(count, seed);
  }
}

template <class F>
void for_operands(F f) {
  for_floats(f);
  f.template operator()<lang::i8>();
}

// The transpose of a matrix of so many columns.
template <class M>
std::vector<M> turned(const std::vector<M>& x, int64_t columns) {
  const auto width = static_cast<size_t>(columns), height = x.size() / width;
  std::vector<M> out(x.size());
  for (size_t i = 0; i < x.size(); ++i) out[i % width * height + i / width] = x[i];
  return out;
}

}  // namespace kiln::test

#include "reference/dot.h"

namespace kiln::reference {
namespace {

// Sum is the type of products and sums.
template <class Sum, class T, class Result>
Array<Result> product(const Array<T>& a, const Array<T>& b, const Array<Result>& acc) {
  const size_t rank = a.shape.size();
  const int64_t depth = a.shape[rank - 1];
  return generate<Result>(with_extent(a.shape, rank - 1, b.shape[rank - 1]), [&](const Shape& index) {
    Shape left = index, right = index;
    Sum sum = acc.data.empty() ? Sum{0} : static_cast<Sum>(acc.at(index));
    for (int64_t k = 0; k < depth; ++k) {
      left[rank - 1] = k;
      right[rank - 2] = k;
      sum += static_cast<Sum>(a.at(left)) * static_cast<Sum>(b.at(right));
    }
    return static_cast<Result>(sum);
  });
}

}  // namespace

Array<long double> dot(const Array<long double>& a, const Array<long double>& b, const Array<long double>& acc) {
  return product<Quad>(a, b, acc);
}

Array<int32_t> dot_int(const Array<int64_t>& a, const Array<int64_t>& b, const Array<int32_t>& acc) {
  return product<Wide>(a, b, acc);
}

}  // namespace kiln::reference

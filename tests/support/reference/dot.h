// acc + a·b for [M, K]·[K, N], or [B, M, K]·[B, K, N]. Floats are summed in binary128 over exact products, so that the
// reference of an f64 dot is exact too but for a last bit far below f64's; ints are summed exactly and wrap at the end.
#pragma once

#include "reference/arrays.h"
#include "reference/dyadic.h"
#include "reference/types.h"

namespace kiln::reference {

// Elements as real numbers: see real_values of cast.h. An acc of no elements is zero.
Array<long double> dot(const Array<long double>& a, const Array<long double>& b, const Array<long double>& acc = {});
// i8 and u8 in any mixture, into i32.
Array<int32_t> dot_int(const Array<int64_t>& a, const Array<int64_t>& b, const Array<int32_t>& acc = {});

}  // namespace kiln::reference

// When a result agrees with its reference: the last section of docs/reference/ops.md.
#pragma once

#include <vector>

#include "reference/types.h"

namespace kiln::reference {

struct Tolerance {
  long double rtol = 0;
  long double atol = 0;
};
// Ints are exact. The page gives none for elements of f8: one step of the format, for both types.
Tolerance tolerance(Type type);

// Equal bits, or both NaN: for what is exact. `any_zero`: zeros of either sign are equal.
bool same(Type type, Bits a, Bits b, bool any_zero = false);

// |out - ref| ≤ atol + rtol·|ref|. NaN agrees with NaN only, an infinite reference with itself only. Near overflow, an
// infinite (for f8: largest) result agrees where some number within the tolerance rounds to it.
bool close(Type type, Bits out, long double ref);
bool close(Type type, Bits out, long double ref, const Tolerance& tolerance);
// Positions that do not agree; both have one length.
std::vector<size_t> mismatches(Type type, const std::vector<Bits>& out, const std::vector<long double>& ref);

// |out - ref| in units of the last place of the reference, which is the type's spacing at |ref|; 0 where both are NaN
// or the reference rounds to `out`, infinite where only one is NaN or infinite.
long double ulp_error(Type type, Bits out, long double ref);

// ‖out - ref‖ / ‖ref‖ over all elements; where the reference is all zero, 0 for all zeros, else infinite. Elements
// whose reference is NaN or infinite must agree exactly and do not count; infinite where one does not.
long double dot_error(Type type, const std::vector<Bits>& out, const std::vector<long double>& ref);

enum class DotPrecision : uint8_t { kIeee, kTf32, kTf32x3, kBf16x3 };
// The bound on dot_error for operands and result of these types and depth K; i8 and u8 have 0. The page gives none for
// f64, tf32x3 and bf16x3: f64 here is f32's rule scaled by 2^-29, and the split precisions are held to tf32's.
long double dot_tolerance(Type operands, Type result, int64_t depth, DotPrecision precision = DotPrecision::kIeee);

}  // namespace kiln::reference

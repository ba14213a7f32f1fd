// Elementary functions and activations in long double: 64 bits of mantissa on x86-64, 11 more than f64, from glibc,
// whose long double functions err by an ulp or two. Special values are IEEE 754-2019's and C's Annex F's.
#pragma once

#include <string_view>

namespace kiln::reference {

// The functions of the op `math` by name; y is the second operand of atan2, pow, hypot and copysign. `round` takes
// halves to even; signbit, isnan and isinf give 0 or 1. Throws std::invalid_argument for another name.
long double math(std::string_view function, long double x, long double y = 0);

// 1/(1+e^-x), in the form that keeps relative accuracy for either sign.
long double sigmoid(long double x);
// x·sigmoid(x). NaN at -inf, as the formula has it; so are both gelus.
long double silu(long double x);
// x·Φ(x) with Φ the normal distribution function (Hendrycks and Gimpel, arXiv:1606.08415).
long double gelu_erf(long double x);
// Its approximation there: x/2·(1 + tanh(sqrt(2/π)·(x + 0.044715·x³))).
long double gelu_tanh(long double x);
// max(x, 0); NaN stays NaN.
long double relu(long double x);
// log(1 + e^x).
long double softplus(long double x);

}  // namespace kiln::reference

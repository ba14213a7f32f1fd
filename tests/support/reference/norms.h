// Reductions, scans and normalisations of one line of real numbers, by their textbook formulas. Sums run in binary128.
// map_lines and reduce_lines of lines.h take them along an axis.
#pragma once

#include <vector>

namespace kiln::reference {

using Line = std::vector<long double>;

long double sum(const Line& x);
long double prod(const Line& x);
long double mean(const Line& x);
// Two passes: Σ(x - mean)² / (n - correction).
long double var(const Line& x, int correction = 0);
Line cumsum(const Line& x, bool reverse = false);
Line cumprod(const Line& x, bool reverse = false);

// max + log Σ e^(x-max); where the max is infinite it is left out, so -inf for a line of -inf, and +inf for one with
// +inf.
long double logsumexp(const Line& x);
// e^(x-max) / Σ e^(x-max); NaN for a line of -inf and for one with +inf.
Line softmax(const Line& x);
// x - logsumexp(x).
Line log_softmax(const Line& x);
// (x - mean)/sqrt(var + eps)·weight + bias, var with correction 0. An empty weight is 1, an empty bias 0.
Line layer_norm(const Line& x, const Line& weight, const Line& bias, long double eps);
// x/sqrt(mean(x²) + eps)·weight.
Line rms_norm(const Line& x, const Line& weight, long double eps);

}  // namespace kiln::reference

// Spearman's rank correlation: Pearson's, of ranks; equal numbers share the mean of their ranks.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kiln/autotune/model.h"

namespace kiln::autotune {
namespace {

std::vector<double> ranks(std::span<const double> values) {
  std::vector<size_t> order(values.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  std::vector<double> out(values.size());
  for (size_t first = 0, last = 0; first < order.size(); first = last) {
    while (last < order.size() && values[order[last]] == values[order[first]]) ++last;
    for (size_t i = first; i < last; ++i) out[order[i]] = static_cast<double>(first + last - 1) / 2;
  }
  return out;
}

}  // namespace

// 0 where one of them does not vary, or there are fewer than two.
double rank_correlation(std::span<const double> a, std::span<const double> b) {
  const std::vector<double> x = ranks(a), y = ranks(b);
  const double mean = (static_cast<double>(x.size()) - 1) / 2;
  double xy = 0, xx = 0, yy = 0;
  for (size_t i = 0; i < std::min(x.size(), y.size()); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  return xx > 0 && yy > 0 ? xy / std::sqrt(xx * yy) : 0;
}

}  // namespace kiln::autotune

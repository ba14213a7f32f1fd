#include "reference/norms.h"

#include <algorithm>
#include <cmath>

#include "reference/dyadic.h"
#include "reference/lines.h"

namespace kiln::reference {
namespace {

template <class Function>
Line mapped(Line x, Function function) {
  std::transform(x.begin(), x.end(), x.begin(), function);
  return x;
}

template <class Combine>
Line scanned(const Line& x, Combine combine, bool reverse) {
  const std::vector<Quad> out = scan(std::vector<Quad>(x.begin(), x.end()), combine, reverse);
  return Line(out.begin(), out.end());
}

// 0 where it is infinite: e^(x-max) is then as good as e^x, and inf - inf does not arise.
long double finite_max(const Line& x) {
  const long double largest = *std::max_element(x.begin(), x.end());
  return std::isfinite(largest) ? largest : 0;
}

Line affine(Line x, const Line& weight, const Line& bias) {
  for (size_t i = 0; i < x.size(); ++i) {
    if (!weight.empty()) x[i] *= weight[i];
    if (!bias.empty()) x[i] += bias[i];
  }
  return x;
}

}  // namespace

long double sum(const Line& x) { return cumsum(x).back(); }

long double prod(const Line& x) { return cumprod(x).back(); }

long double mean(const Line& x) { return sum(x) / static_cast<long double>(x.size()); }

long double var(const Line& x, int correction) {
  const long double center = mean(x);
  const Line squares = mapped(x, [&](long double value) { return (value - center) * (value - center); });
  return sum(squares) / (static_cast<long double>(x.size()) - correction);
}

Line cumsum(const Line& x, bool reverse) {
  return scanned(x, [](Quad a, Quad b) { return a + b; }, reverse);
}

Line cumprod(const Line& x, bool reverse) {
  return scanned(x, [](Quad a, Quad b) { return a * b; }, reverse);
}

long double logsumexp(const Line& x) {
  const long double largest = finite_max(x);
  return largest + std::log(sum(mapped(x, [&](long double value) { return std::exp(value - largest); })));
}

Line softmax(const Line& x) {
  const long double largest = finite_max(x);
  const Line powers = mapped(x, [&](long double value) { return std::exp(value - largest); });
  const long double total = sum(powers);
  // A line with +inf is NaN throughout, as the formula without the case above has it.
  if (std::isinf(total)) return Line(x.size(), total - total);
  return mapped(powers, [&](long double value) { return value / total; });
}

Line log_softmax(const Line& x) {
  const long double total = logsumexp(x);
  return mapped(x, [&](long double value) { return value - total; });
}

Line layer_norm(const Line& x, const Line& weight, const Line& bias, long double eps) {
  const long double center = mean(x), deviation = std::sqrt(var(x) + eps);
  return affine(mapped(x, [&](long double value) { return (value - center) / deviation; }), weight, bias);
}

Line rms_norm(const Line& x, const Line& weight, long double eps) {
  const long double scale = std::sqrt(mean(mapped(x, [](long double value) { return value * value; })) + eps);
  return affine(mapped(x, [&](long double value) { return value / scale; }), weight, {});
}

}  // namespace kiln::reference

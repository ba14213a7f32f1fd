#include "ranges.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace kiln::cli {

std::optional<RangeMethod> parse_range_method(std::string_view name) {
  if (name == "minmax") return RangeMethod::kMinMax;
  if (name == "percentile") return RangeMethod::kPercentile;
  if (name == "entropy") return RangeMethod::kEntropy;
  return std::nullopt;
}

namespace {

struct Ends {
  double low, high;
};
Ends ends_of(Quantised type) { return type == Quantised::kI8 ? Ends{-128, 127} : Ends{0, 255}; }

double unclamped(const Quantiser& by, double x) { return std::nearbyint(x / double{by.scale}) + by.zero; }

// ‖P‖ log(P/Q) of the first `kept` bins, the others added to the last of them, and of these bins in `levels` groups,
// each spread over its bins that are not empty.
double divergence(const std::vector<uint64_t>& bins, const std::vector<double>& below, size_t kept, size_t levels) {
  const double all = below.back();
  double out = 0;
  for (size_t level = 0; level < levels; ++level) {
    const size_t first = level * kept / levels, end = (level + 1) * kept / levels;
    const auto members = std::count_if(&bins[0] + first, &bins[0] + end, [](uint64_t n) { return n != 0; });
    const double share = members == 0 ? 0 : (below[end] - below[first]) / static_cast<double>(members) / below[kept];
    for (size_t i = first; i < end; ++i) {
      const double p = (static_cast<double>(bins[i]) + (i + 1 == kept ? all - below[kept] : 0)) / all;
      // A bin that Q does not have is held against it, finitely.
      if (p > 0) out += p * std::log(p / std::max(bins[i] == 0 ? 0 : share, 1e-12));
    }
  }
  return out;
}

}  // namespace

double Quantiser::back(double x) const {
  const auto [low, high] = ends_of(type);
  return (std::clamp(unclamped(*this, x), low, high) - zero) * double{scale};
}

bool Quantiser::saturates(double x) const {
  const auto [low, high] = ends_of(type);
  const double q = unclamped(*this, x);
  return q < low || q > high;
}

void Spread::see(double x) {
  low_ = seen_ == 0 ? x : std::min(low_, x);
  high_ = seen_ == 0 ? x : std::max(high_, x);
  ++seen_;
}

double Spread::top() const { return std::max(std::fabs(low_), std::fabs(high_)); }

void Spread::count(double x) {
  const auto half = static_cast<double>(bins_.size() / 2);
  const double at = top() == 0 ? half : half + x / top() * half;
  ++bins_[std::min(static_cast<size_t>(std::max(at, 0.0)), bins_.size() - 1)];
  ++counted_;
}

std::vector<uint64_t> Spread::of_magnitudes() const {
  const size_t half = bins_.size() / 2;
  std::vector<uint64_t> out(half);
  for (size_t i = 0; i < half; ++i) out[i] = bins_[half + i] + bins_[half - 1 - i];
  return out;
}

double Spread::percentile(double percent) const {
  const double wanted = static_cast<double>(counted_) * percent / 100;
  double below = 0;
  for (size_t i = 0; i < bins_.size(); ++i) {
    const auto here = static_cast<double>(bins_[i]);
    if (here > 0 && below + here >= wanted) {
      const double place = static_cast<double>(i) + (wanted - below) / here;
      return std::clamp((place / static_cast<double>(bins_.size()) * 2 - 1) * top(), low_, high_);
    }
    below += here;
  }
  return high_;
}

double Spread::percentile_top(double percent) const {
  const std::vector<uint64_t> bins = of_magnitudes();
  const double wanted = static_cast<double>(counted_) * percent / 100;
  double below = 0;
  for (size_t i = 0; i < bins.size(); ++i) {
    const auto here = static_cast<double>(bins[i]);
    if (here > 0 && below + here >= wanted) {
      return (static_cast<double>(i) + (wanted - below) / here) / static_cast<double>(bins.size()) * top();
    }
    below += here;
  }
  return top();
}

double Spread::entropy_top(int levels) const {
  const std::vector<uint64_t> bins = of_magnitudes();
  std::vector<double> below(bins.size() + 1);
  std::transform_inclusive_scan(bins.begin(), bins.end(), below.begin() + 1, std::plus<>(),
                                [](uint64_t n) { return static_cast<double>(n); });
  const auto first = std::min(static_cast<size_t>(levels), bins.size());
  size_t best = bins.size();
  double least = divergence(bins, below, best, first);
  for (size_t kept = first; kept < bins.size(); ++kept) {
    if (below[kept] == 0) continue;
    const double d = divergence(bins, below, kept, first);
    if (d < least) {
      least = d;
      best = kept;
    }
  }
  return static_cast<double>(best) / static_cast<double>(bins.size()) * top();
}

Quantiser Spread::quantiser(Quantised type, RangeMethod method, double percent) const {
  double low = low_, high = high_;
  if (method == RangeMethod::kEntropy && counted_ > 0) {
    const double most = entropy_top(type == Quantised::kU8 && low_ >= 0 ? 256 : 128);
    low = std::max(low, -most);
    high = std::min(high, most);
  } else if (method == RangeMethod::kPercentile && counted_ > 0) {
    if (type == Quantised::kI8) {
      high = percentile_top(percent);
      low = -high;
    } else {
      const double cut = (100 - percent) / 2;
      low = low_ >= 0 ? low_ : percentile(cut);
      high = percentile(low_ >= 0 ? percent : 100 - cut);
    }
  }
  Quantiser out{type, 1, 0};
  if (type == Quantised::kI8) {
    out.scale = static_cast<float>(std::max(std::fabs(low), std::fabs(high)) / 127);
  } else {
    low = std::min(low, 0.0);
    high = std::max(high, 0.0);
    out.scale = static_cast<float>((high - low) / 255);
    if (out.scale > 0) out.zero = static_cast<int>(std::clamp(std::nearbyint(-low / double{out.scale}), 0.0, 255.0));
  }
  if (!(out.scale > 0)) out = {type, 1, 0};
  return out;
}

}  // namespace kiln::cli

#include "search/statistics.h"

#include <algorithm>
#include <cmath>

namespace kiln::autotune {
namespace {

constexpr double kAlpha = 0.01;
constexpr double kFar = 2;
constexpr int kFarRounds = 3;

// P(Binomial(n, 1/2) = k)
double binomial_half(int n, int k) {
  return std::exp(std::lgamma(n + 1) - std::lgamma(k + 1) - std::lgamma(n - k + 1) - n * std::log(2.0));
}

double median_of_sorted(const std::vector<double>& sorted) {
  const size_t n = sorted.size();
  if (n == 0) return std::nan("");
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

void sort_numbers(std::vector<double>& samples) {
  std::erase_if(samples, [](double value) { return !std::isfinite(value); });
  std::sort(samples.begin(), samples.end());
}

}  // namespace

double median(std::vector<double> samples) {
  sort_numbers(samples);
  return median_of_sorted(samples);
}

MedianInterval median_interval(std::vector<double> samples) {
  sort_numbers(samples);
  const int n = static_cast<int>(samples.size());
  if (n == 0) return {std::nan(""), std::nan(""), std::nan(""), 0};
  // The most samples that may be left out on each side.
  int left_out = 0;
  for (double tail = binomial_half(n, 0); tail <= kAlpha / 2; tail += binomial_half(n, left_out)) ++left_out;
  const int lowest = std::max(0, left_out - 1);
  return {median_of_sorted(samples), samples[lowest], samples[n - 1 - lowest], n};
}

// With odds p uniform on (1/2, 1]: 2^(n+1) times the integral of p^h (1-p)^(n-h), a sum of binomial probabilities:
// the integral from 1/2 to 1 is B(h+1, n-h+1) · P(Binomial(n+1, 1/2) <= h).
double coin_evidence(int hits, int tosses) {
  double below = 0;
  for (int k = 0; k <= hits; ++k) below += binomial_half(tosses + 1, k);
  const double beta = std::lgamma(hits + 1) + std::lgamma(tosses - hits + 1) - std::lgamma(tosses + 2);
  return std::exp((tosses + 1) * std::log(2.0) + beta) * below;
}

void PairedRace::add(double champion_us, double challenger_us) {
  if (!std::isfinite(champion_us) || !std::isfinite(challenger_us) || champion_us <= 0) return;
  ratios_.push_back(challenger_us / champion_us);
  faster_ += challenger_us < champion_us;
  slower_ += challenger_us > champion_us;
}

Verdict PairedRace::verdict() const {
  if (rounds() >= kFarRounds) {
    const auto [least, most] = std::minmax_element(ratios_.begin(), ratios_.end());
    if (*least >= kFar) return Verdict::kSlower;
    if (*most <= 1 / kFar) return Verdict::kFaster;
  }
  if (coin_evidence(slower_, slower_ + faster_) >= 1 / kAlpha) return Verdict::kSlower;
  return coin_evidence(faster_, slower_ + faster_) >= 1 / kAlpha ? Verdict::kFaster : Verdict::kOpen;
}

double PairedRace::ratio() const { return ratios_.empty() ? 1 : median(ratios_); }

}  // namespace kiln::autotune

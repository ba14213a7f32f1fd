#include "search/surrogate.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>

#include "search/statistics.h"

namespace kiln::autotune {
namespace {

// The model's prediction is believed before there are measurements. Beside it, variances of what times are made of,
// relative to how much they vary: a common level, a share of the model's prediction, and what is smooth over so many
// steps. Searches do about as well with half or twice of each.
constexpr double kLevel = 1, kModel = 0.2, kSmooth = 0.25, kLength = 1.5;
constexpr double kMeasured = 0.01;  // standard error of a measured logarithm
constexpr double kLeastScale = 0.05;

double deviation(const std::vector<double>& values, double centre) {
  double sum = 0;
  for (double value : values) sum += (value - centre) * (value - centre);
  return values.empty() ? 0 : std::sqrt(sum / static_cast<double>(values.size()));
}

}  // namespace

Surrogate::Surrogate(const Space& space, std::span<const Config> configs, std::span<const double> predicted,
                     std::span<const double> measured) {
  for (const Config& config : configs) places_.push_back(places(space, config));
  for (double us : predicted) model_.push_back(std::log(std::max(us, 1e-9)));
  const double level = std::accumulate(model_.begin(), model_.end(), 0.0) / static_cast<double>(model_.size());
  const double spread = std::max(deviation(model_, level), kLeastScale);
  for (double& value : model_) value = (value - level) / spread;

  std::vector<double> times;
  for (double us : measured) {
    if (std::isfinite(us)) times.push_back(std::log(us));
  }
  centre_ = times.empty() ? level : median(times);
  scale_ = std::max(deviation(times, centre_), kLeastScale);
  noise_ = 1e-3 + kMeasured * kMeasured / (scale_ * scale_);
  best_ = times.empty() ? 0 : (*std::min_element(times.begin(), times.end()) - centre_) / scale_;
  const double worst = times.empty() ? 0 : (*std::max_element(times.begin(), times.end()) - centre_) / scale_;

  for (double value : model_) mean_.push_back(value * spread / scale_);
  for (size_t i = 0; i < configs.size(); ++i) variance_.push_back(covariance(i, i));
  for (size_t i = 0; i < configs.size(); ++i) {
    if (std::isfinite(measured[i]))
      condition(i, (std::log(measured[i]) - centre_) / scale_);
    else if (std::isinf(measured[i]))
      condition(i, worst);
  }
}

double Surrogate::covariance(size_t a, size_t b) const {
  double square = 0;
  for (size_t axis = 0; axis < places_[a].size(); ++axis) {
    const double here = places_[a][axis], there = places_[b][axis];
    // A default may leave a schedule option to the compiler: it stands near no value of the axis.
    const double steps = (here < 0) != (there < 0) ? kLength : here - there;
    square += steps * steps;
  }
  return kLevel + kModel * model_[a] * model_[b] + kSmooth * std::exp(-square / (2 * kLength * kLength));
}

void Surrogate::condition(size_t config, double time) {
  const double deviation = std::sqrt(variance_[config] + noise_), surprise = (time - mean_[config]) / deviation;
  std::vector<double> row(mean_.size());
  for (size_t i = 0; i < row.size(); ++i) {
    double rest = covariance(config, i);
    for (const std::vector<double>& before : factors_) rest -= before[config] * before[i];
    row[i] = rest / deviation;
  }
  for (size_t i = 0; i < row.size(); ++i) {
    mean_[i] += row[i] * surprise;
    variance_[i] = std::max(variance_[i] - row[i] * row[i], 1e-9);
  }
  factors_.push_back(std::move(row));
}

double Surrogate::expected_us(size_t config) const { return std::exp(centre_ + scale_ * mean_[config]); }

double Surrogate::improvement(size_t config) const {
  const double spread = std::sqrt(variance_[config]), z = (best_ - mean_[config]) / spread;
  const double below = std::erfc(-z / std::numbers::sqrt2) / 2;
  const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
  return scale_ * spread * (z * below + density);
}

void Surrogate::assume(size_t config) { condition(config, mean_[config]); }

}  // namespace kiln::autotune

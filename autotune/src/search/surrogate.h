// What measurements of some configs say of the others: a Gaussian process over the logarithm of times.
#pragma once

#include <span>
#include <vector>

#include "kiln/autotune/space.h"

namespace kiln::autotune {

// Times of configs near by, in steps along the axes, are alike; and they follow the cost model as far as the
// measurements say that they do, which may be backwards. (Rasmussen and Williams, Gaussian Processes for Machine
// Learning, 2.2: posterior mean and variance; here conditioned on one config after another.)
class Surrogate {
 public:
  // Spans by config. `measured`: us; NaN where there is none, infinite where the config failed, which counts as the
  // slowest.
  Surrogate(const Space& space, std::span<const Config> configs, std::span<const double> predicted,
            std::span<const double> measured);

  double expected_us(size_t config) const;
  // By how much, in the logarithm, a config is expected to improve on the best that was measured (Jones, Schonlau and
  // Welch 1998, "Efficient global optimization of expensive black-box functions").
  double improvement(size_t config) const;
  // As if the config had been measured, with the time that is expected: it and its neighbours are no news any more.
  void assume(size_t config);

 private:
  double covariance(size_t a, size_t b) const;
  void condition(size_t config, double time);

  std::vector<std::vector<double>> places_;   // by config: its place on each axis
  std::vector<double> model_;                 // the model's logarithms, about 0
  std::vector<std::vector<double>> factors_;  // of the covariance's Cholesky factor: a row a condition, by config
  std::vector<double> mean_, variance_;       // by config, in units of scale_ about centre_
  double centre_ = 0, scale_ = 1, noise_ = 0, best_ = 0;
};

}  // namespace kiln::autotune

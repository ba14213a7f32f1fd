// Evaluator: resampling, axis by axis a sum of weighted elements; and its transpose. Weights and sums are f64, rounded
// once.
#include <algorithm>
#include <cmath>

#include "evaluate/array_loops.h"

namespace kiln::graph::evaluator {
namespace {

struct Tap {
  int64_t place;
  double weight;
};

// The cubic of Keys (Cubic convolution interpolation, 1981) with a = -0.75, at a distance.
double cubic(double distance) {
  constexpr double kA = -0.75;
  const double d = std::fabs(distance);
  if (d <= 1) return ((kA + 2) * d - (kA + 3)) * d * d + 1;
  if (d < 2) return ((kA * d - 5 * kA) * d + 8 * kA) * d - 4 * kA;
  return 0;
}

// What place i of `out` places takes of `in` ones.
std::vector<Tap> taps_of(ResizeMode mode, bool corners, int64_t in, int64_t out, int64_t i) {
  if (mode == ResizeMode::kNearest) return {{static_cast<int64_t>(Wide{i} * in / out), 1.0}};
  double at = 0;
  if (!corners) {
    at = (static_cast<double>(i) + 0.5) * static_cast<double>(in) / static_cast<double>(out) - 0.5;
  } else if (out > 1) {
    at = static_cast<double>(i) * static_cast<double>(in - 1) / static_cast<double>(out - 1);
  }
  const double below = std::floor(at);
  const int first = mode == ResizeMode::kLinear ? 0 : -1, last = mode == ResizeMode::kLinear ? 1 : 2;
  std::vector<Tap> taps;
  for (int k = first; k <= last; ++k) {
    const double distance = at - below - k;
    const double weight = mode == ResizeMode::kLinear ? 1 - std::fabs(distance) : cubic(distance);
    taps.push_back({std::clamp(static_cast<int64_t>(below) + k, int64_t{0}, in - 1), weight});
  }
  return taps;
}

struct Resampling {
  ResizeMode mode;
  bool corners;
  Extents fine, coarse;  // shapes of the result of `resize`, and of its operand
  size_t first;          // axis

  // function(place in fine, place in coarse, weight), for all of them.
  template <class Function>
  void for_each(Function function) const {
    if (count_of(fine) == 0) return;
    std::vector<std::vector<std::vector<Tap>>> taps(fine.size());
    for (size_t axis = 0; axis < fine.size(); ++axis) {
      for (int64_t i = 0; i < fine[axis]; ++i) {
        taps[axis].push_back(axis < first ? std::vector<Tap>{{i, 1.0}}
                                          : taps_of(mode, corners, coarse[axis], fine[axis], i));
      }
    }
    Extents index(fine.size(), 0);
    int64_t at = 0;
    do {
      Extents counts;
      for (size_t axis = 0; axis < fine.size(); ++axis) {
        counts.push_back(static_cast<int64_t>(taps[axis][static_cast<size_t>(index[axis])].size()));
      }
      Extents chosen(fine.size(), 0);
      do {
        int64_t place = 0;
        double weight = 1;
        for (size_t axis = 0; axis < fine.size(); ++axis) {
          const Tap& tap = taps[axis][static_cast<size_t>(index[axis])][static_cast<size_t>(chosen[axis])];
          place = place * coarse[axis] + tap.place;
          weight *= tap.weight;
        }
        function(static_cast<size_t>(at), static_cast<size_t>(place), weight);
      } while (next_index(chosen, counts));
      ++at;
    } while (next_index(index, fine));
  }
};

// Elements by number alone: no arithmetic, so that their bits stay.
void pick_nearest(Step& step, const Resampling& resampling) {
  const std::vector<uint64_t> bits = all_bits(step.operand(0));
  Array& out = step.make();
  std::vector<uint64_t> picked(static_cast<size_t>(out.count()));
  resampling.for_each([&](size_t fine, size_t coarse, double) { picked[fine] = bits[coarse]; });
  store_all(out, picked);
}

}  // namespace

Result<void> run_resize(Step& step) {
  const bool spread = step.node.op == TensorOp::kResizeSpread;
  const Extents &in = step.operand(0).shape, out_shape = step.shape();
  const Resampling resampling{enum_attr<ResizeMode>(step.attrs(), 1), flag_attr(step.attrs(), 2),
                              spread ? in : out_shape, spread ? out_shape : in,
                              in.size() - shape_attr(step.attrs(), 0).size()};
  if (count_of(resampling.coarse) == 0 && count_of(resampling.fine) > 0) {
    return step.fail("no elements to take " + text(resampling.fine) + " from: " + text(resampling.coarse));
  }
  if (!spread && resampling.mode == ResizeMode::kNearest) {
    pick_nearest(step, resampling);
    return {};
  }
  const std::vector<double> given = numbers_as<double>(step.operand(0));
  Array& out = step.make();
  std::vector<double> sums(static_cast<size_t>(out.count()));
  resampling.for_each([&](size_t fine, size_t coarse, double weight) {
    spread ? sums[coarse] += weight * given[fine] : sums[fine] += weight * given[coarse];
  });
  std::vector<uint64_t> bits;
  for (const double sum : sums) bits.push_back(dsl::bits_from_double(out.element, sum));
  store_all(out, bits);
  return {};
}

}  // namespace kiln::graph::evaluator

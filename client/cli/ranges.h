// How the values of a tensor are spread over its samples, and which scale integers of eight bits have for them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace kiln::cli {

// kMinMax keeps all values. kPercentile lets so many percent of them be in range. kEntropy takes the range whose
// quantised values are spread most like the values are: the least Kullback-Leibler divergence, as S. Migacz's "8-bit
// Inference with TensorRT" (2017) chooses it.
enum class RangeMethod : uint8_t { kMinMax, kPercentile, kEntropy };
std::optional<RangeMethod> parse_range_method(std::string_view name);

enum class Quantised : uint8_t { kI8, kU8 };

// q = round(x / scale) + zero, saturating.
struct Quantiser {
  Quantised type = Quantised::kI8;
  float scale = 1;
  int zero = 0;
  double back(double x) const;  // what q stands for
  bool saturates(double x) const;
};

// Values of one tensor, or of one channel of it. First all are seen for their ends, then all for the histogram.
class Spread {
 public:
  explicit Spread(int bins) : bins_(static_cast<size_t>(bins) * 2) {}

  void see(double x);    // finite
  void count(double x);  // after all are seen

  double low() const { return low_; }
  double high() const { return high_; }

  // i8 is symmetric, without a zero point. u8 has 0 in range, which stands for itself. Of no values, or zeros alone:
  // a scale of 1.
  Quantiser quantiser(Quantised type, RangeMethod method, double percent) const;

 private:
  double top() const;
  std::vector<uint64_t> of_magnitudes() const;
  double entropy_top(int levels) const;
  double percentile_top(double percent) const;
  // The value that so many percent of all are below.
  double percentile(double percent) const;

  double low_ = 0, high_ = 0;
  uint64_t seen_ = 0, counted_ = 0;
  std::vector<uint64_t> bins_;  // of [-top, top]
};

}  // namespace kiln::cli

// What noisy times say: medians with intervals, and which of two candidates is faster.
#pragma once

#include <span>
#include <vector>

namespace kiln::autotune {

// A median and an interval that holds the true one with 99 % confidence, whatever the times' distribution.
struct MedianInterval {
  double median = 0, low = 0, high = 0;
  int samples = 0;
};
// Between two order statistics (David and Nagaraja, Order Statistics, 7.1): the number of samples below the true median
// is binomial. Fewer than 8 samples cannot say as much: their interval is from the least to the greatest. NaNs do not
// count.
MedianInterval median_interval(std::vector<double> samples);

double median(std::vector<double> samples);

enum class Verdict : char { kOpen, kFaster, kSlower };

// A race of a challenger against a champion, over rounds in which both were launched once, in turn. It may be looked at
// after every round: the chance that it ever calls a challenger slower (or faster) that is not is at most 1 %.
//
// The evidence is the sign test's, as a bet: each round the challenger wins or loses; were it as fast as the champion,
// wins would be tosses of a fair coin. The likelihood of what was seen under unknown odds in the challenger's favour
// (or against it), averaged over all such odds, divided by that of a fair coin, exceeds 100 at any time with a
// probability of at most 1/100 (Ville's inequality; Robbins 1970, "Statistical methods related to the law of the
// iterated logarithm"). Outliers and drift cost a round at most, since only signs count.
//
// One short cut, for what is far slower (or faster): three rounds, all at twice the champion's time (or half). A
// candidate that is no slower would have to be disturbed so in every one of them; where at most one launch in five is,
// that is below 1 %.
class PairedRace {
 public:
  void add(double champion_us, double challenger_us);
  Verdict verdict() const;
  int rounds() const { return static_cast<int>(ratios_.size()); }
  // The median of challenger by champion; 1 before the first round.
  double ratio() const;
  MedianInterval ratio_interval() const { return median_interval(ratios_); }

 private:
  int faster_ = 0, slower_ = 0;
  std::vector<double> ratios_;
};

// The evidence, as above, of `hits` hits in `tosses` tosses that a hit is the likelier side.
double coin_evidence(int hits, int tosses);

}  // namespace kiln::autotune

// A race: candidates are launched in turn, round by round, and leave when they are slower with 99 % confidence.
#pragma once

#include <functional>
#include <vector>

#include "kiln/autotune/runner.h"
#include "search/statistics.h"

namespace kiln::autotune {

// One candidate of a race.
struct Lane {
  CandidateId id = 0;
  double possible_us = 0;       // times below this are errors of measurement, and do not count
  double expected_us = 0;       // by the model, to know how many rounds a deadline has room for
  std::vector<double> us = {};  // by round; NaN where it was not launched
  CandidateStatus status = {};
  bool active = true;  // has neither left nor failed

  bool ok() const { return status.failure == Failure::kNone; }
};

struct RaceOptions {
  int rounds = 15;                    // at most
  bool halve = false;                 // the slower half leaves whenever the standing is looked at
  Seconds least = Seconds(0);         // goes on so long, decided or not, and only what is far slower leaves before
  Seconds deadline = Seconds(10);     // of one launch; and twice that of the whole
  Seconds left = Seconds::max();      // of the caller's budget as the race begins: a look has no more rounds than fit
  std::function<bool()> linger = {};  // goes on, decided or not, while this says so after a look
  std::function<bool()> stop = {};    // ends the race as it stands
  std::function<Result<void>(const std::vector<Lane>&)> looked = {};  // told of the standing after every look
};

// Ends when one lane is left, when those left differ by less than 1 %, or when rounds or time are over.
Result<void> race(Runner& runner, std::vector<Lane>& lanes, const RaceOptions& options);

// The active lane of the lowest median; none where all failed.
const Lane* leader(const std::vector<Lane>& lanes);

// What the rounds that both ran say of a challenger.
PairedRace compare(const Lane& champion, const Lane& challenger);

}  // namespace kiln::autotune

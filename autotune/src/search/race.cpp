#include "search/race.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace kiln::autotune {
namespace {

constexpr int kRoundsALook = 3;
constexpr Seconds kLookTime(0.1);  // of looks at a race that has a time to last
constexpr int kMostRoundsALook = 500;
constexpr double kFarSlower = 1.5;    // leaves at once
constexpr int kRoundsToDecide = 9;    // the fewest in which the sign test can
constexpr double kEqualWidth = 0.01;  // of the interval of a ratio of times: closer than this is equal

double expected(const Lane& lane) {
  const double seen = median(lane.us);
  return std::isfinite(seen) ? seen : lane.expected_us;
}

// Few at first, so that what is far slower is not launched often.
int rounds_a_look(const std::vector<Lane*>& active, const RaceOptions& options, int done, Seconds spent) {
  double round_us = 1;
  for (const Lane* lane : active) round_us += expected(*lane);
  const double room = options.deadline.count() * 1e6 * static_cast<double>(active.size()) / 4 / round_us;
  double wish = kRoundsALook;
  if (options.least > Seconds(0) && done >= kRoundsToDecide) {
    const Seconds time = std::min(kLookTime, std::max(options.least - spent, kLookTime / 5));
    wish = std::clamp<double>(time / spent * done, kRoundsALook, kMostRoundsALook);
  } else if (options.rounds > done) {
    wish = std::min(kRoundsALook, options.rounds - done);
  }
  const double left = (options.left - spent).count() * 1e6 / round_us;
  return std::max(1, static_cast<int>(std::min({room, left, wish})));
}

void fail(Lane& lane, CandidateStatus status) {
  lane.status = std::move(status);
  lane.active = false;
}

// Adds a round's times; those that cannot be true are dropped, and so is a lane that has no others.
void add_rounds(const Runner::Measured& measured, const std::vector<Lane*>& active, std::vector<Lane>& lanes) {
  const size_t before = lanes.empty() ? 0 : lanes.front().us.size();
  for (Lane& lane : lanes) lane.us.resize(before + measured.rounds.size(), std::nan(""));
  for (size_t i = 0; i < active.size(); ++i) {
    Lane& lane = *active[i];
    size_t impossible = 0, times = 0;
    for (size_t r = 0; r < measured.rounds.size(); ++r) {
      const double us = i < measured.rounds[r].us.size() ? measured.rounds[r].us[i] : std::nan("");
      if (!std::isfinite(us)) continue;
      ++times;
      if (us <= 0 || us < lane.possible_us)
        ++impossible;
      else
        lane.us[before + r] = us;
    }
    if (i < measured.status.size() && measured.status[i].failure != Failure::kNone) {
      fail(lane, measured.status[i]);
    } else if (times == 0) {
      fail(lane, {Failure::kCrash, "the runner gave no times"});
    } else if (impossible == times) {
      fail(lane, {Failure::kImpossibleTime, "every launch took less than the " + std::to_string(lane.possible_us) +
                                                " us that this machine needs for the work"});
    }
  }
}

// Lanes that leave at this look, early only those that are far slower. Returns whether the race is open.
bool leave(std::vector<Lane>& lanes, bool halve, bool early) {
  const Lane* first = leader(lanes);
  if (!first) return false;
  bool open = false;
  std::vector<Lane*> standing;
  for (Lane& lane : lanes) {
    if (!lane.active || &lane == first) continue;
    const PairedRace pair = compare(*first, lane);
    if (pair.verdict() == Verdict::kSlower && (!early || pair.ratio() >= kFarSlower)) {
      lane.active = false;
      continue;
    }
    standing.push_back(&lane);
    const MedianInterval ratio = pair.ratio_interval();
    open |= pair.rounds() < kRoundsToDecide || ratio.high - ratio.low > kEqualWidth;
  }
  if (!halve || standing.size() < 2) return open;
  std::sort(standing.begin(), standing.end(),
            [](const Lane* a, const Lane* b) { return median(a->us) < median(b->us); });
  for (size_t i = standing.size() / 2; i < standing.size(); ++i) standing[i]->active = false;
  return open;
}

}  // namespace

const Lane* leader(const std::vector<Lane>& lanes) {
  const Lane* best = nullptr;
  double best_us = INFINITY;
  for (const Lane& lane : lanes) {
    const double us = lane.active && lane.ok() ? median(lane.us) : INFINITY;
    if (!(us < best_us)) continue;
    best = &lane;
    best_us = us;
  }
  return best;
}

PairedRace compare(const Lane& champion, const Lane& challenger) {
  PairedRace out;
  for (size_t i = 0; i < std::min(champion.us.size(), challenger.us.size()); ++i) {
    out.add(champion.us[i], challenger.us[i]);
  }
  return out;
}

Result<void> race(Runner& runner, std::vector<Lane>& lanes, const RaceOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&] { return Seconds(std::chrono::steady_clock::now() - start); };
  const auto lingers = [&] { return options.linger && options.linger(); };
  bool open = true;
  auto goes_on = [&](int done) {
    return (open && done < options.rounds) || (done > 0 && spent() < options.least) || lingers();
  };
  for (int done = 0; goes_on(done);) {
    if (options.stop && options.stop()) break;
    if (done > 0 && spent() > 2 * options.deadline) break;
    std::vector<Lane*> active;
    std::vector<CandidateId> ids;
    for (Lane& lane : lanes) {
      if (!lane.active) continue;
      active.push_back(&lane);
      ids.push_back(lane.id);
    }
    // One that is left has nothing to be compared with.
    if (active.empty() || (lanes.size() > 1 && active.size() < 2 && !lingers())) break;
    const int rounds = rounds_a_look(active, options, done, spent());
    auto measured = runner.measure(ids, rounds, options.deadline);
    if (!measured) return measured.error();
    done += rounds;
    add_rounds(*measured, active, lanes);
    open = leave(lanes, options.halve, spent() < options.least);
    if (lanes.size() == 1) open = done < kRoundsToDecide && lanes.front().active;
    if (!options.looked) continue;
    if (auto fine = options.looked(lanes); !fine) return fine;
  }
  return {};
}

}  // namespace kiln::autotune

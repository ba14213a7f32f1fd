// What a fleet's jobs and their outcomes look like on their way: JSON texts.
#pragma once

#include <string>

#include "kiln/autotune/batch.h"

namespace kiln::autotune {

// One job with the options it is tuned by; its part of the budget is in `options.budget`.
struct FleetOrder {
  JobSpec job;
  BatchOptions options;
};
std::string to_text(const FleetOrder& order);
// Any bytes are survived; the kernel is verified.
Result<FleetOrder> parse_order(const std::string& text);

// Of a job that is done or has failed; its records travel beside it.
std::string to_text(const JobOutcome& outcome, bool out_of_budget, const std::string& worker);
std::string outcome_of_dead_job(int deliveries, const std::string& workers);

struct FleetOutcome {
  JobOutcome job;  // candidates have their configs, and no records yet
  bool out_of_budget = false;
  std::string worker;
};
Result<FleetOutcome> parse_outcome(const std::string& text);

// Names the measurements of a key among those of its kernel and hardware; no character of it is special to Redis.
std::string scope_tag(const RecordKey& key);

}  // namespace kiln::autotune

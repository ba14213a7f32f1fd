// A search that its budget ended, as the records remember it. Nobody waits for the same budget twice: who asks again
// gets what was best then, at once; who grants a larger one gets the rest of it.
#pragma once

#include <optional>

#include "kiln/autotune/records.h"

namespace kiln::autotune {

struct SpentBudget {
  Seconds time{};
  Config best;
};

// Kept with the default's measurement, and gone with it.
Result<std::optional<SpentBudget>> spent_budget(Records& records, const RecordKey& key);
// Nothing is kept where the default was not measured.
Result<void> keep_spent_budget(Records& records, const RecordKey& key, const SpentBudget& spent);

}  // namespace kiln::autotune

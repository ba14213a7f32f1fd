// The configs of a job, with all that is known of each.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "kiln/autotune/tune.h"

namespace kiln::autotune {

struct Entry {
  Config config;
  Work work;
  double predicted_us = 0;
  std::string pruned = {};   // why it is not tried; empty: it may be
  bool passed_over = false;  // by a finished search, which knew it
  bool proposed = false;     // by this search
  bool fresh = false;        // measured in this run
  bool loaded = false;
  std::optional<Record> record = {};  // of this run or a former one
  std::optional<Artifact> artifact = {};

  bool measured() const { return record && record->failure == Failure::kNone; }
  bool open() const { return !record && !proposed && !passed_over && pruned.empty(); }
};

// The work of a job's configs, each counted once: those that differ in nothing that matters share it.
class CountedWork {
 public:
  explicit CountedWork(const Job& job) : job_(job) {}
  Result<Work> of(const Config& config);

 private:
  const Job& job_;
  std::map<Config, Work> counted_;
};

// Why a config that nobody has compiled cannot run well: what it holds does not fit. Empty where it may.
std::string reason_against(const Machine& machine, const Work& work, const Config& config);

// The valid configs, the default first, with the model's predictions. An exhaustive search leaves out only what cannot
// run.
Result<std::vector<Entry>> list_entries(const Job& job, const Space& space, const Machine& machine, Search search);
Result<void> add_records(const RecordKey& key, Records& records, std::vector<Entry>& entries);
// The valid config that a shipped choice means, if the space has it. A constexpr that is newer than the choice has its
// default, and a schedule option its least value.
std::optional<Config> config_of_choice(const Config& choice, const Space& space, const std::vector<Entry>& entries);
// The finished search that chose `best` decided about every config on the axes that it knew.
void pass_over(const Record& best, const Space& space, std::vector<Entry>& entries);

// The axes of a space as a finished search leaves them in the figures of its best record, so that a later one knows
// which configs are new.
nlohmann::json axes_to_json(const Space& space, const nlohmann::json& before);

// The median, the figures and the name of a measurement.
Record make_record(const Job& job, const RecordKey& key, const Entry& entry);

// Where the search stands: candidates by median, what is best, how well the model ranks.
JobResult make_result(const Job& job, const RecordKey& key, const std::vector<Entry>& entries);

}  // namespace kiln::autotune

// What was measured, for good: one SQLite file, one row a measurement. docs/use/tuning.md describes the table and the
// JSON lines of export and import.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "kiln/autotune/runner.h"

namespace kiln::autotune {

// What a measurement holds for.
struct RecordKey {
  std::string kernel;    // dsl hash of the canonical kernel, with the workload's fixed constexprs
  std::string bucket;    // bucket_text
  std::string target;    // resolved
  std::string hardware;  // RunnerInfo::fingerprint
  std::string builder;   // Compiler::builder_id
  auto operator<=>(const RecordKey&) const = default;
};

struct Record {
  RecordKey key;
  Config config;
  std::string kernel_name;  // for people
  Failure failure = Failure::kNone;
  std::string message;
  double median_us = 0, low_us = 0, high_us = 0;  // median and its 99 % confidence interval
  int samples = 0;
  bool is_default = false, is_best = false;  // of its key, as a finished search decided
  bool golden = false;                       // of a golden file; not kept
  double predicted_us = 0;                   // by the cost model
  nlohmann::json figures = {};               // registers, spill_bytes, shared_bytes, flops, bytes, …
  int64_t created_ms = 0;                    // Unix time
};

// Fewer samples give no interval of 99 %: theirs is from the least to the greatest (statistics.h).
inline constexpr int kSamplesOfInterval = 8;
// Whether the interval of `a` lies below that of `b`; false where one has too few samples, or failed.
bool is_certainly_faster(const Record& a, const Record& b);

// Safe for many processes at once; one object for one thread. Errors say what the file's state is; a damaged file is
// moved aside, never deleted.
class Records {
 public:
  // $XDG_DATA_HOME/kiln/tune.sqlite, ~/.local/share/kiln/tune.sqlite; or KILN_TUNE_DB.
  static std::string default_path();
  static Result<std::unique_ptr<Records>> open(const std::string& path);
  // A golden file (JSON lines) that is only read, and wins over the database. Its choices hold for a target whatever
  // hardware and builder they were made on; those of the same come first.
  static Result<std::unique_ptr<Records>> open_golden(const std::string& path);
  // Both as one: what the golden file says, else the database, which takes all that is written.
  static std::unique_ptr<Records> with_golden(std::unique_ptr<Records> golden, std::unique_ptr<Records> database);
  virtual ~Records() = default;

  // What people should be told: that a damaged file was moved aside, that an imported file's last line was cut off.
  virtual std::vector<std::string> notes() const { return {}; }

  // Durable when it returns. A second record of the same key and config replaces the first.
  virtual Result<void> put(const Record& record) = 0;
  virtual Result<std::vector<Record>> all(const RecordKey& key) = 0;
  // The config that a finished search or a golden file chose.
  virtual Result<std::optional<Record>> best(const RecordKey& key) = 0;
  virtual Result<void> set_best(const RecordKey& key, const Config& config) = 0;
  // Chosen configs of a kernel on a target and hardware, of any bucket: where transfer begins.
  virtual Result<std::vector<Record>> neighbours(const RecordKey& key) = 0;

  // Of two records of one key and config the one with more samples stays, and of two choices the faster. Returns how
  // many were taken; all of them or none where it fails.
  virtual Result<size_t> merge(const std::vector<Record>& records) = 0;
  // JSON lines. Import merges, and returns how many were taken.
  virtual Result<size_t> export_lines(const std::string& path) = 0;
  virtual Result<size_t> import_lines(const std::string& path) = 0;

  // The machine that `hardware` names, as calibrated by a builder, an empty one: by any; null where it was not.
  virtual Result<nlohmann::json> machine(const std::string& hardware, const std::string& builder) = 0;
  virtual Result<void> put_machine(const std::string& hardware, const std::string& builder,
                                   const nlohmann::json& machine) = 0;
};

}  // namespace kiln::autotune

// A worker's records with those of the fleet behind them.
#pragma once

#include <functional>
#include <set>

#include "kiln/autotune/records.h"

namespace kiln::autotune {

// What others have measured of a key is merged into the worker's own records when the key is first asked for; what is
// measured here is published. A job is tuned by itself: other shapes do not say where its search begins, so that it
// goes the same way whatever this worker did before.
class FleetRecords final : public Records {
 public:
  using Fetch = std::function<std::vector<Record>(const RecordKey&)>;
  using Publish = std::function<void(const Record&)>;

  // Borrows the records.
  FleetRecords(Records& own, Fetch fetch, Publish publish)
      : own_(own), fetch_(std::move(fetch)), publish_(std::move(publish)) {}

  std::vector<std::string> notes() const override { return own_.notes(); }
  Result<std::vector<Record>> all(const RecordKey& key) override {
    if (fetched_.insert(key).second) {
      if (auto merged = own_.merge(fetch_(key)); !merged) return merged.error();
    }
    return own_.all(key);
  }
  Result<std::optional<Record>> best(const RecordKey& key) override { return own_.best(key); }
  Result<std::vector<Record>> neighbours(const RecordKey&) override { return std::vector<Record>(); }
  Result<nlohmann::json> machine(const std::string& hardware, const std::string& builder) override {
    return own_.machine(hardware, builder);
  }

  Result<void> put(const Record& record) override {
    if (auto done = own_.put(record); !done) return done;
    publish_(record);
    return {};
  }
  Result<void> set_best(const RecordKey& key, const Config& config) override { return own_.set_best(key, config); }
  Result<void> put_machine(const std::string& hardware, const std::string& builder,
                           const nlohmann::json& machine) override {
    return own_.put_machine(hardware, builder, machine);
  }
  Result<size_t> merge(const std::vector<Record>& records) override { return own_.merge(records); }
  Result<size_t> export_lines(const std::string& path) override { return own_.export_lines(path); }
  Result<size_t> import_lines(const std::string& path) override { return own_.import_lines(path); }

 private:
  Records& own_;
  const Fetch fetch_;
  const Publish publish_;
  std::set<RecordKey> fetched_;
};

}  // namespace kiln::autotune

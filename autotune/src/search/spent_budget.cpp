#include "search/spent_budget.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;

constexpr const char* kSpent = "spent";  // in the figures of the default's record: {"ms": 30000, "best": {"BM": 64}}

Result<std::optional<Record>> default_record(Records& records, const RecordKey& key) {
  auto all = records.all(key);
  if (!all) return all.error();
  for (Record& record : *all) {
    if (record.is_default && record.failure == Failure::kNone) return std::optional(std::move(record));
  }
  return std::optional<Record>();
}

std::optional<SpentBudget> from_json(const json& value) {
  const json ms = value.is_object() ? value.value("ms", json()) : json();
  const json best = value.is_object() ? value.value("best", json()) : json();
  if (!ms.is_number() || !best.is_object()) return std::nullopt;
  SpentBudget out{Seconds(ms.get<double>() / 1e3), {}};
  for (const auto& [name, number] : best.items()) {
    if (!number.is_number_integer()) return std::nullopt;
    out.best[name] = number.get<int64_t>();
  }
  return out;
}

}  // namespace

Result<std::optional<SpentBudget>> spent_budget(Records& records, const RecordKey& key) {
  auto record = default_record(records, key);
  if (!record) return record.error();
  return *record ? from_json((*record)->figures.value(kSpent, json())) : std::nullopt;
}

Result<void> keep_spent_budget(Records& records, const RecordKey& key, const SpentBudget& spent) {
  auto record = default_record(records, key);
  if (!record || !*record) return record ? Result<void>() : record.error();
  (*record)->figures[kSpent] = {{"ms", spent.time.count() * 1e3}, {"best", spent.best}};
  return records.put(**record);
}

}  // namespace kiln::autotune

#include "search/tune_entries.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/canonical.h"
#include "kiln/dsl/config.h"

namespace kiln::autotune {
namespace {

constexpr const char* kAxes = "axes";          // of the best record's figures
constexpr double kFarPredicted = 8;            // times the best prediction: not worth a measurement
constexpr double kRegisterBytes = 4 * 255;     // that a thread can have
constexpr double kTileBytesOfGpu = 640 << 10;  // more than registers and shared memory of a multiprocessor

void prune(const Machine& machine, bool by_prediction, std::vector<Entry>& entries) {
  double best = INFINITY;
  for (const Entry& entry : entries) best = std::min(best, entry.predicted_us);
  // The default, which comes first, is always a candidate.
  for (size_t i = 1; i < entries.size(); ++i) {
    Entry& entry = entries[i];
    entry.pruned = reason_against(machine, entry.work, entry.config);
    if (entry.pruned.empty() && by_prediction && entry.predicted_us > kFarPredicted * best) {
      entry.pruned = "the model expects " + std::to_string(entry.predicted_us) + " us, far above the best's " +
                     std::to_string(best);
    }
  }
}

// Whether every value of the config stands on the axes.
bool on_axes(const nlohmann::json& axes, const Space& space, const Config& config) {
  if (!axes.is_object()) return false;
  return std::all_of(space.axes.begin(), space.axes.end(), [&](const dsl::SpaceAxis& axis) {
    const auto chosen = config.find(axis.name);
    if (chosen == config.end()) return true;
    const auto values = axes.find(axis.name);
    return values != axes.end() && values->is_array() &&
           std::find(values->begin(), values->end(), nlohmann::json(chosen->second)) != values->end();
  });
}

int64_t now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

// What reports say of a kernel's use of a GPU.
void add_figures(const abi::Device& device, nlohmann::json& figures) {
  const std::pair<const char*, std::optional<int64_t>> known[] = {
      {"registers", device.registers}, {"spill_bytes", device.spill_bytes}, {"shared_bytes", device.shared_bytes},
      {"lds_bytes", device.lds_bytes}, {"threads", device.threads},         {"waves_per_simd", device.waves_per_simd}};
  for (const auto& [name, number] : known) {
    if (number) figures[name] = *number;
  }
}

}  // namespace

Result<RecordKey> record_key(const Job& job, const std::string& hardware, const std::string& builder,
                             const TuneOptions& options) {
  // Configs name constexprs, so that names are a part of what a record holds for; the tuner's own have any value.
  std::string names;
  dsl::ConstexprValues values = job.workload.fixed;
  for (const dsl::Constexpr& item : job.kernel.constexprs) {
    names += item.name + ",";
    values.emplace(item.name, 1);
  }
  dsl::Kernel kernel = dsl::canonicalise(job.kernel);
  kernel.options.lines = false;  // its code is the same
  auto request = dsl::encode_request({std::move(kernel), "", values, {}});
  if (!request) return request.error();
  std::string bucket = bucket_text(job.kernel, job.workload, options.bucket);
  if (options.cache == Cache::kHot) bucket += ";hot";
  return RecordKey{to_hex(request_key(names, request->canonical)), bucket, job.target, hardware, builder};
}

Result<Work> CountedWork::of(const Config& config) {
  // What matters: constexprs, and how loops of products are dealt out.
  Config counts = config;
  std::erase_if(counts, [](const auto& item) {
    return dsl::is_schedule_option(item.first) && item.first != dsl::kSplitK && item.first != dsl::kStreamK;
  });
  const auto found = counted_.find(counts);
  if (found != counted_.end()) return found->second;
  auto work = count_work(job_.kernel, counts, job_.workload);
  if (work) counted_.emplace(std::move(counts), *work);
  return work;
}

std::string reason_against(const Machine& machine, const Work& work, const Config& config) {
  if (dsl::target_family(machine.target) == "cpu") return "";
  if (work.tile_bytes > kTileBytesOfGpu) {
    return "its tiles of " + std::to_string(static_cast<int64_t>(work.tile_bytes)) +
           " bytes do not fit on a multiprocessor";
  }
  if (registers_fit(machine, work, config) == Fit::kSpills) return "its tiles do not fit in registers";
  if (const double each = register_bytes_a_thread(machine, work, config); each > kRegisterBytes) {
    return "a tile of " + std::to_string(static_cast<int64_t>(each)) + " bytes a thread does not fit in registers";
  }
  return "";
}

Result<std::vector<Entry>> list_entries(const Job& job, const Space& space, const Machine& machine, Search search) {
  auto configs = enumerate(job.kernel, job.target, space, job.workload);
  if (!configs) return configs.error();
  CountedWork counted(job);
  std::vector<Entry> out;
  for (Config& config : *configs) {
    auto work = counted.of(config);
    if (!work) return work.error();
    const double predicted = predict_us(machine, *work, config);
    out.push_back({.config = std::move(config), .work = *work, .predicted_us = predicted});
  }
  prune(machine, search != Search::kExhaustive, out);
  return out;
}

Result<void> add_records(const RecordKey& key, Records& records, std::vector<Entry>& entries) {
  auto all = records.all(key);
  if (!all) return all.error();
  std::map<Config, Record> by_config;
  for (Record& record : *all) by_config.emplace(record.config, record);
  for (Entry& entry : entries) {
    if (auto found = by_config.find(entry.config); found != by_config.end()) entry.record = found->second;
  }
  return {};
}

std::optional<Config> config_of_choice(const Config& choice, const Space& space, const std::vector<Entry>& entries) {
  const Config& fallback = entries.front().config;
  auto is_newer = [&](const Config::value_type& item) {
    if (const auto known = fallback.find(item.first); known != fallback.end()) return item.second == known->second;
    return std::any_of(space.axes.begin(), space.axes.end(), [&](const dsl::SpaceAxis& axis) {
      return axis.name == item.first && axis.values.front() == item.second;
    });
  };
  auto agrees = [&](const Entry& entry) {
    const auto has = [&](const Config::value_type& item) {
      const auto found = entry.config.find(item.first);
      return found != entry.config.end() && found->second == item.second;
    };
    return std::all_of(choice.begin(), choice.end(), has) &&
           std::all_of(entry.config.begin(), entry.config.end(),
                       [&](const Config::value_type& item) { return choice.contains(item.first) || is_newer(item); });
  };
  const auto found = std::find_if(entries.begin(), entries.end(), agrees);
  return found == entries.end() ? std::nullopt : std::optional(found->config);
}

void pass_over(const Record& best, const Space& space, std::vector<Entry>& entries) {
  if (!best.figures.contains(kAxes)) return;
  for (Entry& entry : entries) entry.passed_over = !entry.record && on_axes(best.figures[kAxes], space, entry.config);
}

nlohmann::json axes_to_json(const Space& space, const nlohmann::json& before) {
  nlohmann::json out = before.contains(kAxes) ? before[kAxes] : nlohmann::json::object();
  for (const dsl::SpaceAxis& axis : space.axes) {
    nlohmann::json& values = out[axis.name];
    if (!values.is_array()) values = nlohmann::json::array();
    for (int64_t value : axis.values) {
      if (std::find(values.begin(), values.end(), nlohmann::json(value)) == values.end()) values.push_back(value);
    }
  }
  return {{kAxes, out}};
}

Record make_record(const Job& job, const RecordKey& key, const Entry& entry) {
  Record out;
  out.key = key;
  out.config = entry.config;
  out.kernel_name = job.kernel.name;
  out.predicted_us = entry.predicted_us;
  out.figures = {{"flops", entry.work.dot_flops + entry.work.flops + entry.work.math},
                 {"bytes", entry.work.compulsory}};
  if (entry.artifact && entry.artifact->metadata.device) add_figures(*entry.artifact->metadata.device, out.figures);
  if (entry.record && entry.record->figures.contains(kAxes)) out.figures[kAxes] = entry.record->figures[kAxes];
  if (entry.record) out.is_best = entry.record->is_best;
  out.created_ms = now_ms();
  return out;
}

JobResult make_result(const Job& job, const RecordKey& key, const std::vector<Entry>& entries) {
  JobResult out;
  out.name = job.name;
  out.key = key;
  out.space = entries.size();
  out.fallback = out.best = entries.front().config;
  std::vector<double> predicted, measured;
  for (const Entry& entry : entries) {
    if (!entry.pruned.empty() && !entry.record) ++out.pruned;
    if (!entry.record) continue;
    out.candidates.push_back({entry.config, *entry.record, entry.fresh});
    ++(entry.fresh ? out.measured : out.reused);
    if (!entry.measured()) ++out.failed;
    if (!entry.measured()) continue;
    predicted.push_back(entry.record->predicted_us);
    measured.push_back(entry.record->median_us);
  }
  out.correlation = rank_correlation(predicted, measured);
  if (entries.front().measured()) out.best_us = out.default_us = entries.front().record->median_us;
  std::stable_sort(out.candidates.begin(), out.candidates.end(), [](const Candidate& a, const Candidate& b) {
    const bool a_fails = a.record.failure != Failure::kNone, b_fails = b.record.failure != Failure::kNone;
    return a_fails != b_fails ? b_fails : !a_fails && a.record.median_us < b.record.median_us;
  });
  return out;
}

}  // namespace kiln::autotune

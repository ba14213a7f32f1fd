#include "kiln/autotune/shipped.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>

#include "kiln/wire/paths.h"
#include "report/text_files.h"

namespace kiln::autotune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr double kNear = 1;  // powers of two between shapes
// What a line has beside a job's fields.
constexpr const char* kConfig = "config";
constexpr const char* kMeasuredOn = "measured_on";
constexpr const char* kPredictedFor = "predicted_for";
constexpr const char* kUs = "us";
constexpr const char* kDefaultUs = "default_us";

Result<Config> config_of(const json& line) {
  const auto found = line.find(kConfig);
  if (found == line.end() || !found->is_object()) return invalid_argument("`config`: must be an object: {\"BM\": 64}");
  Config out;
  for (const auto& [name, value] : found->items()) {
    if (!value.is_number_integer()) return invalid_argument("`config`: `" + name + "` must be an integer");
    out.emplace(name, value.get<int64_t>());
  }
  return out;
}

Result<ShippedChoice> choice_of(const json& line) {
  auto config = config_of(line);
  if (!config) return config.error();
  ShippedChoice out;
  out.config = std::move(*config);
  out.predicted = line.contains(kPredictedFor);
  if (out.predicted == line.contains(kMeasuredOn)) {
    return invalid_argument("either `measured_on` or `predicted_for` says which device it is for");
  }
  const json& device = line[out.predicted ? kPredictedFor : kMeasuredOn];
  if (!device.is_string()) return invalid_argument("a device's name must be a text");
  out.device = device.get<std::string>();
  for (const auto& [field, value] : {std::pair(kUs, &out.us), std::pair(kDefaultUs, &out.default_us)}) {
    if (!line.contains(field)) continue;
    if (!line[field].is_number()) return invalid_argument("`" + std::string(field) + "`: must be a number");
    *value = line[field].get<double>();
  }
  return out;
}

// The job of a line, without what a choice has beside it.
Result<JobSpec> spec_of(json line, const std::string& directory) {
  for (const char* field : {kConfig, kMeasuredOn, kPredictedFor, kUs, kDefaultUs}) line.erase(field);
  auto jobs = parse_job(line, directory);
  if (!jobs) return jobs.error();
  if (jobs->size() != 1 || jobs->front().target.empty()) {
    return invalid_argument("a choice is for one `shape` and one `target`");
  }
  return std::move(jobs->front());
}

}  // namespace

std::string Shipped::default_directory() {
  if (const char* chosen = ::secure_getenv("KILN_TUNE_SHIPPED")) return chosen;
  return directory_of(wire::self_path()) + "/../share/kiln/tuned";
}

Result<Shipped> Shipped::read(const std::string& directory) {
  std::vector<std::string> files;
  std::error_code failed;
  for (auto entry = fs::directory_iterator(directory, failed); !failed && entry != fs::directory_iterator();
       entry.increment(failed)) {
    if (entry->path().extension() == ".jsonl") files.push_back(entry->path().string());
  }
  if (failed && failed != std::errc::no_such_file_or_directory) {
    return invalid_argument(directory + ": " + failed.message());
  }
  std::sort(files.begin(), files.end());
  Shipped out;
  for (const std::string& file : files) {
    auto text = read_text_file(file);
    if (!text) return text.error();
    auto done = for_each_line(*text, file, [&](const std::string&, const json& line) -> Result<void> {
      auto choice = choice_of(line);
      if (!choice) return choice.error();
      auto spec = spec_of(line, directory_of(file));
      if (!spec) return spec.error();
      auto key = record_key({spec->name, spec->kernel, spec->workload, spec->target, {}}, "", "", {});
      if (!key) return key.error();
      out.choices_[{key->kernel, key->target}].push_back({key->bucket, std::move(*choice)});
      return {};
    });
    if (!done) return done.error();
  }
  return out;
}

std::optional<ShippedChoice> Shipped::find(const RecordKey& key) const {
  const auto found = choices_.find({key.kernel, key.target});
  if (found == choices_.end()) return std::nullopt;
  auto away = [&](const Choice& item) { return bucket_distance(item.bucket, key.bucket); };
  auto is_of_another = [&](const Choice& item) { return key.hardware.find(item.choice.device) == std::string::npos; };
  const auto nearest =
      std::min_element(found->second.begin(), found->second.end(), [&](const Choice& a, const Choice& b) {
        return std::pair(away(a), is_of_another(a)) < std::pair(away(b), is_of_another(b));
      });
  if (away(*nearest) > kNear) return std::nullopt;
  return nearest->choice;
}

std::vector<std::pair<std::string, ShippedChoice>> Shipped::all(const RecordKey& key) const {
  std::vector<std::pair<std::string, ShippedChoice>> out;
  const auto found = choices_.find({key.kernel, key.target});
  if (found == choices_.end()) return out;
  for (const Choice& item : found->second) out.emplace_back(item.bucket, item.choice);
  std::stable_partition(out.begin(), out.end(),
                        [&](const auto& item) { return key.hardware.find(item.second.device) != std::string::npos; });
  return out;
}

std::string shipped_lines(const std::vector<JobSpec>& specs, const BatchResult& result, bool predicted) {
  std::string out;
  for (const JobOutcome& outcome : result.jobs) {
    if (!outcome.result || !outcome.result->finished) continue;
    nlohmann::ordered_json line = specs[outcome.spec].line;
    line["target"] = outcome.target;
    line[kConfig] = outcome.result->best;
    // To a hundredth: more was not measured.
    line[kUs] = std::round(outcome.result->best_us * 100) / 100;
    line[kDefaultUs] = std::round(outcome.result->default_us * 100) / 100;
    line[predicted ? kPredictedFor : kMeasuredOn] = outcome.device;
    out += line.dump() + "\n";
  }
  return out;
}

}  // namespace kiln::autotune

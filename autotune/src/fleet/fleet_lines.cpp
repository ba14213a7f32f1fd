#include "fleet/fleet_lines.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "kiln/autotune/runner_protocol.h"
#include "kiln/dsl/text.h"
#include "kiln/dsl/verify.h"
#include "kiln/redis/sealed.h"
#include "kiln/wire/json.h"
#include "search/option_names.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;

constexpr const char* kDone = "done";
constexpr const char* kFailed = "failed";
// The roofline's names are constants wherever they are shown.
constexpr std::array kBounds = {"memory", "products", "arithmetic", "launch"};

// JSON has neither infinities nor NaN.
json number(double value) { return std::isfinite(value) ? json(value) : json(); }

double real_of(const json& object, const char* name, double fallback = 0) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : fallback;
}

Result<Config> config_of(const json& value, const char* name) {
  Config out;
  if (!value.is_object()) return invalid_argument("`" + std::string(name) + "` must be an object");
  for (const auto& [key, item] : value.items()) {
    if (!item.is_number_integer()) return invalid_argument("`" + std::string(name) + "`: integers are expected");
    out.emplace(key, item.get<int64_t>());
  }
  return out;
}

json axes_json(const std::vector<dsl::SpaceAxis>& axes) {
  json out = json::array();
  for (const dsl::SpaceAxis& axis : axes) out.push_back({{"name", axis.name}, {"values", axis.values}});
  return out;
}

Result<std::vector<dsl::SpaceAxis>> parse_axes(const json& list) {
  std::vector<dsl::SpaceAxis> out;
  if (!list.is_array()) return invalid_argument("`axes` must be a list");
  for (const json& item : list) {
    if (!item.is_object()) return invalid_argument("`axes` must have objects");
    wire::Fields fields(item);
    dsl::SpaceAxis axis{fields.text("name"), {}};
    if (!fields.ok()) return fields.error();
    for (const json& value : item.value("values", json::array())) {
      if (!value.is_number_integer()) return invalid_argument("`axes`: integers are expected");
      axis.values.push_back(value.get<int64_t>());
    }
    out.push_back(std::move(axis));
  }
  return out;
}

json tune_json(const BatchOptions& options) {
  const TuneOptions& tune = options.tune;
  return {{"search", name_of(tune.search, kSearchNames)},
          {"seed", tune.seed},
          {"share", tune.share},
          {"deadline", tune.deadline.count()},
          {"cache", name_of(tune.cache, kCacheNames)},
          {"bucket", name_of(tune.bucket, kBucketNames)},
          {"resume", options.resume},
          {"budget", number(options.budget.count())}};
}

Result<BatchOptions> parse_tune(const json& value) {
  wire::Fields fields(value);
  BatchOptions out;
  auto search = parse_name("`search`", fields.text("search"), kSearchNames);
  if (!search) return search.error();
  auto cache = parse_name("`cache`", fields.text("cache"), kCacheNames);
  if (!cache) return cache.error();
  auto bucket = parse_name("`bucket`", fields.text("bucket"), kBucketNames);
  if (!bucket) return bucket.error();
  out.tune.search = *search;
  out.tune.cache = *cache;
  out.tune.bucket = *bucket;
  out.tune.seed = fields.number("seed");
  out.resume = fields.boolean("resume");
  if (!fields.ok()) return fields.error();
  out.tune.share = std::clamp(real_of(value, "share", out.tune.share), 0.0, 1.0);
  out.tune.deadline = Seconds(std::clamp(real_of(value, "deadline", out.tune.deadline.count()), 0.0, 3600.0));
  out.budget = Seconds(real_of(value, "budget", Seconds::max().count()));
  return out;
}

json key_json(const RecordKey& key) {
  return {{"kernel", key.kernel},
          {"bucket", key.bucket},
          {"target", key.target},
          {"hardware", key.hardware},
          {"builder", key.builder}};
}

json spent_json(const Spent& spent) {
  return {{"compiles", spent.compiles},         {"inputs", spent.inputs},   {"loads", spent.loads},
          {"measurements", spent.measurements}, {"records", spent.records}, {"other", spent.other}};
}

json result_json(const JobResult& result) {
  json candidates = json::array(), convergence = json::array();
  for (const Candidate& item : result.candidates) {
    candidates.push_back({{"config", item.config}, {"measured", item.measured}});
  }
  for (const auto& [count, us] : result.convergence) convergence.push_back({count, number(us)});
  return {{"key", key_json(result.key)},
          {"candidates", candidates},
          {"convergence", convergence},
          {"best", result.best},
          {"default", result.fallback},
          {"best_us", number(result.best_us)},
          {"default_us", number(result.default_us)},
          {"roofline_us", number(result.roof.us)},
          {"bound", result.roof.bound},
          {"space", result.space},
          {"measured", result.measured},
          {"reused", result.reused},
          {"failed", result.failed},
          {"pruned", result.pruned},
          {"correlation", number(result.correlation)},
          {"finished", result.finished},
          {"active_seconds", number(result.active_seconds)},
          {"device_seconds", number(result.device_seconds)},
          {"busy_share", number(result.busy_share)},
          {"spent", spent_json(result.spent)}};
}

Spent parse_spent(const json& value) {
  return {real_of(value, "compiles"),     real_of(value, "inputs"),  real_of(value, "loads"),
          real_of(value, "measurements"), real_of(value, "records"), real_of(value, "other")};
}

Result<std::vector<Candidate>> parse_candidates(const json& list) {
  std::vector<Candidate> out;
  if (!list.is_array()) return invalid_argument("`candidates` must be a list");
  for (const json& item : list) {
    if (!item.is_object()) return invalid_argument("`candidates` must have objects");
    auto config = config_of(item.value("config", json()), "config");
    if (!config) return config.error();
    wire::Fields fields(item);
    out.push_back({std::move(*config), {}, fields.boolean("measured")});
    if (!fields.ok()) return fields.error();
  }
  return out;
}

Result<JobResult> parse_result(const json& value) {
  if (!value.is_object()) return invalid_argument("`result` must be an object");
  const json key = value.value("key", json::object()), spent = value.value("spent", json::object());
  if (!key.is_object() || !spent.is_object()) return invalid_argument("`key` and `spent` must be objects");
  wire::Fields names(key), fields(value);
  JobResult out;
  out.key = {names.text("kernel"), names.text("bucket"), names.text("target"), names.text("hardware"),
             names.text("builder")};
  if (!names.ok()) return names.error();
  auto candidates = parse_candidates(value.value("candidates", json::array()));
  if (!candidates) return candidates.error();
  out.candidates = std::move(*candidates);
  auto best = config_of(value.value("best", json()), "best");
  auto fallback = config_of(value.value("default", json()), "default");
  if (!best || !fallback) return best ? fallback.error() : best.error();
  out.best = std::move(*best);
  out.fallback = std::move(*fallback);
  const std::string bound = fields.text("bound");
  for (const char* name : kBounds) {
    if (bound == name) out.roof.bound = name;
  }
  out.space = fields.number("space");
  out.measured = fields.number("measured");
  out.reused = fields.number("reused");
  out.failed = fields.number("failed");
  out.pruned = fields.number("pruned");
  out.finished = fields.boolean("finished");
  if (!fields.ok()) return fields.error();
  for (const json& point : value.value("convergence", json::array())) {
    if (!point.is_array() || point.size() != 2 || !point[0].is_number_unsigned() || !point[1].is_number()) continue;
    out.convergence.emplace_back(point[0].get<size_t>(), point[1].get<double>());
  }
  out.best_us = real_of(value, "best_us");
  out.default_us = real_of(value, "default_us");
  out.roof.us = real_of(value, "roofline_us");
  out.correlation = real_of(value, "correlation");
  out.active_seconds = real_of(value, "active_seconds");
  out.device_seconds = real_of(value, "device_seconds");
  out.busy_share = real_of(value, "busy_share");
  out.spent = parse_spent(spent);
  return out;
}

}  // namespace

std::string to_text(const FleetOrder& order) {
  return wire::dump({{"name", order.job.name},
                     {"place", order.job.place},
                     {"target", order.job.target},
                     {"kernel", dsl::print(order.job.kernel)},
                     {"workload", workload_to_json(order.job.workload)},
                     {"axes", axes_json(order.job.axes)},
                     {"tune", tune_json(order.options)}});
}

Result<FleetOrder> parse_order(const std::string& text) {
  auto object = wire::parse_object(text);
  if (!object) return object.error();
  wire::Fields fields(*object);
  FleetOrder out;
  out.job.name = fields.text("name");
  out.job.place = fields.text("place");
  out.job.target = fields.text("target");
  const std::string source = fields.text("kernel");
  if (!fields.ok()) return fields.error();
  if (out.job.target.empty()) return invalid_argument("`target` is missing");
  auto kernel = dsl::parse(source, out.job.place);
  if (!kernel) return kernel.error();
  if (auto valid = dsl::verify(*kernel); !valid) return valid.error();
  out.job.kernel = std::move(*kernel);
  auto workload = workload_from_json(object->value("workload", json()));
  if (!workload) return workload.error();
  if (workload->arguments.size() != out.job.kernel.params.size()) {
    return invalid_argument("`workload` has " + std::to_string(workload->arguments.size()) + " arguments of " +
                            std::to_string(out.job.kernel.params.size()));
  }
  if (has_file(*workload)) return invalid_argument("`workload` has the file of another machine");
  out.job.workload = std::move(*workload);
  auto axes = parse_axes(object->value("axes", json::array()));
  if (!axes) return axes.error();
  out.job.axes = std::move(*axes);
  auto options = parse_tune(object->value("tune", json::object()));
  if (!options) return options.error();
  out.options = std::move(*options);
  return out;
}

std::string to_text(const JobOutcome& outcome, bool out_of_budget, const std::string& worker) {
  json out = {{"state", outcome.state == JobState::kDone && outcome.result ? kDone : kFailed},
              {"error", outcome.error},
              {"target", outcome.target},
              {"seconds", outcome.seconds},
              {"out_of_budget", out_of_budget},
              {"worker", worker}};
  if (outcome.result) out["result"] = result_json(*outcome.result);
  return wire::dump(out);
}

std::string outcome_of_dead_job(int deliveries, const std::string& workers) {
  JobOutcome outcome;
  outcome.state = JobState::kFailed;
  outcome.error =
      "given up: " + std::to_string(deliveries) + " workers had it and died or were cut off (" + workers + ")";
  return to_text(outcome, false, "");
}

Result<FleetOutcome> parse_outcome(const std::string& text) {
  auto object = wire::parse_object(text);
  if (!object) return object.error();
  wire::Fields fields(*object);
  FleetOutcome out;
  const bool done = fields.text("state") == kDone;
  out.job.state = done ? JobState::kDone : JobState::kFailed;
  out.job.error = fields.text("error");
  out.job.target = fields.text("target");
  out.out_of_budget = fields.boolean("out_of_budget");
  out.worker = fields.text("worker");
  if (!fields.ok()) return fields.error();
  out.job.seconds = real_of(*object, "seconds");
  if (!done) return out;
  auto result = parse_result(object->value("result", json()));
  if (!result) return result.error();
  out.job.result = std::move(*result);
  return out;
}

std::string scope_tag(const RecordKey& key) {
  return redis::Sealer("").tag(key.bucket + "\n" + key.target + "\n" + key.builder);
}

}  // namespace kiln::autotune

// A runner that outlives its processes. What is loaded is kept here too; when a process dies, the candidate that it was
// running is blamed, and the next request starts another process and loads the rest anew. The first valid candidate
// comes first there, since the others are compared with it.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <map>
#include <set>

#include "kiln/autotune/runner.h"
#include "kiln/dsl/binary.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/trusted.h"
#include "records/reproducer.h"
#include "runner_link/runner_process.h"
#include "runner_link/temporary_directory.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr Seconds kBeginTime(300);  // inputs of gigabytes
constexpr Seconds kUnloadTime(30);
constexpr size_t kUnhealthy = 3;  // deaths in a row
constexpr CandidateId kFirst = std::numeric_limits<CandidateId>::max();

// As it was given to load().
struct Candidate {
  Config config;
  Artifact artifact;
  Seconds deadline{};
};

class ReplacedRunner final : public Runner {
 public:
  ReplacedRunner(RunnerOptions options, TemporaryDirectory directory)
      : options_(std::move(options)), directory_(std::move(directory)) {}

  Result<void> start() {
    auto process = RunnerProcess::start(command(), options_.stop);
    if (!process) return process.error();
    if (process_count_++ == 0) info_ = (*process)->info();
    if ((*process)->info().fingerprint != info_.fingerprint) {
      return error(ErrorCode::kUnavailable, "the device has changed: it was `" + info_.fingerprint + "`, now it is `" +
                                                (*process)->info().fingerprint + "`");
    }
    process_ = std::move(*process);
    return {};
  }

  const RunnerInfo& info() const override { return info_; }
  Result<void> begin(const dsl::Kernel& kernel, const Workload& workload, Cache cache) override;
  Result<CandidateStatus> load(CandidateId id, const Config& config, const Artifact& artifact,
                               Seconds deadline) override;
  Result<Measured> measure(std::span<const CandidateId> ids, int rounds, Seconds deadline) override;
  void unload(CandidateId id) override;
  double device_us() const override { return device_us_; }

 private:
  std::vector<std::string> command() const;
  Result<void> send_begin();
  Result<void> ensure();
  Result<bool> load_all();
  Result<CandidateStatus> load_one(CandidateId id, const Candidate& candidate);
  Result<void> blame(CandidateId id);
  Result<void> measure_rounds(std::span<const CandidateId> ids, int rounds, Seconds deadline, Measured& out);
  Result<void> take_rounds(const json& reply, std::span<const CandidateId> order,
                           const std::map<CandidateId, size_t>& index, size_t first, Measured& out);
  void fail(CandidateId id, CandidateStatus status, CandidateStatus& out);
  void count_device_time(const json& reply, double otherwise_us);
  void keep_reproducer(const Candidate& candidate, CandidateStatus& status) const;

  const RunnerOptions options_;
  const TemporaryDirectory directory_;
  RunnerInfo info_;
  std::unique_ptr<RunnerProcess> process_;  // null between a death and the next request
  int process_count_ = 0;

  std::optional<dsl::Kernel> kernel_;
  Workload workload_;
  Cache cache_ = Cache::kCold;
  std::map<CandidateId, Candidate> candidates_;  // loaded, or to be loaded anew
  std::map<CandidateId, CandidateStatus> lost_;  // loaded once, and failed since
  std::optional<Candidate> first_;               // the first valid one, loaded or not
  std::set<CandidateId> blamed_;                 // since the last success
  size_t rotation_ = 0;
  double device_us_ = 0;
};

std::vector<std::string> ReplacedRunner::command() const {
  return {options_.executable,
          "--kind",
          options_.kind,
          "--device",
          std::to_string(options_.ordinal),
          "--threads",
          std::to_string(options_.threads)};
}

Result<void> ReplacedRunner::begin(const dsl::Kernel& kernel, const Workload& workload, Cache cache) {
  kernel_ = kernel;
  workload_ = workload;
  cache_ = cache;
  candidates_.clear();
  lost_.clear();
  first_.reset();
  blamed_.clear();
  if (process_) return send_begin();
  return ensure();
}

Result<void> ReplacedRunner::send_begin() {
  const std::string path = directory_.path() + "/kernel";
  if (auto done = write_file(path, dsl::encode_kernel(*kernel_)); !done) return done;
  const Answer answer = process_->ask(
      {{"request", "begin"}, {"kernel", path}, {"workload", workload_to_json(workload_)}, {"cache", to_string(cache_)}},
      kBeginTime);
  if (answer.death) {
    process_.reset();
    return error(ErrorCode::kUnavailable,
                 "the inputs of kernel `" + kernel_->name + "` cannot be made: " + answer.death->message);
  }
  if (answer.refused) return *answer.refused;
  return {};
}

// A process with all that was loaded.
Result<void> ReplacedRunner::ensure() {
  while (!process_) {
    if (auto started = start(); !started) return started;
    if (!kernel_) return {};
    if (auto begun = send_begin(); !begun) return begun;
    auto loaded = load_all();
    if (!loaded) return loaded.error();
  }
  return {};
}

// False: one of them has killed the process, and is out.
Result<bool> ReplacedRunner::load_all() {
  if (first_) {
    const Candidate first = *first_;
    auto status = load_one(kFirst, first);
    if (!status) return status.error();
    if (status->failure != Failure::kNone) first_.reset();
    if (!process_) return false;
    if (status->failure == Failure::kNone)
      (void)process_->ask({{"request", "unload"}, {"candidate", kFirst}}, kUnloadTime);
  }
  for (auto next = candidates_.begin(); next != candidates_.end();) {
    auto status = load_one(next->first, next->second);
    if (!status) return status.error();
    if (status->failure != Failure::kNone) {
      lost_[next->first] = *status;
      next = candidates_.erase(next);
    } else {
      ++next;
    }
    if (!process_) return false;
  }
  return true;
}

Result<void> ReplacedRunner::blame(CandidateId id) {
  process_.reset();
  blamed_.insert(id);
  if (blamed_.size() < kUnhealthy) return {};
  blamed_.clear();
  return error(ErrorCode::kUnavailable, info_.device + " seems unhealthy: its runner died " +
                                            std::to_string(kUnhealthy) + " times in a row, with different candidates");
}

// By the process that is there.
Result<CandidateStatus> ReplacedRunner::load_one(CandidateId id, const Candidate& candidate) {
  const std::string path = directory_.path() + "/artifact";
  if (auto done = write_artifact(path, candidate.artifact); !done) return done.error();
  const Answer answer = process_->ask(
      {{"request", "load"}, {"candidate", id}, {"config", candidate.config}, {"artifact", path}}, candidate.deadline);
  std::error_code status;
  for (const char* suffix : {"", ".json"}) fs::remove(path + suffix, status);
  if (answer.death) {
    if (auto fine = blame(id); !fine) {
      return error(fine.error().code, fine.error().message + "; the last: " + answer.death->message);
    }
    return CandidateStatus{answer.death->failure, answer.death->message};
  }
  if (answer.refused) return *answer.refused;
  count_device_time(answer.reply, 0);
  auto outcome = status_from_json(answer.reply);
  if (!outcome) {
    process_.reset();
    return error(ErrorCode::kUnavailable, "the runner does not follow the protocol: " + outcome.error().message);
  }
  if (answer.device_lost) {
    if (auto fine = blame(id); !fine) return error(fine.error().code, fine.error().message + ": " + outcome->message);
  } else if (outcome->failure == Failure::kNone) {
    blamed_.clear();
  }
  return *outcome;
}

Result<CandidateStatus> ReplacedRunner::load(CandidateId id, const Config& config, const Artifact& artifact,
                                             Seconds deadline) {
  if (!kernel_) return invalid_argument("load before begin");
  if (id == kFirst) return invalid_argument("candidate " + std::to_string(id) + " is not for use");
  unload(id);
  if (auto ready = ensure(); !ready) return ready.error();
  Candidate candidate{config, artifact, deadline};
  auto status = load_one(id, candidate);
  if (!status) return status;
  if (status->failure == Failure::kWrongResult && first_) keep_reproducer(candidate, *status);
  if (status->failure != Failure::kNone) return status;
  if (!first_) first_ = candidate;
  candidates_[id] = std::move(candidate);
  return status;
}

void ReplacedRunner::keep_reproducer(const Candidate& candidate, CandidateStatus& status) const {
  const std::string parent = options_.reproducer_dir.empty() ? default_reproducer_dir() : options_.reproducer_dir;
  if (parent.empty()) return;
  const std::string device =
      options_.kind + (options_.ordinal > 0 ? " --device " + std::to_string(options_.ordinal) : "");
  auto path = write_reproducer(parent, {*kernel_, workload_, device, first_->config, candidate.config, first_->artifact,
                                        candidate.artifact, status.message});
  status.message += path ? "; kept in " + *path : "; not kept: " + path.error().message;
}

Result<Runner::Measured> ReplacedRunner::measure(std::span<const CandidateId> ids, int rounds, Seconds deadline) {
  if (!kernel_) return invalid_argument("measure before begin");
  Measured out;
  out.status.resize(ids.size());
  while (static_cast<int>(out.rounds.size()) < rounds) {
    const size_t before = out.rounds.size();
    if (auto done = measure_rounds(ids, rounds - static_cast<int>(before), deadline, out); !done) return done.error();
    rotation_ += out.rounds.size() - before;
  }
  return out;
}

// One round or more: asks for all rounds at once, and where that does not give all of the first, for what it lacks.
Result<void> ReplacedRunner::measure_rounds(std::span<const CandidateId> ids, int rounds, Seconds deadline,
                                            Measured& out) {
  const size_t first = out.rounds.size();
  out.rounds.push_back({std::vector<double>(ids.size(), std::numeric_limits<double>::quiet_NaN())});
  for (;; rounds = 1) {
    if (auto ready = ensure(); !ready) return ready;
    std::map<CandidateId, size_t> index;
    std::vector<CandidateId> order;
    for (size_t i = 0; i < ids.size(); ++i) {
      const size_t at = (i + rotation_) % ids.size();
      if (const auto lost = lost_.find(ids[at]); lost != lost_.end()) out.status[at] = lost->second;
      if (out.status[at].failure != Failure::kNone || !std::isnan(out.rounds[first].us[at])) continue;
      if (!candidates_.contains(ids[at])) {
        return invalid_argument("candidate " + std::to_string(ids[at]) + " is not loaded");
      }
      index[ids[at]] = at;
      order.push_back(ids[at]);
    }
    if (order.empty()) return {};
    json request = {{"request", "measure"}, {"candidates", order}};
    if (rounds > 1) request["rounds"] = rounds;
    const Answer answer = process_->ask(request, deadline);
    if (answer.refused) return *answer.refused;
    if (answer.death) {
      const CandidateId guilty =
          answer.death->running && index.contains(*answer.death->running) ? *answer.death->running : order.front();
      out.status[index[guilty]] = lost_[guilty] = {answer.death->failure, answer.death->message};
      candidates_.erase(guilty);
      if (auto fine = blame(guilty); !fine) return fine;
      continue;
    }
    if (auto taken = take_rounds(answer.reply, order, index, first, out); !taken) return taken;
    if (!answer.device_lost) continue;
    const auto guilty = std::find_if(order.begin(), order.end(), [&](CandidateId id) { return lost_.contains(id); });
    if (auto fine = blame(guilty != order.end() ? *guilty : order.front()); !fine) return fine;
  }
}

Result<void> ReplacedRunner::take_rounds(const json& reply, std::span<const CandidateId> order,
                                         const std::map<CandidateId, size_t>& index, size_t first, Measured& out) {
  const auto rounds = rounds_from_json(reply);
  const json failures = reply.is_object() ? reply.value("failures", json::array()) : json();
  bool fine = rounds && failures.is_array();
  size_t taken = 0;
  double taken_us = 0;
  const size_t candidates = out.rounds[first].us.size();
  for (size_t r = 0; fine && r < rounds->size(); ++r) {
    const std::vector<double>& times = (*rounds)[r];
    fine = times.size() <= order.size();
    if (!fine) break;
    if (out.rounds.size() <= first + r) {
      out.rounds.push_back({std::vector<double>(candidates, std::numeric_limits<double>::quiet_NaN())});
    }
    for (size_t i = 0; i < times.size(); ++i) {
      if (std::isnan(times[i])) continue;
      out.rounds[first + r].us[index.at(order[i])] = times[i];
      taken_us += std::max(times[i], 0.0);
      ++taken;
    }
  }
  for (size_t i = 0; fine && i < failures.size(); ++i) {
    auto status = status_from_json(failures[i]);
    const json id = failures[i].is_object() ? failures[i].value("candidate", json()) : json();
    fine =
        status && status->failure != Failure::kNone && id.is_number_unsigned() && index.contains(id.get<CandidateId>());
    if (fine) fail(id.get<CandidateId>(), *status, out.status[index.at(id.get<CandidateId>())]);
  }
  count_device_time(reply, taken_us);
  // An answer without anything new would be asked for without end.
  if (!fine || (taken == 0 && failures.empty())) {
    process_.reset();
    return error(ErrorCode::kUnavailable,
                 "the runner does not follow the protocol: it measured " + reply.dump().substr(0, 80));
  }
  if (taken > 0) blamed_.clear();
  return {};
}

// A wrong result may be known only here, where outputs are compared beside the measurement.
void ReplacedRunner::fail(CandidateId id, CandidateStatus status, CandidateStatus& out) {
  const auto candidate = candidates_.find(id);
  if (status.failure == Failure::kWrongResult && first_ && candidate != candidates_.end()) {
    keep_reproducer(candidate->second, status);
  }
  candidates_.erase(id);
  out = lost_[id] = std::move(status);
}

// A runner may leave it to its times to say.
void ReplacedRunner::count_device_time(const json& reply, double otherwise_us) {
  const json told = reply.is_object() ? reply.value("device_us", json()) : json();
  device_us_ += told.is_number() ? std::max(told.get<double>(), 0.0) : otherwise_us;
}

void ReplacedRunner::unload(CandidateId id) {
  lost_.erase(id);
  if (candidates_.erase(id) == 0 || !process_) return;
  const Answer answer = process_->ask({{"request", "unload"}, {"candidate", id}}, kUnloadTime);
  if (answer.death) process_.reset();
}

Result<std::string> find_runner() {
  std::string named = wire::environment("KILN_RUNNER");
  return named.empty() ? wire::find_runner(wire::self_path()) : std::move(named);
}

}  // namespace

Result<std::unique_ptr<Runner>> start_runner(const RunnerOptions& options) {
  RunnerOptions complete = options;
  if (complete.executable.empty()) {
    auto found = find_runner();
    if (!found) return found.error();
    complete.executable = *found;
  }
  auto program = wire::find_program(complete.executable);
  if (!program) return program.error();
  complete.executable = *program;
  auto directory = TemporaryDirectory::make();
  if (!directory) return directory.error();
  auto runner = std::make_unique<ReplacedRunner>(std::move(complete), std::move(*directory));
  if (auto started = runner->start(); !started) return started.error();
  return std::unique_ptr<Runner>(std::move(runner));
}

}  // namespace kiln::autotune

// Two threads: one reads requests and answers what is known, the other tunes.
#include "kiln/autotune/serve.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <set>
#include <thread>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/wire/channel.h"
#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"

namespace kiln::autotune {
namespace {

using namespace std::chrono_literals;

// A search that failed is not repeated for a while.
constexpr auto kRemember = 10min;
constexpr auto kIdlePoll = 250ms;
constexpr auto kIdlePatience = 30s;

struct Search {
  Job job;
  RecordKey key;
  Seconds budget;
  std::set<uint64_t> waiting;  // request ids
};
using SearchPtr = std::shared_ptr<Search>;

struct Failed {
  Error why;
  wire::Clock::time_point when;
};

class TuneServer {
 public:
  TuneServer(wire::UniqueFd channel, const ServeOptions& options)
      : options_(options), channel_(std::move(channel), {.max_json = wire::kMaxJsonSize}) {}

  Result<void> run() {
    auto records = Records::open(database());
    if (!records) return records.error();
    records_ = std::move(*records);
    if (!options_.golden.empty()) {
      auto golden = Records::open_golden(options_.golden);
      if (!golden) return golden.error();
      golden_ = std::move(*golden);
    }
    std::jthread tuning([this](const std::stop_token& stop) { tune_all(stop); });
    while (auto frame = channel_.read()) on_frame(*frame);
    return {};
  }

 private:
  std::string database() const { return options_.database.empty() ? Records::default_path() : options_.database; }

  // --- the thread that reads ---

  void on_frame(const wire::Frame& frame) {
    if (frame.type() == wire::Type::kCancel) return leave(frame.id());
    if (frame.type() != wire::Type::kTune) return;
    if (auto answered = on_tune(frame); !answered) send_error(frame.id(), answered.error());
  }

  Result<void> on_tune(const wire::Frame& frame) {
    auto header = wire::parse_tune_header(frame.json);
    if (!header) return header.error();
    auto body = wire::split_compile_body(frame.body);
    if (!body) return body.error();
    auto request = dsl::decode_request(body->canonical, body->debug);
    if (!request) return request.error();
    auto search = search_for(*request, *header);
    if (!search) return search.error();
    const wire::Tuned otherwise{.config = request->constexprs, .source = "default", .final = false};
    if (auto known = known_answer((*search)->key, (*search)->job, otherwise); known) return answer(frame.id(), *known);
    return enqueue(std::move(*search), frame.id(), header->wait, otherwise);
  }

  Result<SearchPtr> search_for(const dsl::CompileRequest& request, const wire::TuneHeader& header) {
    dsl::ConstexprValues fixed;
    for (const std::string& name : header.fixed) {
      const auto value = request.constexprs.find(name);
      if (value != request.constexprs.end()) fixed.insert(*value);
    }
    auto workload = make_workload(request.kernel, header.scalars, {}, fixed);
    if (!workload) return workload.error();
    auto out = std::make_shared<Search>();
    out->job = {request.kernel.name, request.kernel, std::move(*workload), request.target, {}};
    out->budget = header.budget_ms ? Seconds(header.budget_ms / 1e3) : options_.budget;
    auto hardware = fingerprint(std::string(dsl::target_family(request.target)));
    if (!hardware) return hardware.error();
    auto builder = builder_id();
    if (!builder) return builder.error();
    auto key = record_key(out->job, *hardware, *builder, options_.tune);
    if (!key) return key.error();
    out->key = std::move(*key);
    return out;
  }

  // What a device of this kind is called; asked of a runner once.
  Result<std::string> fingerprint(const std::string& kind) {
    if (auto known = fingerprints_.find(kind); known != fingerprints_.end()) return known->second;
    auto runner = open_runner(kind);
    if (!runner) return runner.error();
    return fingerprints_[kind] = (*runner)->info().fingerprint;
  }

  Result<std::string> builder_id() {
    if (builder_.empty()) {
      auto daemon = client::Connection::open(options_.connect);
      if (!daemon) return daemon.error();
      builder_ = (*daemon)->server().builder_id;
    }
    return builder_;
  }

  // Of the golden file, else of the database; nothing where neither knows.
  std::optional<wire::Tuned> known_answer(const RecordKey& key, const Job& job, const wire::Tuned& otherwise) {
    for (auto [records, source] : {std::pair(golden_.get(), "golden"), std::pair(records_.get(), "tuned")}) {
      if (!records) continue;
      auto best = records->best(key);
      if (!best || !*best) continue;
      auto config = dsl::complete_constexprs(job.kernel, (*best)->config, job.target);
      if (!config) continue;  // of a kernel that has changed
      wire::Tuned out{.config = std::move(*config), .source = source, .median_us = (*best)->median_us};
      if (auto all = records->all(key)) {
        for (const Record& record : *all) {
          if (record.is_default) out.default_us = record.median_us;
        }
      }
      return out;
    }
    std::lock_guard lock(mutex_);
    const auto failed = failed_.find(key);
    if (failed == failed_.end() || wire::Clock::now() - failed->second.when > kRemember) return {};
    wire::Tuned out = otherwise;
    out.final = true;
    return out;
  }

  Result<void> enqueue(SearchPtr search, uint64_t id, bool wait, const wire::Tuned& otherwise) {
    {
      std::lock_guard lock(mutex_);
      auto [open, is_new] = open_.try_emplace(search->key, search);
      if (wait) open->second->waiting.insert(id);
      // One that somebody waits for goes first.
      if (is_new && wait) queue_.push_front(search);
      if (is_new && !wait) queue_.push_back(search);
    }
    wake_.notify_one();
    return wait ? Result<void>() : answer(id, otherwise);
  }

  void leave(uint64_t id) {
    std::lock_guard lock(mutex_);
    for (auto& [key, search] : open_) search->waiting.erase(id);
  }

  Result<void> answer(uint64_t id, const wire::Tuned& tuned) {
    std::lock_guard lock(write_mutex_);
    const std::string json = wire::dump(wire::to_json(tuned));
    return channel_.write({.type = wire::Type::kTuned, .request_id = id, .json = json, .flags = wire::flag::kLast});
  }
  void send_error(uint64_t id, const Error& failure) {
    std::lock_guard lock(write_mutex_);
    const std::string json = wire::dump(wire::to_json(failure));
    (void)channel_.write({.type = wire::Type::kError, .request_id = id, .json = json, .flags = wire::flag::kLast});
  }

  // --- the thread that tunes ---

  Result<std::unique_ptr<Runner>> open_runner(const std::string& kind) const {
    RunnerOptions options = options_.runner;
    options.kind = kind;
    return start_runner(options);
  }

  // Its parts live as long as there is work, so that an idle tuner holds neither a device nor a connection.
  void tune_all(const std::stop_token& stop) {
    while (SearchPtr first = next(stop)) {
      auto compiler = daemon_compiler(options_.connect);
      auto records = Records::open(database());
      std::string kind;
      std::unique_ptr<Runner> runner;
      for (SearchPtr search = first; search; search = next_at_once()) {
        if (!compiler) {
          finish(*search, compiler.error());
          continue;
        }
        if (!records) {
          finish(*search, records.error());
          continue;
        }
        const std::string wanted(dsl::target_family(search->job.target));
        if (!runner || kind != wanted) {
          auto opened = open_runner(wanted);
          if (!opened) {
            finish(*search, opened.error());
            continue;
          }
          runner = std::move(*opened);
          kind = wanted;
        }
        finish(*search, search_now(*search, **compiler, *runner, **records, stop));
      }
    }
  }

  Result<JobResult> search_now(const Search& search, Compiler& compiler, Runner& runner, Records& records,
                               const std::stop_token& stop) {
    wait_for_idle(search, stop);
    auto machine = calibrate(compiler, runner, records);
    if (!machine) return machine.error();
    TuneOptions tuning = options_.tune;
    tuning.budget = search.budget;
    return tune(search.job, compiler, runner, records, *machine, tuning, {}, stop);
  }

  // Until the daemon has nothing to compile, unless somebody waits for the result.
  void wait_for_idle(const Search& search, const std::stop_token& stop) {
    const auto end = wire::Clock::now() + kIdlePatience;
    auto daemon = client::Connection::open(options_.connect);
    while (daemon && wire::Clock::now() < end && !stop.stop_requested()) {
      {
        std::lock_guard lock(mutex_);
        if (!search.waiting.empty()) return;
      }
      auto stats = (*daemon)->stats();
      if (!stats || stats->value("jobs", 0) == 0) return;
      std::this_thread::sleep_for(kIdlePoll);
    }
  }

  SearchPtr next(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait(lock, stop, [&] { return !queue_.empty(); }) || stop.stop_requested()) return nullptr;
    return pop();
  }
  SearchPtr next_at_once() {
    std::lock_guard lock(mutex_);
    return queue_.empty() ? nullptr : pop();
  }
  SearchPtr pop() {
    SearchPtr out = std::move(queue_.front());
    queue_.pop_front();
    return out;
  }

  // Answers whoever waits.
  void finish(const Search& search, const Result<JobResult>& result) {
    std::set<uint64_t> waiting;
    {
      std::lock_guard lock(mutex_);
      waiting = std::move(open_.at(search.key)->waiting);
      open_.erase(search.key);
      if (!result) failed_.insert_or_assign(search.key, Failed{result.error(), wire::Clock::now()});
    }
    auto config = result ? dsl::complete_constexprs(search.job.kernel, result->best, search.job.target)
                         : Result<dsl::ConstexprValues>(result.error());
    for (uint64_t id : waiting) {
      if (!config) {
        send_error(id, config.error());
      } else {
        (void)answer(
            id, {.config = *config, .source = "tuned", .median_us = result->best_us, .default_us = result->default_us});
      }
    }
  }

  const ServeOptions& options_;
  std::mutex write_mutex_;
  wire::Channel channel_;

  // Of the thread that reads.
  std::unique_ptr<Records> records_, golden_;
  std::map<std::string, std::string> fingerprints_;  // by kind of device
  std::string builder_;

  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<SearchPtr> queue_;
  std::map<RecordKey, SearchPtr> open_;  // queued or running
  std::map<RecordKey, Failed> failed_;
};

}  // namespace

Result<void> serve(wire::UniqueFd channel, const ServeOptions& options) {
  return TuneServer(std::move(channel), options).run();
}

}  // namespace kiln::autotune

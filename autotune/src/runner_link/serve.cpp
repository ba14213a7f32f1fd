// One thread reads requests and answers what is known; each device has one that tunes (device_tuner.h). Until that one
// has said which device it is, requests for it wait here.
#include "kiln/autotune/serve.h"

#include <map>
#include <mutex>

#include "kiln/autotune/shipped.h"
#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/wire/channel.h"
#include "kiln/wire/crash_report.h"
#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"
#include "runner_link/chooser.h"
#include "runner_link/device_tuner.h"
#include "search/spent_budget.h"

namespace kiln::autotune {
namespace {

using namespace std::chrono_literals;

// A search that failed is not repeated for a while.
constexpr auto kRemember = 10min;

struct Request {
  uint64_t id = 0;
  Job job;
  Seconds budget{};
  bool wait = false, behind = false;
  std::string trace_id;
  wire::Tuned otherwise;  // what ships, else the default
};

// A device with the requests that came before its name was known.
struct ServedDevice {
  std::optional<Identity> identity;
  std::vector<Request> unanswered;
  std::unique_ptr<DeviceTuner> tuner;
};

nlohmann::json scalars_of(const wire::TuneHeader& header) {
  nlohmann::json out = nlohmann::json::object();
  for (const auto& [name, value] : header.scalars) std::visit([&](auto number) { out[name] = number; }, value);
  return out;
}

class TuneServer {
 public:
  TuneServer(wire::UniqueFd channel, const ServeOptions& options)
      : options_(options),
        channel_(std::move(channel), {.max_json = wire::kMaxJsonSize}),
        chooser_(options, [this] { return compiler(); }) {}

  void run() {
    while (auto frame = channel_.read()) {
      if (frame->type() == wire::Type::kCancel) leave(frame->id());
      if (frame->type() != wire::Type::kTune) continue;
      if (auto taken = on_tune(*frame); !taken) send_error(frame->id(), taken.error());
    }
  }

 private:
  Result<void> on_tune(const wire::Frame& frame) {
    auto header = wire::parse_tune_header(frame.json);
    if (!header) return header.error();
    if (header->choose) return on_choose(frame, *header);
    if (auto opened = open_records(); !opened) return opened;
    auto request = parse_request(frame, *header);
    if (!request) return request.error();
    const std::string kind(dsl::target_family(request->job.target));
    ServedDevice& device = device_of(kind, kind == "cpu" ? 0 : static_cast<int>(header->device));
    {
      std::lock_guard lock(mutex_);
      if (!device.identity) {
        device.tuner->ask_name();
        if (request->wait)
          device.unanswered.push_back(std::move(*request));
        else
          answer_for_now(*request);
        return {};
      }
    }
    look_up(*request, device);
    return {};
  }

  Result<void> on_choose(const wire::Frame& frame, const wire::TuneHeader& header) {
    auto request = parse_request(frame, header);
    if (!request) return request.error();
    chooser_.add(std::move(request->job), header, [this, id = request->id](const Result<wire::Tuned>& chosen) {
      chosen ? answer(id, *chosen) : send_error(id, chosen.error());
    });
    return {};
  }

  Result<Request> parse_request(const wire::Frame& frame, const wire::TuneHeader& header) const {
    auto body = wire::split_compile_body(frame.body);
    if (!body) return body.error();
    auto decoded = dsl::decode_request(body->canonical, body->debug);
    if (!decoded) return decoded.error();
    dsl::ConstexprValues fixed;
    for (const std::string& name : header.fixed) {
      const auto value = decoded->constexprs.find(name);
      if (value != decoded->constexprs.end()) fixed.insert(*value);
    }
    auto workload = make_workload(decoded->kernel, scalars_of(header), {}, fixed);
    if (!workload) return workload.error();
    Request out{.id = frame.id(),
                .job = {},
                .wait = header.wait,
                .behind = header.behind,
                .trace_id = header.trace_id,
                .otherwise = {}};
    out.job = {decoded->kernel.name, decoded->kernel, std::move(*workload), decoded->target, {}};
    out.budget = header.budget_ms ? Seconds(header.budget_ms / 1e3) : options_.budget;
    out.otherwise.config = decoded->constexprs;
    if (auto shipped = shipped_for(out.job)) out.otherwise = std::move(*shipped);
    return out;
  }

  std::optional<wire::Tuned> shipped_for(const Job& job) const {
    if (!options_.tune.shipped) return std::nullopt;
    const auto key = record_key(job, "", "", options_.tune);
    const auto choice = key ? options_.tune.shipped->find(*key) : std::nullopt;
    auto config = choice ? dsl::complete_constexprs(job.kernel, choice->config, job.target)
                         : Result<dsl::ConstexprValues>(invalid_argument("nothing ships"));
    if (!config) return std::nullopt;
    return wire::Tuned{.config = std::move(*config), .source = choice->predicted ? "predicted" : "shipped"};
  }

  // What went wrong may be mended by the next request.
  Result<void> open_records() {
    std::lock_guard lock(records_mutex_);
    if (!golden_ && !options_.golden.empty()) {
      auto golden = Records::open_golden(options_.golden);
      if (!golden) return golden.error();
      golden_ = std::move(*golden);
    }
    if (records_) return {};
    auto records = Records::open(options_.database.empty() ? Records::default_path() : options_.database);
    if (!records) return records.error();
    records_ = std::move(*records);
    return {};
  }

  ServedDevice& device_of(const std::string& kind, int ordinal) {
    ServedDevice& out = devices_[{kind, ordinal}];
    if (out.tuner) return out;
    DeviceTuner::Events events;
    events.named = [this, &out](const Result<Identity>& identity) { on_named(out, identity); };
    events.finished = [this](const OpenSearch& search, const Result<JobResult>& result) {
      on_finished(search, result);
    };
    out.tuner = std::make_unique<DeviceTuner>(
        options_, DeviceTuner::Device{kind, ordinal}, [this] { return compiler(); }, std::move(events));
    return out;
  }

  Result<std::shared_ptr<Compiler>> compiler() {
    std::lock_guard lock(compiler_mutex_);
    if (auto open = compiler_.lock()) return open;
    auto opened = daemon_compiler(options_.connect);
    if (!opened) return opened.error();
    std::shared_ptr<Compiler> out = std::move(*opened);
    compiler_ = out;
    return out;
  }

  void on_named(ServedDevice& device, const Result<Identity>& identity) {
    std::vector<Request> unanswered;
    {
      std::lock_guard lock(mutex_);
      if (identity && !device.identity) device.identity = *identity;
      unanswered = std::exchange(device.unanswered, {});
    }
    for (Request& request : unanswered) {
      if (identity)
        look_up(request, device);
      else
        send_error(request.id, identity.error());
    }
  }

  // Answers what is known, and has the rest tuned.
  void look_up(Request& request, ServedDevice& device) {
    auto key = record_key(request.job, device.identity->hardware, device.identity->builder, options_.tune);
    if (!key) return send_error(request.id, key.error());
    std::optional<wire::Tuned> known = recorded(*key, request);
    if (!known && (options_.tune.frozen || failed_lately(*key))) known = request.otherwise;
    if (known) return answer(request.id, *known);
    enqueue(*key, request, *device.tuner);
  }

  // Of the golden file, else of the database; nothing where neither knows.
  std::optional<wire::Tuned> recorded(const RecordKey& key, const Request& request) {
    std::lock_guard lock(records_mutex_);
    for (auto [records, source] : {std::pair(golden_.get(), "golden"), std::pair(records_.get(), "tuned")}) {
      if (!records) continue;
      auto best = records->best(key);
      if (best && *best) {
        if (auto out = tuned(request.job, (*best)->config, source, *records, key)) return out;
      }
    }
    auto spent = spent_budget(*records_, key);
    if (!spent || !*spent || (*spent)->time < request.budget) return std::nullopt;
    return tuned(request.job, (*spent)->best, "tuned", *records_, key);
  }

  // Nothing where the kernel has changed and does not know the config. A golden time may be another machine's, and then
  // is not among these records.
  static std::optional<wire::Tuned> tuned(const Job& job, const Config& best, const char* source, Records& records,
                                          const RecordKey& key) {
    auto config = dsl::complete_constexprs(job.kernel, best, job.target);
    if (!config) return std::nullopt;
    wire::Tuned out{.config = std::move(*config), .source = source};
    auto all = records.all(key);
    if (!all) return out;
    for (const Record& record : *all) {
      if (record.is_default) out.default_us = record.median_us;
      if (record.config == best) out.median_us = record.median_us;
    }
    return out;
  }

  bool failed_lately(const RecordKey& key) {
    std::lock_guard lock(mutex_);
    std::erase_if(failed_, [](const auto& entry) { return wire::Clock::now() - entry.second > kRemember; });
    return failed_.contains(key);
  }

  void enqueue(const RecordKey& key, Request& request, DeviceTuner& tuner) {
    SearchPtr search;
    bool is_new = false;
    {
      std::lock_guard lock(mutex_);
      SearchPtr& open = open_[key];
      is_new = !open;
      if (is_new) {
        open = std::make_shared<OpenSearch>();
        open->number = ++searches_;
        wire::note_running(open->number, "tuning of " + request.job.kernel.name + ", trace id " + request.trace_id +
                                             ", for " + request.job.target);
        open->job = std::move(request.job);
        open->key = key;
        open->budget = request.budget;
      }
      search = open;
      if (request.wait) search->waiting.insert(request.id);
    }
    if (is_new) tuner.add(search);
    if (request.wait && !request.behind) tuner.hurry(search, request.budget);
    if (!request.wait) answer_for_now(request);
  }

  void leave(uint64_t id) {
    std::lock_guard lock(mutex_);
    for (auto& [key, search] : open_) search->waiting.erase(id);
    for (auto& [name, device] : devices_) {
      std::erase_if(device.unanswered, [id](const Request& request) { return request.id == id; });
    }
  }

  // Answers whoever waits.
  void on_finished(const OpenSearch& search, const Result<JobResult>& result) {
    std::set<uint64_t> waiting;
    {
      std::lock_guard lock(mutex_);
      waiting = std::move(open_.at(search.key)->waiting);
      open_.erase(search.key);
      wire::note_ended(search.number);
      if (!result && is_verdict(result.error().code)) failed_[search.key] = wire::Clock::now();
    }
    auto config = result ? dsl::complete_constexprs(search.job.kernel, result->best, search.job.target)
                         : Result<dsl::ConstexprValues>(result.error());
    for (uint64_t id : waiting) {
      if (config)
        answer(id,
               {.config = *config, .source = "tuned", .median_us = result->best_us, .default_us = result->default_us});
      else
        send_error(id, config.error());
    }
  }

  void answer_for_now(Request& request) {
    request.otherwise.final = false;
    answer(request.id, request.otherwise);
  }
  // What does not fit a frame is that request's own matter: the daemon would take this process for broken.
  void answer(uint64_t id, const wire::Tuned& tuned) {
    const std::string json = wire::to_text(tuned);
    if (json.size() <= wire::kMaxJsonSize) return send(id, wire::Type::kTuned, json);
    send_error(id, invalid_argument("a config of " + std::to_string(tuned.config.size()) + " names takes " +
                                    std::to_string(json.size()) + " bytes, and an answer has room for " +
                                    std::to_string(wire::kMaxJsonSize)));
  }
  void send_error(uint64_t id, const Error& failure) { send(id, wire::Type::kError, wire::to_text(failure)); }
  // A daemon that is gone needs no answer; the thread that reads learns of it.
  void send(uint64_t id, wire::Type type, const std::string& json) {
    std::lock_guard lock(write_mutex_);
    (void)channel_.write({.type = type, .request_id = id, .json = json, .flags = wire::flag::kLast});
  }

  const ServeOptions& options_;
  std::mutex write_mutex_;
  wire::Channel channel_;

  std::mutex records_mutex_;
  std::unique_ptr<Records> records_, golden_;
  std::mutex compiler_mutex_;
  std::weak_ptr<Compiler> compiler_;

  std::mutex mutex_;
  std::map<RecordKey, SearchPtr> open_;  // queued or running
  uint64_t searches_ = 0;
  std::map<RecordKey, wire::Clock::time_point> failed_;
  std::map<std::pair<std::string, int>, ServedDevice> devices_;  // their threads end first
  Chooser chooser_;                                              // likewise
};

}  // namespace

void serve(wire::UniqueFd channel, const ServeOptions& options) { TuneServer(std::move(channel), options).run(); }

}  // namespace kiln::autotune

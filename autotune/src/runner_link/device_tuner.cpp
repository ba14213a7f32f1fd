#include "runner_link/device_tuner.h"

#include <algorithm>

#include "kiln/wire/crash_report.h"
#include "kiln/wire/json.h"
#include "runner_link/yielding_runner.h"
#include "search/spent_budget.h"

namespace kiln::autotune {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

// How long a search waits for a daemon without compiles before it begins, and each of its measurements for one without
// compiles that somebody waits for.
constexpr auto kIdlePatience = 30s;
constexpr auto kYieldPatience = 5s;
constexpr auto kPoll = 20ms;

// Until the daemon's figure is 0, for as long as is reasonable; unless a launch waits for the search.
void wait_for_none(const char* figure, Clock::duration patience, const OpenSearch& search, client::Connection& daemon,
                   const std::stop_token& stop) {
  const auto end = Clock::now() + patience;
  while (!search.is_urgent && !stop.stop_requested() && Clock::now() < end) {
    const auto text = daemon.stats();
    const auto figures = text ? wire::parse_object(*text) : text.error();
    if (!figures || figures->value(figure, 0) == 0) return;
    std::this_thread::sleep_for(kPoll);
  }
}

}  // namespace

// They live as long as there is work, so that an idle tuner holds neither a device nor a connection.
struct DeviceTuner::Parts {
  std::shared_ptr<Compiler> compiler;
  std::unique_ptr<Runner> runner;
};

DeviceTuner::DeviceTuner(const ServeOptions& options, Device device, SharedCompiler compiler, Events events)
    : options_(options),
      device_(std::move(device)),
      compiler_(std::move(compiler)),
      events_(std::move(events)),
      thread_(wire::reporting([this](const std::stop_token& stop) { run(stop); })) {}

void DeviceTuner::ask_name() {
  {
    std::lock_guard lock(mutex_);
    name_wanted_ = true;
  }
  wake_.notify_one();
}

void DeviceTuner::add(SearchPtr search) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back(std::move(search));
  }
  wake_.notify_one();
}

void DeviceTuner::hurry(const SearchPtr& search, Seconds budget) {
  search->is_urgent = true;
  std::lock_guard lock(mutex_);
  const auto queued = std::find(queue_.begin(), queue_.end(), search);
  if (queued == queue_.end()) return;
  search->budget = std::max(search->budget, budget);
  std::rotate(queue_.begin(), queued, queued + 1);
}

void DeviceTuner::run(const std::stop_token& stop) {
  Parts parts;
  const auto has_work = [this] { return name_wanted_ || !queue_.empty(); };
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex_);
    if (!has_work()) {
      lock.unlock();
      parts = {};  // a process ends, which takes its time
      lock.lock();
      if (!wake_.wait(lock, stop, has_work)) return;
    }
    if (std::exchange(name_wanted_, false)) {
      lock.unlock();
      name(parts);
      continue;
    }
    const SearchPtr search = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    events_.finished(*search, tune_now(*search, parts, stop));
  }
}

Result<Runner*> DeviceTuner::runner(Parts& parts) const {
  if (!parts.runner) {
    RunnerOptions options = options_.runner;
    options.kind = device_.kind;
    options.ordinal = device_.ordinal;
    auto started = start_runner(options);
    if (!started) return started.error();
    parts.runner = std::move(*started);
  }
  return parts.runner.get();
}

Result<Compiler*> DeviceTuner::compiler(Parts& parts) const {
  if (!parts.compiler) {
    auto opened = compiler_();
    if (!opened) return opened.error();
    parts.compiler = std::move(*opened);
  }
  return parts.compiler.get();
}

void DeviceTuner::name(Parts& parts) {
  auto service = compiler(parts);
  if (!service) return events_.named(service.error());
  Identity out{"", (*service)->builder_id()};
  auto device = runner(parts);
  // What ships with an application holds on any hardware.
  if (!device && !options_.tune.frozen) return events_.named(device.error());
  if (device) out.hardware = (*device)->info().fingerprint;
  events_.named(out);
}

Result<JobResult> DeviceTuner::tune_now(const OpenSearch& search, Parts& parts, const std::stop_token& stop) const {
  auto service = compiler(parts);
  if (!service) return service.error();
  auto records = Records::open(options_.database.empty() ? Records::default_path() : options_.database);
  if (!records) return records.error();
  auto daemon = client::Connection::open(options_.connect);
  if (!daemon) return daemon.error();
  auto device = runner(parts);
  if (!device) return device.error();
  wait_for_none("jobs", kIdlePatience, search, **daemon, stop);
  YieldingRunner yielding(**device, [&] { wait_for_none("interactive_jobs", kYieldPatience, search, **daemon, stop); });
  auto machine = calibrate(**service, yielding, **records);
  if (!machine) return machine.error();
  auto before = spent_budget(**records, search.key);
  if (!before) return before.error();
  TuneOptions tuning = options_.tune;
  tuning.budget = search.budget - (*before ? (*before)->time : Seconds(0));
  auto result = tune(search.job, **service, yielding, **records, *machine, tuning, {}, stop);
  if (!result) parts = {};  // what went wrong does not follow into the next search
  if (!result || result->finished || stop.stop_requested()) return result;
  // The result is of use, kept or not.
  (void)keep_spent_budget(**records, search.key, {search.budget, result->best});
  return result;
}

}  // namespace kiln::autotune

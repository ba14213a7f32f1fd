#include "runner_link/chooser.h"

#include <unistd.h>

#include <algorithm>

#include "kiln/autotune/shipped.h"
#include "kiln/dsl/config.h"
#include "kiln/wire/crash_report.h"
#include "model/hardware.h"

namespace kiln::autotune {
namespace {

// Whether a config may be taken: it is compiled already, or another one may be.
bool may_take(const Config& config, const Job& job, const wire::TuneHeader& header) {
  if (header.more || std::ranges::find(header.compiled, config) != header.compiled.end()) return true;
  const auto fallback = dsl::complete_constexprs(job.kernel, job.workload.fixed, job.target);
  return fallback && config == *fallback;
}

}  // namespace

Chooser::Chooser(const ServeOptions& options, SharedCompiler compiler)
    : options_(options),
      compiler_(std::move(compiler)),
      thread_(wire::reporting([this](const std::stop_token& stop) { run(stop); })) {}

void Chooser::add(Job job, wire::TuneHeader header, Answer answer) {
  {
    std::lock_guard lock(mutex_);
    queue_.push_back({std::move(job), std::move(header), std::move(answer)});
  }
  wake_.notify_one();
}

void Chooser::run(const std::stop_token& stop) {
  while (true) {
    std::unique_lock lock(mutex_);
    if (!wake_.wait(lock, stop, [this] { return !queue_.empty(); })) return;
    const Question question = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    question.answer(answer(question.job, question.header));
  }
}

// What went wrong may be mended by the next question.
Result<void> Chooser::open() {
  if (builder_.empty()) {
    auto compiler = compiler_();
    if (!compiler) return compiler.error();
    builder_ = (*compiler)->builder_id();
  }
  if (!golden_ && !options_.golden.empty()) {
    auto golden = Records::open_golden(options_.golden);
    if (!golden) return golden.error();
    golden_ = std::move(*golden);
  }
  // Where nothing was ever measured, no file is made for it.
  const std::string path = options_.database.empty() ? Records::default_path() : options_.database;
  if (records_ || ::access(path.c_str(), F_OK) != 0) return {};
  auto records = Records::open(path);
  if (!records) return records.error();
  records_ = std::move(*records);
  return {};
}

std::optional<wire::Tuned> Chooser::measured(const Job& job, const RecordKey& key,
                                             const wire::TuneHeader& header) const {
  for (const auto& [records, source] : {std::pair(golden_.get(), "golden"), std::pair(records_.get(), "tuned")}) {
    const auto best = records ? records->best(key) : Result<std::optional<Record>>(std::nullopt);
    if (!best || !*best) continue;
    auto config = dsl::complete_constexprs(job.kernel, (*best)->config, job.target);
    if (!config || !may_take(*config, job, header)) continue;
    wire::Tuned out{.config = std::move(*config), .source = source};
    out.median_us = (*best)->median_us;
    out.reasons.push_back("it is the best that was measured for these sizes");
    return out;
  }
  return std::nullopt;
}

// As calibrated by this compiler or another one, else by what is known of such devices.
std::optional<Machine> Chooser::machine_of(const RecordKey& key) const {
  for (const std::string& builder : {key.builder, std::string()}) {
    if (!records_) break;
    const auto roofs = records_->machine(key.hardware, builder);
    if (!roofs || roofs->is_null()) continue;
    if (auto machine = parse_machine(*roofs)) return std::move(*machine);
  }
  return nominal_machine(key.target, key.hardware);
}

Result<wire::Tuned> Chooser::answer(const Job& job, const wire::TuneHeader& header) {
  if (auto opened = open(); !opened) return opened.error();
  const bool is_cpu = dsl::target_family(job.target) == "cpu";
  const std::string hardware = is_cpu ? cpu_hardware(usable_cores()) : header.hardware;
  auto key = record_key(job, hardware, builder_, options_.tune);
  if (!key) return key.error();
  if (auto known = measured(job, *key, header)) return *known;

  auto fallback = dsl::complete_constexprs(job.kernel, job.workload.fixed, job.target);
  if (!fallback) return fallback.error();
  const auto machine = machine_of(*key);
  if (!machine) {
    return wire::Tuned{.config = std::move(*fallback), .reasons = {"nothing is known of how fast this device is"}};
  }
  auto choice =
      choose(job, *machine, {header.compiled, header.more, winners_for(*key, records_.get(), options_.tune.shipped)});
  if (!choice) return choice.error();
  wire::Tuned out{.config = choice->config, .source = choice->source};
  out.reasons = {choice->why, "the model: " + to_string(choice->terms)};
  if (choice->source != "default") out.reasons.push_back("of the default: " + to_string(choice->default_terms));
  return out;
}

}  // namespace kiln::autotune

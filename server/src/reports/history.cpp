// Remembering passages, and telling them.
#include "reports/history.h"

#include <algorithm>

#include "reports/json_fields.h"

namespace kiln::server {
namespace {

constexpr size_t kSlow = 128;
constexpr std::chrono::seconds kSlowAfter{1};

using TimePoint = Passage::TimePoint;

double ms(std::chrono::steady_clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

bool reached(TimePoint point) { return point != TimePoint{}; }

std::string name_of(const std::string& start, uint64_t connection, uint64_t request) {
  return start + "-" + std::to_string(connection) + "-" + std::to_string(request);
}

Passage passage_of(const std::string& start, const Lookup& lookup) {
  return {.type = "GET",
          .key = lookup.key,
          .trace_id = name_of(start, lookup.connection, lookup.request),
          .client = lookup.client,
          .waiters = 1,
          .outcome = lookup.outcome,
          .asked = lookup.asked,
          .queued = {},
          .started = {},
          .ended = lookup.ended,
          .phases = {}};
}

std::vector<Passage> last_ones(const Moment& moment, size_t count) {
  std::vector<Passage> out;
  for (const auto& passage : moment.passages) out.push_back(*passage);
  for (const Lookup& lookup : moment.lookups) out.push_back(passage_of(moment.start, lookup));
  std::stable_sort(out.begin(), out.end(), [](const Passage& a, const Passage& b) { return a.ended < b.ended; });
  if (out.size() > count) out.erase(out.begin(), out.end() - static_cast<std::ptrdiff_t>(count));
  return out;
}

nlohmann::json summary(const Passage& passage) {
  nlohmann::json out = {{"key", to_hex(passage.key)},
                        {"trace_id", passage.trace_id},
                        {"client", passage.client},
                        {"waiters", passage.waiters},
                        {"outcome", passage.outcome},
                        {"ms", ms(passage.ended - passage.asked)},
                        {"phases", phase_times(passage.phases, passage.ended)}};
  if (reached(passage.started)) out["queue_ms"] = ms(passage.started - passage.queued);
  return out;
}

}  // namespace

std::string History::trace_id(uint64_t connection, uint64_t request) const {
  return name_of(start_, connection, request);
}

nlohmann::json phase_times(const Phases& phases, TimePoint ended) {
  nlohmann::json out = nlohmann::json::object();
  for (size_t i = 0; i < phases.size(); ++i) {
    const TimePoint end = i + 1 < phases.size() ? phases[i + 1].second : ended;
    out[phases[i].first] = out.value(phases[i].first, 0.0) + ms(end - phases[i].second);
  }
  return out;
}

void History::add(Passage passage) {
  note_slow(passage);
  passages_.push_back(std::make_shared<const Passage>(std::move(passage)));
  if (passages_.size() > kPassages) passages_.pop_front();
}

void History::add(const Lookup& lookup) {
  if (lookup.ended - lookup.asked > kSlowAfter) note_slow(passage_of(start_, lookup));
  lookups_[lookup_count_++ % kLookups] = lookup;
}

void History::note_slow(const Passage& passage) {
  if (passage.ended - passage.asked <= kSlowAfter) return;
  slow_.push_back(summary(passage));
  if (slow_.size() > kSlow) slow_.pop_front();
}

void History::add_at_once(const char* type, const RequestKey& key, const std::string& trace_id, uint64_t client,
                          std::string outcome) {
  const auto now = std::chrono::steady_clock::now();
  add({.type = type,
       .key = key,
       .trace_id = trace_id,
       .client = client,
       .waiters = 1,
       .outcome = std::move(outcome),
       .asked = now,
       .queued = {},
       .started = {},
       .ended = now,
       .phases = {}});
}

Moment History::moment() const {
  Moment out{.start = start_, .passages = {passages_.begin(), passages_.end()}, .lookups = {}};
  const size_t first = lookup_count_ - std::min(lookup_count_, kLookups);
  for (size_t i = first; i < lookup_count_; ++i) out.lookups.push_back(lookups_[i % kLookups]);
  return out;
}

nlohmann::json History::slow() const {
  nlohmann::json out = nlohmann::json::array();
  for (const auto& passage : slow_) out.push_back(passage);
  return out;
}

// One track a worker for what it did, and one a request for its way; both have the trace id.
std::string trace_text(const Moment& moment, size_t last) {
  std::string events;
  auto add = [&](const std::string& name, const char* process, uint64_t track, TimePoint from, TimePoint to,
                 const Passage& passage) {
    const auto begin = std::chrono::duration<double, std::micro>(from.time_since_epoch()).count();
    std::string about = fields_text({{"trace_id", passage.trace_id}, {"key", to_hex(passage.key)}});
    if (!passage.joined.empty()) about += ",\"joined\":" + list_text(passage.joined);
    if (!events.empty()) events += ',';
    events += "{" +
              fields_text({{"name", name},
                           {"cat", passage.type},
                           {"ph", "X"},
                           {"pid", process},
                           {"tid", track},
                           {"ts", begin},
                           {"dur", std::chrono::duration<double, std::micro>(to - from).count()}}) +
              ",\"args\":{" + about + "}}";
  };
  uint64_t track = 0;
  for (const Passage& passage : last_ones(moment, last)) {
    ++track;
    add(passage.outcome, "requests", track, passage.asked, passage.ended, passage);
    if (passage.type != std::string_view("COMPILE")) continue;
    const TimePoint looked_up = reached(passage.queued) ? passage.queued : passage.ended;
    add("lookup", "requests", track, passage.asked, looked_up, passage);
    if (!reached(passage.started)) continue;
    add("queue", "requests", track, passage.queued, passage.started, passage);
    add("compile", "requests", track, passage.started, passage.ended, passage);
    for (size_t i = 0; i < passage.phases.size(); ++i) {
      const TimePoint end = i + 1 < passage.phases.size() ? passage.phases[i + 1].second : passage.ended;
      add(passage.phases[i].first, "workers", passage.worker, passage.phases[i].second, end, passage);
    }
  }
  return R"({"displayTimeUnit":"ms","traceEvents":[)" + events + "]}";
}

}  // namespace kiln::server

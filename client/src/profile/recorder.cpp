#include "recorder.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <mutex>

#include "device_times.h"
#include "lifetime.h"
#include "ranges.h"

namespace kiln::client {
namespace recorder {

std::atomic<uint8_t> watchers{0};

namespace {

// A thread's own spans. Its lock is free but for the moment of stop().
struct ThreadSpans {
  std::mutex mutex;
  std::vector<profile::Span> spans;
};

struct Recorder {
  std::mutex mutex;  // of starts and stops, and of the list of threads
  std::vector<std::shared_ptr<ThreadSpans>> threads;
  std::atomic<uint64_t> round{0};  // which profile this is; a thread of another one begins anew
  std::atomic<uint64_t> room{0}, dropped{0}, flow{0};
  int64_t begin_ns = 0;

  // What is noted until now. Under the lock.
  profile::Profile until_now(bool takes) {
    profile::Profile out;
    for (const auto& thread : threads) {
      const std::lock_guard theirs(thread->mutex);
      if (takes) {
        std::ranges::move(thread->spans, std::back_inserter(out.spans));
        thread->spans.clear();
      } else {
        std::ranges::copy(thread->spans, std::back_inserter(out.spans));
      }
    }
    out.dropped = dropped.load(std::memory_order_relaxed);
    out.begin_ns = begin_ns;
    out.end_ns = profile_clock();
    return out;
  }
};

// What was under way when a profile began is of the one before, if there was one.
profile::Profile in_order(profile::Profile profile) {
  std::erase_if(profile.spans, [&](const profile::Span& span) { return span.begin_ns < profile.begin_ns; });
  std::ranges::stable_sort(profile.spans, {}, &profile::Span::begin_ns);
  return profile;
}

// Never destroyed: threads note spans while exit() destroys statics.
Recorder& the() {
  static Recorder& recorder = *new Recorder;
  return recorder;
}

struct Mine {
  uint64_t round = 0;
  uint64_t thread = 0;  // asking the system each time would be a third of what a span costs
  std::shared_ptr<ThreadSpans> spans;
};

const Mine& mine() {
  Recorder& all = the();
  Mine& here = of_thread<Mine>();
  const uint64_t round = all.round.load(std::memory_order_acquire);
  if (here.round != round || !here.spans) {
    auto fresh = std::make_shared<ThreadSpans>();
    fresh->spans.reserve(256);
    const std::lock_guard lock(all.mutex);
    all.threads.push_back(fresh);
    here = {round, static_cast<uint64_t>(::gettid()), std::move(fresh)};
  }
  return here;
}

// The child of a fork() begins with no profile, and finds no lock held. Who has the lock of device times may take this
// one, never the other way round.
void before_fork() {
  lock_device_times();
  the().mutex.lock();
}
void after_fork() {
  the().mutex.unlock();
  unlock_device_times();
}
void off_in_child() {
  watchers.fetch_and(static_cast<uint8_t>(~kProfile), std::memory_order_relaxed);
  after_fork();
}

// Whether there is room for one more.
bool take_room(Recorder& all) {
  uint64_t room = all.room.load(std::memory_order_relaxed);
  while (room > 0) {
    if (all.room.compare_exchange_weak(room, room - 1, std::memory_order_relaxed)) return true;
  }
  all.dropped.fetch_add(1, std::memory_order_relaxed);
  return false;
}

}  // namespace
}  // namespace recorder

int64_t profile_clock() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void note(profile::Span&& span) {
  if (!is_profiled() || !recorder::take_room(recorder::the())) return;
  const recorder::Mine& mine = recorder::mine();
  if (!span.on_device) span.track = mine.thread;
  const std::lock_guard lock(mine.spans->mutex);
  mine.spans->spans.push_back(std::move(span));
}

uint64_t next_flow() { return recorder::the().flow.fetch_add(1, std::memory_order_relaxed) + 1; }

void Timed::begin(profile::Kind kind, std::string_view name, std::string_view device) {
  watched_by_ = recorder::watchers.load(std::memory_order_relaxed);
  if ((watched_by_ & recorder::kRanges) != 0)
    push_range(std::string(profile::kind_name(kind)) + " " + std::string(name));
  if ((watched_by_ & recorder::kProfile) == 0) return;
  span_.emplace();
  span_->kind = kind;
  span_->name = name;
  span_->device = device;
  span_->begin_ns = profile_clock();
}

void Timed::end() {
  if (span_) {
    span_->end_ns = profile_clock();
    note(std::move(*span_));
  }
  if ((watched_by_ & recorder::kRanges) != 0) pop_range();
}

}  // namespace kiln::client

namespace kiln::profile {

using client::recorder::the;

Result<void> start(const Options& options) {
  static const int watched =
      ::pthread_atfork(client::recorder::before_fork, client::recorder::after_fork, client::recorder::off_in_child);
  if (watched != 0) return error(ErrorCode::kResourceExhausted, "profile::start(): no memory to watch fork()");
  {
    client::recorder::Recorder& all = the();
    const std::lock_guard lock(all.mutex);
    if (client::is_profiled()) return invalid_argument("profile::start(): a profile is on already");
    all.threads.clear();
    all.round.fetch_add(1, std::memory_order_release);
    all.room.store(options.most_spans, std::memory_order_relaxed);
    all.dropped.store(0, std::memory_order_relaxed);
    all.begin_ns = client::profile_clock();
    client::recorder::watchers.fetch_or(client::recorder::kProfile, std::memory_order_release);
  }
  client::time_devices(options.device_times);
  return {};
}

Result<Profile> stop() {
  client::recorder::Recorder& all = the();
  // What devices have done is noted while spans are still kept.
  client::note_device_times(client::Launches::kAll);
  Profile out;
  {
    const std::lock_guard lock(all.mutex);
    if (!client::is_profiled()) return invalid_argument("profile::stop(): no profile is on");
    client::recorder::watchers.fetch_and(static_cast<uint8_t>(~client::recorder::kProfile), std::memory_order_release);
    out = all.until_now(/*takes=*/true);
    all.threads.clear();
    all.round.fetch_add(1, std::memory_order_release);
  }
  client::time_devices(false);
  return client::recorder::in_order(std::move(out));
}

Result<Profile> so_far() {
  client::recorder::Recorder& all = the();
  client::note_device_times(client::Launches::kDone);
  Profile out;
  {
    const std::lock_guard lock(all.mutex);
    if (!client::is_profiled()) return invalid_argument("profile::so_far(): no profile is on");
    out = all.until_now(/*takes=*/false);
  }
  return client::recorder::in_order(std::move(out));
}

void fallback(std::string_view name, std::string_view why, uint64_t bytes) {
  KILN_PROBE_TEXTS(fallback, name, why);
  if (!client::is_profiled()) return;
  Span span{.kind = Kind::kFallback, .name = std::string(name), .detail = std::string(why), .bytes = bytes};
  span.begin_ns = span.end_ns = client::profile_clock();
  client::note(std::move(span));
}

// A scope has the name that the program gives it, and no kind.
Scope::Scope(std::string_view name) {
  const uint8_t watchers = client::recorder::watchers.load(std::memory_order_relaxed);
  if ((watchers & client::recorder::kRanges) != 0) {
    client::push_range(std::string(name));
    is_range_ = true;
  }
  if ((watchers & client::recorder::kProfile) == 0) return;
  span_ = std::make_unique<Span>();
  span_->kind = Kind::kScope;
  span_->name = name;
  span_->begin_ns = client::profile_clock();
}

Scope::~Scope() {
  if (is_range_) client::pop_range();
  if (!span_) return;
  span_->end_ns = client::profile_clock();
  client::note(std::move(*span_));
}

}  // namespace kiln::profile

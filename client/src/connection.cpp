// The public face: requests as calls, and a new session when the old one has gone.
#include "kiln/client/connection.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "connection_open.h"
#include "kiln/wire/json.h"
#include "lifetime.h"
#include "profile/recorder.h"

namespace kiln::client {
namespace {

using wire::Frame;
using wire::OutFrame;
using wire::Type;

constexpr auto kReplyTimeout = std::chrono::seconds(30);
constexpr auto kShutdownTimeout = std::chrono::seconds(15);
// Longer than the daemon's own limit, so that its answer arrives first.
constexpr auto kDeadlineGrace = std::chrono::seconds(5);
// A request is not passed on from daemon to daemon for ever.
constexpr int kMostDrains = 32;
// How often a daemon that is not there yet is looked for.
constexpr auto kNextDaemonPoll = std::chrono::milliseconds(10);
// After a failure nothing is tried for a while: the caller's fallback must not pay for the search each time.
constexpr auto kBreaker = std::chrono::seconds(30);
// All that is waited for ends at its deadline, give or take some milliseconds: a process that finds itself this much
// later stood still.
constexpr auto kStandstill = std::chrono::milliseconds(500);

// The connection, not the request, is at fault.
bool try_elsewhere(const Error& failure) {
  return failure.code == ErrorCode::kUnavailable || failure.code == ErrorCode::kDraining;
}

Result<std::vector<std::byte>> read_descriptor(int fd, uint64_t size) {
  struct stat info{};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || static_cast<uint64_t>(info.st_size) != size ||
      size > wire::kMaxEntrySize) {
    return internal_error("the daemon passed a descriptor that is not the artifact");
  }
  std::vector<std::byte> bytes(size);
  // The descriptor's offset is shared with everybody else who got it.
  for (size_t at = 0; at < size;) {
    ssize_t count = ::pread(fd, bytes.data() + at, size - at, static_cast<off_t>(at));
    if (count <= 0) return internal_error("the artifact's descriptor cannot be read");
    at += static_cast<size_t>(count);
  }
  return bytes;
}

Result<Artifact> artifact_of(Frame& frame, const RequestKey& key, const wire::BuilderTag& builder) {
  if (frame.type() == Type::kError) return wire::parse_error(frame.json);
  if (frame.type() != Type::kResult) return internal_error("the daemon sent an unexpected frame");
  auto header = wire::parse_object(frame.json);
  if (!header) return header.error();
  wire::Fields fields(*header);
  std::string tier = fields.text("served_from", "unknown");
  if (frame.fd) {
    auto bytes = read_descriptor(frame.fd.get(), fields.number("size"));
    if (!bytes) return bytes.error();
    frame.body = std::move(*bytes);
  }
  auto entry = wire::decode_entry_for(frame.body, key, builder);
  if (!entry) return internal_error("the artifact from the daemon is damaged: " + entry.error().message);
  auto artifact = wire::to_artifact(*entry);
  if (!artifact) return artifact;
  artifact->metadata.served_from = tier;
  if (header->contains("durable")) artifact->metadata.durable = fields.boolean("durable");
  return artifact;
}

// Of a deadline, which is never 0: that is none.
uint32_t left_of(uint32_t deadline_ms, wire::Clock::time_point begun) {
  const auto used = std::chrono::duration_cast<std::chrono::milliseconds>(wire::Clock::now() - begun).count();
  return deadline_ms == 0 ? 0 : static_cast<uint32_t>(std::max<int64_t>(1, deadline_ms - used));
}

// An error made here, of a request that the daemon did not answer, is known by the caller's name for it too.
Error traced(Error failure, const std::string& trace_id) {
  if (failure.trace_id.empty()) failure.trace_id = trace_id;
  return failure;
}

}  // namespace

struct Connection::State {
  explicit State(ConnectOptions from) : options(std::move(from)) {}

  // The session of the moment; opens one if the last has broken. One caller opens, the others wait for it.
  Result<std::shared_ptr<Session>> current(wire::Deadline deadline = wire::kNoDeadline) {
    std::unique_lock lock(mutex);
    while (true) {
      if (session && !session->broken()) return session;
      if (failure && wire::Clock::now() < retry_at) return *failure;
      if (!opening) break;
      if (wire::Clock::now() >= deadline) return error(ErrorCode::kDeadlineExceeded, "no connection to the daemon yet");
      opened.wait_until(lock, std::min(deadline, wire::Clock::now() + options.start_timeout));
    }
    wire::Deadline own = wire::Clock::now() + options.start_timeout;
    opening = true;
    lock.unlock();
    auto fresh = open_session(options, std::min(own, deadline));
    if (!fresh && fresh.error().code == ErrorCode::kDeadlineExceeded && stood_still(own) && own < deadline) {
      own = wire::Clock::now() + options.start_timeout;
      fresh = open_session(options, std::min(own, deadline));
    }
    lock.lock();
    opening = false;
    opened.notify_all();
    if (!fresh) {
      // A caller in a hurry says nothing about the daemon.
      if (own <= deadline || fresh.error().code != ErrorCode::kDeadlineExceeded) {
        failure = fresh.error();
        retry_at = wire::Clock::now() + kBreaker;
      }
      return fresh.error();
    }
    failure.reset();
    session = std::move(*fresh);
    return session;
  }

  // The time in which this process, perhaps the whole machine, did not run was nobody's to start a daemon in.
  static bool stood_still(wire::Deadline deadline) { return wire::Clock::now() > deadline + kStandstill; }

  // The next daemon is waited for by who was told that this one leaves, and by a client that starts none and was idle
  // when it left.
  void drop(const std::shared_ptr<Session>& old, bool is_draining) {
    std::lock_guard lock(mutex);
    drop_locked(old, is_draining);
  }

  void drop_locked(const std::shared_ptr<Session>& old, bool is_draining) {
    const bool is_first = session == old;
    if (is_draining || (is_first && !options.autostart && old->ended_idle()))
      awaited_until = wire::Clock::now() + options.start_timeout;
    if (is_first) session = nullptr;
  }

  // When a call ends, and by when its caller wants the answer, where he has said so.
  struct Times {
    wire::Deadline end = wire::kNoDeadline;
    std::optional<wire::Deadline> wanted = {};
  };
  static Times times_of(uint32_t deadline_ms) {
    if (deadline_ms == 0) return {};
    const wire::Deadline wanted = wire::Clock::now() + std::chrono::milliseconds(deadline_ms);
    return {wanted + kDeadlineGrace, wanted};
  }

  // While a daemon that has left may have a successor, which somebody else may have to start first, that one. Who comes
  // in that time and has a deadline waits until then, unless it is this client that would have to start it.
  Result<std::shared_ptr<Session>> next(const Times& times, const std::stop_token& stop) {
    for (bool awaits = false;;) {
      wire::Deadline until{};
      {
        std::lock_guard lock(mutex);
        if (session && session->broken()) drop_locked(std::shared_ptr(session), false);  // its reader saw it first
        awaits = awaits || wire::Clock::now() < awaited_until;
        const bool may_be_late = !options.autostart && times.wanted;
        if (awaits) until = std::min(times.end, may_be_late ? *times.wanted : awaited_until);
        if (wire::Clock::now() < until) failure.reset();
      }
      auto found = current(times.end);
      if (found || found.error().code != ErrorCode::kUnavailable || wire::Clock::now() >= until) return found;
      if (stop.stop_requested()) return error(ErrorCode::kCancelled, "cancelled while no daemon is there");
      std::this_thread::sleep_for(kNextDaemonPoll);
    }
  }

  // Runs `request` on a session, and once more on another one if that went away under it. A daemon that says that it is
  // leaving is nobody's error: while there is time, the request goes to the next one.
  template <class Request>
  auto with_session(const Times& times, const std::stop_token& stop, Request&& request)
      -> decltype(request(std::declval<Session&>())) {
    bool lost = false;
    for (int drained = 0;;) {
      auto now = next(times, stop);
      if (!now) return now.error();
      auto result = request(**now);
      if (result || !try_elsewhere(result.error())) return result;
      const bool is_draining = result.error().code == ErrorCode::kDraining;
      drop(*now, is_draining);
      if (is_draining ? ++drained > kMostDrains : std::exchange(lost, true)) return result;
    }
  }

  // A request without contents, whose answer has none.
  Result<void> ask(Type type) {
    const auto deadline = wire::Clock::now() + kReplyTimeout;
    return with_session({deadline}, {}, [&](Session& session) -> Result<void> {
      auto replies = session.call({.type = type}, {}, deadline);
      if (!replies) return replies.error();
      if (replies->back().type() == Type::kError) return wire::parse_error(replies->back().json);
      return {};
    });
  }

  Result<Artifact> get(const RequestKey& key, const std::stop_token& cancel, const Times& times) {
    return with_session(times, cancel, [&](Session& session) -> Result<Artifact> {
      OutFrame frame{.type = Type::kGet, .body = {std::as_bytes(std::span(key))}};
      auto replies = session.call(frame, cancel, std::min(times.end, wire::Clock::now() + kReplyTimeout));
      if (!replies) return replies.error();
      return artifact_of(replies->back(), key, session.builder());
    });
  }

  const ConnectOptions options;
  std::mutex mutex;
  std::condition_variable opened;
  bool opening = false;
  std::shared_ptr<Session> session;
  std::optional<Error> failure;
  wire::Deadline retry_at{}, awaited_until{};
};

Connection::Connection(PerProcess<State>* state) : state_(state) {}
Connection::~Connection() { DeleteUnlessItStays()(state_); }
Connection::State& Connection::state() const { return state_->get(); }

Result<std::unique_ptr<Connection>> Connection::open(const ConnectOptions& options,
                                                     std::chrono::steady_clock::time_point deadline) {
  // A later reconnection may happen in another working directory.
  ConnectOptions absolute = options;
  for (std::string* path : {&absolute.runtime_dir, &absolute.kilnd_path, &absolute.worker_path}) {
    std::error_code ignored;
    if (!path->empty()) *path = std::filesystem::absolute(*path, ignored).string();
  }
  std::unique_ptr<Connection> out(
      new Connection(new PerProcess<State>([absolute] { return std::make_unique<State>(absolute); })));
  if (auto session = out->state().current(deadline); !session) return session.error();
  return out;
}

Welcome Connection::server() const {
  State& now = state();
  std::shared_ptr<Session> session;
  {
    std::lock_guard lock(now.mutex);
    session = now.session;
  }
  if (!session && state_->inherited()) {
    if (auto opened = now.current()) session = *opened;
  }
  return session ? session->welcome() : Welcome{};
}

RequestKey Connection::key_of(const RequestBytes& request) const {
  return request_key(server().builder_id, request.canonical);
}

Result<Artifact> Connection::get(const RequestKey& key) {
  return state().get(key, {}, {wire::Clock::now() + kReplyTimeout});
}

std::vector<Result<Artifact>> Connection::get_many(std::span<const RequestKey> keys) {
  std::vector<Result<Artifact>> out(keys.size(), error(ErrorCode::kNotFound, "no such entry"));
  for (size_t begin = 0; begin < keys.size(); begin += wire::kMaxGetMany) {
    auto part = keys.subspan(begin, std::min(wire::kMaxGetMany, keys.size() - begin));
    const auto deadline = wire::Clock::now() + kReplyTimeout;
    auto status = state().with_session({deadline}, {}, [&](Session& session) -> Result<void> {
      OutFrame frame{.type = Type::kGetMany, .body = {std::as_bytes(part)}};
      auto replies = session.call(frame, {}, deadline);
      if (!replies) return replies.error();
      for (auto& reply : *replies) {
        auto header = wire::parse_object(reply.json);
        if (!header) return header.error();
        if (!header->contains("index")) return artifact_of(reply, part[0], session.builder()).error();
        uint64_t index = wire::Fields(*header).number("index", 0, part.size() - 1);
        out[begin + index] = artifact_of(reply, part[index], session.builder());
      }
      return {};
    });
    if (status) continue;
    for (size_t i = 0; i < part.size(); ++i) out[begin + i] = status.error();
    if (status.error().code != ErrorCode::kDeadlineExceeded) continue;
    for (size_t i = begin + part.size(); i < out.size(); ++i) out[i] = status.error();  // nor will the others' be
    break;
  }
  return out;
}

Result<Artifact> Connection::compile(const RequestBytes& request, const CompileOptions& options) {
  wire::CompileHeader header{options.deadline_ms, options.priority, options.trace_id, options.durable,
                             options.memory_bytes};
  const auto begun = wire::Clock::now();
  uint32_t canonical_size = static_cast<uint32_t>(request.canonical.size());
  const State::Times times = State::times_of(options.deadline_ms);
  return state().with_session(times, options.cancel, [&](Session& session) -> Result<Artifact> {
    // What an earlier daemon has used of it is gone.
    header.deadline_ms = left_of(options.deadline_ms, begun);
    const std::string json = wire::to_text(header);
    OutFrame frame{.type = Type::kCompile,
                   .json = json,
                   .body = {std::as_bytes(std::span(&canonical_size, 1)), request.canonical, request.debug}};
    auto replies = session.call(frame, options.cancel, times.end);
    if (!replies) return traced(replies.error(), options.trace_id);
    return artifact_of(replies->back(), request_key(session.welcome().builder_id, request.canonical),
                       session.builder());
  });
}

Result<Artifact> Connection::fetch(const RequestBytes& request, const CompileOptions& options) {
  if (options.durable) return compile(request, options);  // a hit may not be on disk yet
  const auto begun = wire::Clock::now();
  State::Times times = State::times_of(options.deadline_ms);
  if (!times.wanted) times.end = begun + kReplyTimeout;
  auto hit = [&] {
    const TimedCompile timed("look-up", "kilnd");
    return state().get(key_of(request), options.cancel, times);
  }();
  if (hit || hit.error().code != ErrorCode::kNotFound) return hit;
  const TimedCompile timed("on a miss", "kilnd");
  CompileOptions rest = options;
  rest.deadline_ms = left_of(options.deadline_ms, begun);
  return compile(request, rest);
}

Result<wire::Tuned> Connection::tune(const RequestBytes& request, const wire::TuneHeader& header,
                                     std::stop_token cancel, uint32_t wait_ms) {
  const std::string json = wire::to_text(header);
  const uint32_t canonical_size = static_cast<uint32_t>(request.canonical.size());
  State::Times times{wire::Clock::now() + kReplyTimeout};
  if (header.wait) times.end = wire::kNoDeadline;
  if (header.wait && wait_ms) times.wanted = times.end = wire::Clock::now() + std::chrono::milliseconds(wait_ms);
  return state().with_session(times, cancel, [&](Session& session) -> Result<wire::Tuned> {
    const OutFrame frame{.type = Type::kTune,
                         .json = json,
                         .body = {std::as_bytes(std::span(&canonical_size, 1)), request.canonical, request.debug}};
    auto replies = session.call(frame, cancel, times.end);
    if (!replies) return replies.error();
    const Frame& reply = replies->back();
    if (reply.type() == Type::kError) return wire::parse_error(reply.json);
    if (reply.type() != Type::kTuned) return internal_error("the daemon sent an unexpected frame");
    return wire::parse_tuned(reply.json);
  });
}

Result<std::string> Connection::stats(const std::string& format, uint32_t last) {
  const std::string json = wire::dump({{"format", format}, {"last", last}});
  const auto deadline = wire::Clock::now() + kReplyTimeout;
  return state().with_session({deadline}, {}, [&](Session& session) -> Result<std::string> {
    auto replies = session.call({.type = Type::kStats, .json = json}, {}, deadline);
    if (!replies) return replies.error();
    const Frame& reply = replies->back();
    if (reply.type() == Type::kError) return wire::parse_error(reply.json);
    return std::string(reinterpret_cast<const char*>(reply.body.data()), reply.body.size());
  });
}

Result<void> Connection::ping() { return state().ask(Type::kPing); }
Result<void> Connection::clear_poison() { return state().ask(Type::kClearPoison); }

Result<void> Connection::shutdown() {
  std::shared_ptr<Session> session;
  {
    State& now = state();
    std::lock_guard lock(now.mutex);
    session = std::exchange(now.session, nullptr);
  }
  if (!session || session->broken()) return {};
  auto replies = session->call({.type = Type::kShutdown}, {}, wire::Clock::now() + kReplyTimeout);
  if (!replies && replies.error().code != ErrorCode::kUnavailable) return replies.error();
  return session->wait_closed(wire::Clock::now() + kShutdownTimeout);
}

}  // namespace kiln::client

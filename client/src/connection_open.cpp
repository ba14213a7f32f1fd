// Connecting: find a daemon, start one, replace one of another build, or fall back to a child over a pipe.
#include "connection_open.h"

#include "kiln/wire/entry.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "spawn_daemon.h"

namespace kiln::client {
namespace {

using wire::Channel;
using wire::UniqueFd;

constexpr auto kReplaceTimeout = std::chrono::seconds(5);
// Each round ends with a session, an error, or a reason for one more: reset by a daemon that was leaving, or replaced.
constexpr int kMaxRounds = 4;

// No frame of the daemon was seen: it was leaving just then, and another round finds a better one.
bool closed_before_greeting(const Error& failure) { return failure.code == ErrorCode::kUnavailable; }

struct Greeted {
  Channel channel;
  Welcome welcome;
};

Result<Greeted> greet(UniqueFd fd, wire::Deadline deadline) {
  if (auto same_user = wire::check_daemon(fd.get()); !same_user) return same_user.error();
  Channel channel(std::move(fd));
  auto frame = channel.read(deadline);
  if (!frame && frame.error().code == ErrorCode::kDeadlineExceeded) {
    return error(ErrorCode::kDeadlineExceeded, "the daemon does not greet: it is stopped, or hangs");
  }
  if (!frame) return frame.error();
  if (frame->type() == wire::Type::kError) return wire::parse_error(frame->json);
  if (frame->type() != wire::Type::kWelcome) {
    return error(ErrorCode::kVersionMismatch, "what answers on the socket is no kilnd that this client knows");
  }
  auto welcome = wire::parse_welcome(frame->json);
  if (!welcome) return welcome.error();
  if (welcome->max_version < wire::kMinVersion || welcome->min_version > wire::kVersion) {
    return error(ErrorCode::kVersionMismatch,
                 "this client speaks protocol " + wire::version_string(wire::kMinVersion) + " to " +
                     wire::version_string(wire::kVersion) + ", the daemon (" + welcome->daemon_path + ") " +
                     wire::version_string(welcome->min_version) + " to " + wire::version_string(welcome->max_version));
  }
  return Greeted{std::move(channel), std::move(*welcome)};
}

Result<void> say_hello(Greeted& greeted, const ConnectOptions& options, bool replace, wire::Deadline deadline) {
  wire::Hello hello;
  hello.version = std::min(wire::kVersion, greeted.welcome.max_version);
  hello.client_name = options.client_name;
  hello.build_id = wire::read_build_id(wire::self_path());
  hello.replace = replace;
  std::string json = wire::to_text(hello);
  return greeted.channel.write({.type = wire::Type::kHello, .json = json}, deadline);
}

bool differs(const std::string& running, const std::string& path) {
  if (path.empty() || running.empty()) return false;
  std::string ours = wire::read_build_id(path);
  return !ours.empty() && ours != running;
}

// The daemon that runs is not the one that this client would start.
bool other_build(const Welcome& welcome, const ConnectOptions& options) {
  if (!options.exact_build || !options.autostart) return false;
  return differs(welcome.daemon_build_id, options.kilnd_path) || differs(welcome.worker_build_id, options.worker_path);
}

// The daemon frees the socket's name before it hangs up. False where it stays, because nobody has replaced its
// programs: two installations live side by side.
bool replace(Greeted& greeted, const ConnectOptions& options, wire::Deadline deadline) {
  if (!say_hello(greeted, options, true, deadline)) return true;
  deadline = std::min(deadline, wire::Clock::now() + kReplaceTimeout);
  while (auto frame = greeted.channel.read(deadline)) {
    if (frame->type() == wire::Type::kError) return false;
  }
  return true;
}

// Where the daemon of this installation lives while another's has the usual place.
std::string own_directory(const ConnectOptions& options) {
  return options.runtime_dir + "/of-" + wire::builder_directory(options.kilnd_path + "\n" + options.worker_path);
}

Result<std::unique_ptr<Session>> serve(Greeted greeted, const ConnectOptions& options, pid_t child,
                                       wire::Deadline deadline) {
  if (auto sent = say_hello(greeted, options, false, deadline); !sent) return sent.error();
  return std::make_unique<Session>(std::move(greeted.channel), std::move(greeted.welcome), child);
}

Result<std::unique_ptr<Session>> open_shared(ConnectOptions options, wire::Deadline deadline) {
  Error last = error(ErrorCode::kUnavailable, "no daemon");
  bool replaced = false, aside = false;
  for (int round = 0; round < kMaxRounds; ++round) {
    auto fd = wire::connect_socket(options.runtime_dir, deadline);
    if (!fd && fd.error().code == ErrorCode::kNotFound && options.autostart) fd = connect_or_start(options, deadline);
    if (!fd) {
      last = fd.error();
      if (last.code == ErrorCode::kDeadlineExceeded) return last;
      last.code = ErrorCode::kUnavailable;
      if (options.autostart && fd.error().code == ErrorCode::kNotFound) continue;
      return last;
    }
    auto greeted = greet(std::move(*fd), deadline);
    if (!greeted) {
      last = greeted.error();
      if (closed_before_greeting(last)) continue;
      return last;
    }
    if (!other_build(greeted->welcome, options)) return serve(std::move(*greeted), options, -1, deadline);
    if (replaced) return error(ErrorCode::kVersionMismatch, "two builds of kilnd keep replacing each other");
    if (replace(*greeted, options, deadline)) {
      replaced = true;
      continue;
    }
    if (aside) return error(ErrorCode::kVersionMismatch, "a kilnd of another build lives in " + options.runtime_dir);
    options.runtime_dir = own_directory(options);
    aside = true;
  }
  return last;
}

Result<std::unique_ptr<Session>> open_private(const ConnectOptions& options, wire::Deadline deadline) {
  auto child = start_pipe_child(options);
  if (!child) return child.error();
  auto greeted = greet(std::move(child->socket), deadline);
  Error failure;
  if (greeted) {
    auto session = serve(std::move(*greeted), options, child->pid, deadline);
    if (session) return session;
    failure = session.error();
  } else {
    failure = greeted.error();
  }
  const bool hangs = failure.code == ErrorCode::kDeadlineExceeded;
  end_pipe_child(child->pid, hangs ? wire::Clock::duration(0) : kChildPatience);
  return failure;
}

// What autostart and the comparison of builds need. A client that cannot start a daemon may still find one.
Result<void> find_executables(ConnectOptions& options) {
  if (options.kilnd_path.empty()) {
    auto kilnd = wire::find_kilnd(options.programs_dir);
    if (!kilnd) return kilnd.error();
    options.kilnd_path = *kilnd;
  }
  if (options.worker_path.empty()) {
    auto worker = wire::find_worker(options.kilnd_path);
    if (worker) options.worker_path = *worker;
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Session>> open_session(ConnectOptions options, wire::Deadline deadline) {
  Result<void> executables = find_executables(options);
  if (!executables) options.autostart = false;
  Error failure = error(ErrorCode::kUnavailable, "no directory for the daemon's socket");
  if (options.runtime_dir.empty()) {
    auto dir = wire::find_runtime_dir();
    if (dir) options.runtime_dir = *dir;
    if (!dir) failure = dir.error();
  }
  if (!options.runtime_dir.empty()) {
    auto session = open_shared(options, deadline);
    if (session) return session;
    failure = session.error();
  }
  if (!executables) {
    failure.message += "; " + executables.error().message;
    return failure;
  }
  // Another user's socket or another protocol is told to the caller; a place where no daemon can live is worked around.
  bool no_place = failure.code == ErrorCode::kUnavailable || failure.code == ErrorCode::kVersionMismatch;
  if (!options.allow_pipe || !options.autostart || !no_place) return failure;
  auto session = open_private(options, deadline);
  if (session) return session;
  failure.code = session.error().code == ErrorCode::kDeadlineExceeded ? ErrorCode::kDeadlineExceeded : failure.code;
  failure.message += "; as a child: " + session.error().message;
  return failure;
}

}  // namespace kiln::client

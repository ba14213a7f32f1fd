// Start, connections and figures. How the daemon ends is in lifecycle.cpp.
#include "daemon.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <new>

#include "connections/close_elsewhere.h"
#include "connections/descriptors.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"

namespace kiln::server {
namespace {

constexpr size_t kListedJobs = 32;
constexpr uint64_t kMetricsPort = 0;  // among the processes that ask for reports

std::string log_path(const Config& config) {
  return config.foreground || config.pipe ? std::string() : config.runtime_dir + "/kilnd.log";
}

// Of this start, so that no trace id comes again in a log that several daemons have written.
std::string start_name() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(now).count();
  char text[32];
  std::snprintf(text, sizeof text, "%llx.%x", static_cast<unsigned long long>(seconds),
                static_cast<unsigned>(::getpid()));
  return text;
}

}  // namespace

Daemon::Daemon(Config config, Reread reread, MemoryReserve& reserve)
    : config_(std::move(config)),
      reread_(std::move(reread)),
      reserve_(reserve),
      log_(log_path(config_), config_.log_level),
      history_(start_name()),
      scratch_(std::make_shared<Bytes>(wire::kReadStep)),
      pool_(io_, config_, scratch_, log_, metrics_),
      tuner_(io_, config_, scratch_, log_, metrics_, history_),
      tune_worker_(io_, config_, log_),
      listener_(io_, log_, shares_.memory, first_reserved_descriptor(pool_.size())),
      names_(io_),
      reports_(
          io_, [this] { return stats(); }, history_),
      metrics_port_(
          io_, log_,
          [this](Reports::Done done) { reports_.ask(kMetricsPort, {WantedReport::kPrometheus}, std::move(done)); }),
      signals_(io_),
      idle_timer_(io_),
      check_timer_(io_),
      drain_timer_(io_),
      watchdog_timer_(io_),
      started_(std::chrono::steady_clock::now()),
      starter_(config_.ready_fd) {
  config_.workers = pool_.size();
  shares_.memory.start(reserve_, [this] { relieve_memory(); });
}

Daemon::~Daemon() = default;

int Daemon::run() {
  if (!config_.pipe) {
    if (auto elected = listener_.elect(config_.runtime_dir, manager_.socket()); !elected) {
      bool another = elected.error().code == ErrorCode::kUnavailable;
      log_.info("not_elected", {{"reason", elected.error().message}});
      tell_starter((another ? "another " : "error ") + elected.error().message);
      return another ? 0 : 1;
    }
  }
  if (!config_.cache_instead_of.empty()) {
    log_.warn("cache_is_local", {{"directory", config_.cache_dir}, {"instead_of", config_.cache_instead_of}});
  }
  if (!config_.inherited.empty()) log_.warn("inherited", {{"kept", config_.inherited}});
  watch_signals();
  if (auto started = start(); !started) {
    fail(started.error());
    return exit_code_;
  }
  serve();
  connections_.clear();
  tuner_.stop();
  tune_worker_.stop();
  pool_.stop();
  if (store_) store_->finish(time_to_write());
  log_.info("exit", {{"code", exit_code_}});
  return exit_code_;
}

// Memory that is not there costs what asked for it, and never the daemon. What could be answered has been (on_frame,
// on_outcome); the rest is a timer's work, or a peer's that has its deadline.
void Daemon::serve() {
  while (!io_.stopped()) {
    try {
      io_.run();
    } catch (const std::bad_alloc&) {
      ++metrics_.rejected["memory"];
    }
  }
}

// Lets go of what can be had again.
void Daemon::relieve_memory() {
  constexpr std::chrono::seconds kQuiet{1};
  ++metrics_.memory_shortages;
  if (store_) store_->clear_memory();
  history_.forget_passages();
  const auto now = std::chrono::steady_clock::now();
  if (now - std::exchange(said_short_, now) > kQuiet)
    log_.warn("memory_short", {{"reserve_used_bytes", reserve_.used()}});
}

// What is left of the drain; a little in any case.
std::chrono::milliseconds Daemon::time_to_write() const {
  constexpr std::chrono::milliseconds kGrace{1500}, kLeast{500};
  if (!draining_) return config_.drain_timeout;
  const auto waited = std::chrono::steady_clock::now() - drain_started_;
  return std::max(kLeast,
                  std::chrono::duration_cast<std::chrono::milliseconds>(config_.drain_timeout + kGrace - waited));
}

Result<void> Daemon::start() {
  if (auto usable = manager_.check_socket(); !usable) return usable;
  return pool_.start({.ready = [this](std::string builder, std::string native) { on_builder(builder, native); },
                      .slot_free =
                          [this] {
                            if (scheduler_) scheduler_->pump();
                          },
                      .start_failed =
                          [this](const std::string& reason) {
                            if (services_) {  // it worked before and is tried again
                              if (!pool_.unavailable().empty()) scheduler_->refuse_waiting();
                              return;
                            }
                            fail(error(ErrorCode::kUnavailable, config_.worker_path + " does not start: " + reason));
                          }});
}

void Daemon::on_builder(std::string builder_id, std::string native_target) {
  if (services_) {
    // The zygote was restarted. With another compiler behind it, every key that clients computed here would be wrong.
    if (services_->builder_id != builder_id) drain("the worker was replaced by another build");
    return;
  }
  store_.emplace(io_, config_, log_, fs_, builder_id);
  scheduler_.emplace(io_, config_, log_, metrics_, *store_, pool_, history_, builder_id);
  wire::Welcome welcome;
  welcome.builder_id = builder_id;
  welcome.native_target = native_target;
  welcome.pid = ::getpid();
  welcome.daemon_path = wire::self_path();
  welcome.daemon_build_id = wire::read_build_id(welcome.daemon_path);
  welcome.worker_path = config_.worker_path;
  welcome.worker_build_id = wire::read_build_id(config_.worker_path);
  services_.emplace(Services{.io = io_,
                             .config = config_,
                             .log = log_,
                             .metrics = metrics_,
                             .store = *store_,
                             .scheduler = *scheduler_,
                             .tuner = tuner_,
                             .history = history_,
                             .shares = shares_,
                             .builder_id = builder_id,
                             .welcome = wire::to_text(welcome),
                             .reports = reports_,
                             .drain = [this](const std::string& reason) { drain(reason); },
                             .outdated =
                                 [welcome] {
                                   return wire::read_build_id(welcome.daemon_path) != welcome.daemon_build_id ||
                                          wire::read_build_id(welcome.worker_path) != welcome.worker_build_id;
                                 },
                             .closed = [this](uint64_t id) { on_connection_closed(id); },
                             .moved = [this](uint64_t id, uint64_t before) { return on_moved(id, before); }});
  if (auto opened = open_for_clients(native_target); !opened) fail(opened.error());
}

Result<void> Daemon::open_for_clients(const std::string& native_target) {
  if (config_.pipe) {
    if (auto taken = on_connection(wire::UniqueFd(::dup(STDIN_FILENO))); !taken) return taken;
  } else {
    // Two processes that take all they can get leave the others some.
    most_connections_ = (descriptors_for_clients(pool_.size()) + 1) / 2;
    auto on_accepted = [this](wire::UniqueFd fd) { return on_connection(std::move(fd)).ok(); };
    auto listening =
        manager_.socket() ? listener_.adopt(manager_.take_socket(), on_accepted) : listener_.listen(on_accepted);
    if (!listening) return listening;
    if (config_.metrics_port != 0) metrics_port_.listen(config_.metrics_port);
    names_.start(config_.runtime_dir, [this] { check_socket(); });
    check_socket();  // what happened to the name before it was watched
    watch_socket();
    arm_idle();
    tune_worker_.start();
  }
  log_.info("listening",
            {{"builder_id", services_->builder_id}, {"native_target", native_target}, {"config", to_json(config_)}});
  tell_starter("ready");
  manager_.notify("READY=1");
  feed_watchdog();
  return {};
}

// An error: there is nothing to be done for connections now.
Result<void> Daemon::on_connection(wire::UniqueFd fd) {
  if (auto same_user = wire::check_peer(fd.get()); !same_user) {
    ++metrics_.rejected["uid"];
    log_.warn("foreign_user", {{"message", same_user.error().message}});
    close_socket(std::move(fd));
    return {};  // closed without reading a byte
  }
  const auto begun = std::chrono::steady_clock::now();
  auto peer = watched(io_, std::move(fd));
  if (!peer) {
    ++metrics_.rejected["watches"];
    return peer.error();
  }
  const uint64_t id = next_connection_++;
  auto connection = std::make_shared<ClientConnection>(*services_, id, std::move(*peer), scratch_);
  if (find_place(connection->owner(), 1)) {
    take_in(connection, id);
  } else {
    ++metrics_.rejected["connections"];
  }
  // Whoever connects without end does so in its own time.
  const auto now = std::chrono::steady_clock::now();
  shares_.turns.spend(connection->owner(), now - begun, now);
  return {};
}

// Where there is no memory for it, it has no place either.
void Daemon::take_in(const std::shared_ptr<ClientConnection>& connection, uint64_t id) {
  const auto entry = connections_.emplace(id, connection).first;
  try {
    shares_.places.take(connection->owner(), 1);
  } catch (const std::bad_alloc&) {
    connections_.erase(entry);
    throw;
  }
  ++metrics_.connections;
  idle_timer_.cancel();
  try {
    connection->start();
  } catch (const std::bad_alloc&) {
    connection->close();
    throw;
  }
}

// One process has not more than its share of the places. Where there is none for it, the connection that has been idle
// for longest makes room: of its own ones, or of the process that has most.
bool Daemon::find_place(uint64_t owner, uint64_t wanted) {
  const size_t most = std::min(config_.max_connections, most_connections_);
  const Shares& places = shares_.places;
  if (places.admits(owner, wanted, most)) return true;
  const uint64_t largest = places.largest();
  const bool of_its_own = places.held(owner) >= std::min<uint64_t>(most, largest);
  const auto oldest = idle_[of_its_own ? owner : 0].next(connections_, [&](const ClientConnection& each) {
    return of_its_own ? each.owner() == owner : places.held(each.owner()) == largest;
  });
  if (!oldest) return false;
  ++metrics_.rejected["idle"];
  oldest->close();
  return true;
}

void Daemon::give_back_place(uint64_t owner) {
  shares_.places.give_back(owner, 1);
  if (shares_.places.held(owner) > 0) return;
  idle_.erase(owner);
  shares_.owners.forget(owner);
}

bool Daemon::on_moved(uint64_t id, uint64_t before) {
  const uint64_t owner = connections_.at(id)->owner();
  give_back_place(before);
  shares_.places.take(owner, 1);
  return find_place(owner, 0);
}

void Daemon::on_connection_closed(uint64_t id) {
  if (const auto it = connections_.find(id); it != connections_.end()) {
    const uint64_t owner = it->second->owner();
    connections_.erase(it);
    give_back_place(owner);
  }
  if (!connections_.empty() || draining_) return;
  if (config_.pipe) return drain("the client is gone");
  arm_idle();
}

// Whoever started this process waits for one line.
void Daemon::tell_starter(const std::string& line) {
  if (!starter_) return;
  std::string text = line + "\n";
  (void)!::write(starter_.get(), text.data(), text.size());
  starter_.reset();
}

void Daemon::fail(const Error& failure) {
  log_.warn("failed", {{"reason", failure.message}});
  if (!config_.foreground) ::dprintf(STDERR_FILENO, "kilnd: %s\n", failure.message.c_str());
  tell_starter("error " + failure.message);
  stop(1);
}

nlohmann::json Daemon::stats() const {
  nlohmann::json out = metrics_.to_json();
  out.update(scheduler_->stats());
  out.update(store_->stats());
  out.update(pool_.stats());
  out.update(tuner_.stats());
  out.update(tune_worker_.stats());
  auto uptime = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - started_);
  out["pid"] = ::getpid();
  out["uptime_ms"] = uptime.count();
  out["rss_bytes"] = resident_bytes();
  out["reserve_used_bytes"] = reserve_.used();
  out["reserve_refused_total"] = reserve_.refused();
  out["connections"] = connections_.size();
  out["job_list"] = scheduler_->list(kListedJobs);
  out["slow_log"] = history_.slow();
  out["poison"] = scheduler_->poisoned();
  out["draining"] = draining_ ? 1 : 0;
  out["builder_id"] = services_->builder_id;
  out["config"] = to_json(config_);
  return out;
}

}  // namespace kiln::server

// Starts kiln-tune where it is wanted, and passes frames on.
#include "processes/tuner_process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <new>

#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"
#include "kiln/wire/process.h"
#include "kiln/wire/trusted.h"
#include "processes/process_state.h"

namespace kiln::server {
namespace {

constexpr int kChannelFd = 3;
// A tuner that died so often without an answer is left alone for a while.
constexpr unsigned kManyDeaths = 3;
constexpr std::chrono::seconds kRest{60};
constexpr std::chrono::milliseconds kLook{250};
constexpr int kPatience = 3;  // times a client's with a greeting, as with the zygote

// With the daemon's own environment: drivers, home and data directories are found there.
wire::Program tuner(const Config& config, int channel) {
  wire::Program out{.command = {config.tuner_path, "--serve", "--runtime-dir", config.runtime_dir}};
  if (!config.golden_path.empty()) out.command.insert(out.command.end(), {"--golden", config.golden_path});
  if (config.frozen) out.command.push_back("--frozen");
  out.descriptors = {{.number = 0, .path = "/dev/null", .flags = O_RDONLY},
                     {.number = 1, .fd = STDERR_FILENO},  // standard output may be a client's channel
                     {.number = kChannelFd, .fd = channel}};
  out.group = wire::ProcessGroup::kOwn;
  return out;
}

Error too_many() {
  Error out = error(ErrorCode::kResourceExhausted, "too many requests wait for the tuner");
  out.retryable = true;
  out.retry_after_ms = 1000;
  return out;
}

// The body, with which a part of the shares is taken as long as it is there.
SharedBytes holding(SharedBytes body, std::shared_ptr<const void> place, std::shared_ptr<const void> room) {
  struct Held {
    SharedBytes body;
    std::shared_ptr<const void> place, room;
  };
  auto held = std::make_shared<const Held>(Held{std::move(body), std::move(place), std::move(room)});
  return {held, held->body.get()};
}

}  // namespace

TunerProcess::TunerProcess(asio::io_context& io, const Config& config, std::shared_ptr<Bytes> scratch, Log& log,
                           Metrics& metrics, History& history)
    : io_(io),
      config_(config),
      scratch_(std::move(scratch)),
      log_(log),
      metrics_(metrics),
      history_(history),
      look_(io) {}

TunerProcess::~TunerProcess() { stop(); }

Result<void> TunerProcess::start() {
  if (stopped_) return error(ErrorCode::kDraining, "the daemon is about to exit");
  if (config_.tuner_path.empty()) {
    const std::string why = config_.no_tuner.empty() ? "" : ": " + config_.no_tuner;
    return error(ErrorCode::kUnavailable, "this daemon has no tuner (kiln-tune)" + why);
  }
  if (deaths_ >= kManyDeaths && std::chrono::steady_clock::now() - died_ < kRest) {
    return error(ErrorCode::kUnavailable, "the tuner died " + std::to_string(deaths_) + " times in a row and rests");
  }
  if (auto fine = wire::check_trusted(config_.tuner_path); !fine) return fine;
  auto pair = wire::make_channel_pair();
  if (!pair) return pair.error();
  auto ours = watched(io_, std::move(pair->ours));
  if (!ours) return ours.error();
  // The shares of those who ask bound it.
  auto socket = std::make_shared<FrameSocket>(io_, std::move(*ours), scratch_,
                                              FrameSocket::Options{.limits = {.max_body = 0}, .max_pending = SIZE_MAX});
  auto pid = wire::spawn(tuner(config_, pair->theirs.get()));
  if (!pid) return pid.error();
  pid_ = *pid;
  socket_ = std::move(socket);
  ++metrics_.tuner_starts;
  try {
    log_.info("tuner_started", {{"tuner_pid", pid_}});
    socket_->start({.frame = [this](const wire::Frame& frame) { on_frame(frame); },
                    .closed = [this](const CloseReason& reason) { on_closed(reason); }});
    stopped_for_ = {};
    watch();
  } catch (const std::bad_alloc&) {  // nobody would hear it
    end();
    throw;
  }
  return {};
}

// One that is stopped answers nobody, for ever. Its time is counted in looks, so that it has it also where the machine
// stands still.
void TunerProcess::watch() {
  look_.expires_after(kLook);
  look_.async_wait([this](const boost::system::error_code& failed) {
    if (failed || !socket_) return;
    watch();
    const auto state = process_state(pid_);
    stopped_for_ = state && state->stopped && !waiting_.empty() ? stopped_for_ + kLook : std::chrono::milliseconds(0);
    if (stopped_for_ <= kPatience * config_.hello_timeout) return;
    socket_->close();
    on_closed({CloseReason::kIo, false, "it was stopped for too long"});
  });
}

void TunerProcess::submit(Request request, Reply reply) {
  ++metrics_.tune_requests;
  Waiting waiting{std::move(request), std::move(reply), std::chrono::steady_clock::now()};
  const uint64_t owner = waiting.request.owner, size = waiting.request.body->size();
  if (!requests_->admits(owner, 1, config_.queue_jobs) || !bytes_->admits(owner, size, config_.queue_bytes)) {
    ++metrics_.queue_rejected;
    return refuse(waiting, too_many());
  }
  if (!socket_) {
    if (auto started = start(); !started) return refuse(waiting, started.error());
  }
  waiting.place = take_room(requests_, owner, 1);
  waiting.room = take_room(bytes_, owner, size);
  const uint64_t id = next_++;
  log_.info("tune", {{"trace_id", waiting.request.trace_id}, {"tune_id", id}});
  Outgoing out{.type = wire::Type::kTune,
               .request_id = id,
               .json = std::move(waiting.request.json),
               .body = holding(std::move(waiting.request.body), waiting.place, waiting.room)};
  waiting_.emplace(id, std::move(waiting));
  socket_->send(std::move(out));
}

void TunerProcess::refuse(const Waiting& waiting, const Error& failure) {
  remember(waiting, std::string(to_string(failure.code)));
  log_.warn("tune_failed", {{"trace_id", waiting.request.trace_id}, {"message", failure.message}});
  waiting.reply(failure);
}

void TunerProcess::remember(const Waiting& waiting, std::string outcome) {
  history_.add({.type = "TUNE",
                .key = waiting.request.key,
                .trace_id = waiting.request.trace_id,
                .client = waiting.request.owner,
                .waiters = 1,
                .outcome = std::move(outcome),
                .asked = waiting.asked,
                .queued = {},
                .started = {},
                .ended = std::chrono::steady_clock::now(),
                .phases = {}});
}

void TunerProcess::on_frame(const wire::Frame& frame) {
  deaths_ = 0;
  auto found = waiting_.find(frame.id());
  if (found == waiting_.end()) return;  // the client left
  const Waiting waiting = std::move(found->second);
  waiting_.erase(found);
  const bool tuned = frame.type() == wire::Type::kTuned;
  log_.info(tuned ? "tuned" : "tune_failed", {{"trace_id", waiting.request.trace_id}, {"tune_id", frame.id()}});
  Result<std::string> answer = frame.json;
  if (!tuned) answer = wire::parse_error(frame.json);
  remember(waiting, answer ? "tuned" : std::string(to_string(answer.error().code)));
  waiting.reply(answer);
}

void TunerProcess::forget(uint64_t id) {
  remember(waiting_.at(id), "CANCELLED");
  waiting_.erase(id);
  if (socket_) socket_->send({.type = wire::Type::kCancel, .request_id = id});
}

void TunerProcess::cancel(const Requester& requester) {
  for (auto it = waiting_.begin(); it != waiting_.end(); ++it) {
    if (it->second.request.requester != requester) continue;
    const Reply reply = std::move(it->second.reply);
    forget(it->first);
    return reply(error(ErrorCode::kCancelled, "cancelled"));
  }
}

void TunerProcess::forget_client(uint64_t client) {
  for (auto it = waiting_.begin(); it != waiting_.end();) {
    const uint64_t id = it->first;
    const bool theirs = it->second.request.requester.client == client;
    ++it;
    if (theirs) forget(id);
  }
}

void TunerProcess::on_closed(const CloseReason& reason) {
  auto keep = std::move(socket_);  // its code is still on the stack
  std::string cause = reason.message.empty() ? "it closed its channel" : reason.message;
  const bool was_stopped = stopped_for_ > kPatience * config_.hello_timeout;
  ::kill(-pid_, SIGKILL);  // with its runners; of no use even if it still runs
  int status = 0;
  if (::waitpid(pid_, &status, 0) == pid_ && !was_stopped) cause = wire::exit_text(status);
  pid_ = -1;
  ++deaths_;
  died_ = std::chrono::steady_clock::now();
  ++metrics_.tuner_deaths;
  log_.warn("tuner_died", {{"cause", cause}, {"waiting", waiting_.size()}});
  fail_all(error(ErrorCode::kUnavailable, "the tuner died: " + cause));
}

void TunerProcess::fail_all(const Error& failure) {
  auto waiting = std::exchange(waiting_, {});
  for (auto& [id, each] : waiting) {
    remember(each, std::string(to_string(failure.code)));
    each.reply(failure);
  }
}

void TunerProcess::stop() {
  stopped_ = true;
  if (!socket_) return;
  end();
  fail_all(error(ErrorCode::kDraining, "the daemon is about to exit"));
}

void TunerProcess::end() {
  socket_->close();
  socket_ = nullptr;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

nlohmann::json TunerProcess::stats() const {
  return {{"tuner_running", socket_ ? 1 : 0}, {"tune_waiters", waiting_.size()}};
}

}  // namespace kiln::server

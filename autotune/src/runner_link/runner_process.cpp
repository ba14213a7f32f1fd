// The process has a group of its own, so that its end takes what it started along, and one socket for both directions.
#include "runner_link/runner_process.h"

#include <fcntl.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <set>

#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/process.h"

namespace kiln::autotune {
namespace {

using nlohmann::json;
using wire::Clock;

constexpr Seconds kGreetingTime(60);  // drivers take seconds to start
constexpr Seconds kLongest(1e8);
constexpr auto kExitTime = std::chrono::seconds(2);
constexpr auto kKillTime = std::chrono::seconds(20);  // a driver has a hung device to reset
constexpr Seconds kTurnsOfOthers(90);  // how long one request may wait for another process's measurements
constexpr auto kSlice = std::chrono::milliseconds(100);  // between two looks at a stop
constexpr auto kMoment = std::chrono::seconds(1);        // that a request still has after it
constexpr auto kStandstill = std::chrono::milliseconds(500);

// Null where the line is no object, or of values so deep in each other that nobody could copy them.
json parsed(const std::string& line) {
  auto object = wire::parse_object(line);
  return object ? std::move(*object) : json();
}

wire::Deadline deadline_in(Seconds time) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::min(time, kLongest));
}

// What a request turns to, one after the other.
std::set<CandidateId> candidates_of(const json& request) {
  std::set<CandidateId> out;
  if (const auto one = request.find("candidate"); one != request.end()) out.insert(one->get<CandidateId>());
  if (const auto all = request.find("candidates"); all != request.end()) {
    for (const json& each : *all) out.insert(each.get<CandidateId>());
  }
  return out;
}

// Nothing: the line is no answer.
std::optional<Answer> answer_of(const json& message) {
  const bool lost = message.value("device_lost", json(false)) == true;
  if (const auto reply = message.find("reply"); reply != message.end()) return Answer{*reply, {}, {}, lost};
  const auto refused = message.find("error");
  if (refused == message.end()) return std::nullopt;
  const json code = refused->is_object() ? refused->value("code", json()) : json();
  const json text = refused->is_object() ? refused->value("message", json()) : json();
  const Error why = error(code.is_string() ? parse_error_code(code.get<std::string>()) : ErrorCode::kInternal,
                          text.is_string() ? text.get<std::string>() : "the runner gave no reason");
  return Answer{{}, why, {}, lost};
}

}  // namespace

RunnerProcess::RunnerProcess(pid_t pid, wire::UniqueFd socket, wire::UniqueFd errors, wire::ReportRoom report,
                             std::stop_token stop)
    : pid_(pid),
      socket_(std::move(socket)),
      report_(std::move(report)),
      words_(std::move(errors)),
      stop_(std::move(stop)),
      lines_(socket_.get(), {words_.fd(), [this] { words_.read(); }}) {}

RunnerProcess::~RunnerProcess() { end(/*at_once=*/true); }

Result<std::unique_ptr<RunnerProcess>> RunnerProcess::start(const std::vector<std::string>& command,
                                                            std::stop_token stop) {
  auto pair = wire::make_channel_pair();
  if (!pair) return pair.error();
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return wire::errno_error(ErrorCode::kResourceExhausted, "pipe", errno);
  wire::UniqueFd errors(ends[0]), their_errors(ends[1]);
  ::fcntl(errors.get(), F_SETFL, O_NONBLOCK);
  wire::ReportRoom report;
  wire::Program program{.command = command,
                        .descriptors = {{.number = 0, .fd = pair->theirs.get()},
                                        {.number = 1, .fd = pair->theirs.get()},
                                        {.number = 2, .fd = their_errors.get()}},
                        .group = wire::ProcessGroup::kOwn};
  if (report.fd() >= 0) program.descriptors.push_back({.number = wire::kReportRoom, .fd = report.fd()});
  auto pid = wire::spawn(program);
  if (!pid) return pid.error();
  pair->theirs.reset();
  their_errors.reset();
  std::unique_ptr<RunnerProcess> process(
      new RunnerProcess(*pid, std::move(pair->ours), std::move(errors), std::move(report), std::move(stop)));
  if (auto greeted = process->greet(); !greeted) {
    if (greeted.error().code == ErrorCode::kCancelled) return greeted.error();
    const Death death = process->died(greeted.error());
    return error(ErrorCode::kUnavailable, command[0] + ": " + death.message);
  }
  return process;
}

Result<void> RunnerProcess::greet() {
  wire::Deadline deadline = deadline_in(kGreetingTime);
  auto line = next_line(deadline);
  if (!line) return line.error();
  auto info = parse_hello(parsed(*line));
  if (!info) return info.error();
  info_ = std::move(*info);
  return {};
}

Result<std::string> RunnerProcess::next_line(wire::Deadline& deadline) {
  for (;;) {
    const Clock::time_point now = Clock::now();
    if (stop_.stop_requested()) stopped_ = std::min(stopped_, now);
    if (now > stopped_ && now - stopped_ > kMoment) return error(ErrorCode::kCancelled, "it was stopped");
    const wire::Deadline look = std::min(deadline, now + kSlice);
    auto line = lines_.read(look);
    if (const auto late = Clock::now() - look; late > kStandstill) deadline += late;
    if (line || line.error().code != ErrorCode::kDeadlineExceeded || Clock::now() >= deadline) return line;
  }
}

Answer RunnerProcess::ask(json request, Seconds turn) {
  const int64_t id = next_id_++;
  running_.reset();
  request["id"] = id;
  if (auto sent = write_line(socket_.get(), request); !sent) return {{}, {}, died(sent.error())};
  std::set<CandidateId> to_come = candidates_of(request);
  const wire::Deadline patience = deadline_in(kTurnsOfOthers);
  wire::Deadline deadline = deadline_in(turn);
  for (;;) {
    auto line = next_line(deadline);
    if (!line && line.error().code == ErrorCode::kCancelled) {
      end(/*at_once=*/true);
      return {{}, line.error(), {}};
    }
    if (!line) return {{}, {}, died(line.error())};
    const json message = parsed(*line);
    if (!message.is_object() || message.value("id", json()) != id) {
      return {{}, {}, died(invalid_argument("it answered `" + line->substr(0, 80) + "`"))};
    }
    if (auto answer = answer_of(message)) return std::move(*answer);
    // Nothing else that it says gives it more time: one turn each candidate, and the turns of others.
    const json running = message.value("running", json());
    if (running.is_number_unsigned()) running_ = running.get<CandidateId>();
    const bool begins_turn = running_ && to_come.erase(*running_) > 0;
    const bool waits = message.value("waiting", json(false)) == true && Clock::now() < patience;
    if (begins_turn || waits) deadline = deadline_in(turn);
    if (Clock::now() >= deadline) return {{}, {}, died(error(ErrorCode::kDeadlineExceeded, "no answer in time"))};
  }
}

Death RunnerProcess::died(const Error& why) {
  const bool closed = why.code == ErrorCode::kUnavailable;
  const std::optional<int> status = end(/*at_once=*/!closed);
  Death out{Failure::kCrash, why.message, running_};
  if (why.code == ErrorCode::kDeadlineExceeded) {
    out.failure = Failure::kHang;
    out.message = "it did not end in time";
  } else if (closed && status && WIFSIGNALED(*status)) {
    // Nobody but the kernel, short of memory, sends this one.
    if (WTERMSIG(*status) == SIGKILL) out.failure = Failure::kResources;
    out.message = std::string("the runner died: ") + ::strsignal(WTERMSIG(*status)) +
                  (WTERMSIG(*status) == SIGKILL ? ", for its memory most likely" : "");
  } else if (closed && status && WIFEXITED(*status)) {
    out.message = "the runner ended with code " + std::to_string(WEXITSTATUS(*status));
  } else if (closed) {
    out.message = "the runner closed its output";
  } else {
    out.message = "the runner does not follow the protocol: " + why.message;
  }
  words_.read();
  const std::string words = words_.text();
  if (!words.empty()) out.message += "; its last words: " + words;
  return out;
}

void RunnerProcess::keep_report() const {
  const std::string directory = wire::present_runtime_dir();
  if (!directory.empty()) report_.keep(directory + "/kiln-runner.crash");
}

std::optional<int> RunnerProcess::end(bool at_once) {
  if (pid_ < 0) return std::nullopt;
  socket_.reset();
  std::optional<int> status;
  if (!at_once) status = wire::wait_for_exit(pid_, kExitTime);
  if (!status) {
    ::kill(-pid_, SIGKILL);
    (void)wire::wait_for_exit(pid_, kKillTime);
  }
  pid_ = -1;
  if (status && WIFSIGNALED(*status)) keep_report();
  return status;
}

}  // namespace kiln::autotune

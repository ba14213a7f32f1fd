// The process has a group of its own, so that its end takes what it started along, and one socket for both directions.
#include "runner_process.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <thread>

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every unistd.h

namespace kiln::autotune {
namespace {

using nlohmann::json;
using wire::Clock;

constexpr Seconds kGreetingTime(60);  // drivers take seconds to start
constexpr Seconds kLongest(1e8);
constexpr auto kExitTime = std::chrono::seconds(2);
constexpr auto kKillTime = std::chrono::seconds(20);  // a driver has a hung device to reset
constexpr size_t kLastWords = 400;

wire::Deadline deadline_in(Seconds time) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(std::min(time, kLongest));
}

Result<pid_t> spawn(const std::vector<std::string>& command, int socket, const std::string& errors) {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  posix_spawn_file_actions_init(&actions);
  posix_spawnattr_init(&attributes);
  sigset_t none, defaults;
  sigemptyset(&none);
  sigfillset(&defaults);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  posix_spawn_file_actions_adddup2(&actions, socket, 0);
  posix_spawn_file_actions_adddup2(&actions, socket, 1);
  posix_spawn_file_actions_addopen(&actions, 2, errors.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND, 0600);
  posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  std::vector<std::string> copy = command;
  std::vector<char*> arguments;
  for (std::string& argument : copy) arguments.push_back(argument.data());
  arguments.push_back(nullptr);
  pid_t pid = -1;
  const int status = ::posix_spawnp(&pid, arguments[0], &actions, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (status != 0) return wire::errno_error(ErrorCode::kUnavailable, "cannot start " + command[0], status);
  return pid;
}

std::optional<int> wait_for(pid_t pid, Clock::duration patience) {
  const auto deadline = Clock::now() + patience;
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (Clock::now() > deadline) return std::nullopt;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return status;
}

}  // namespace

RunnerProcess::RunnerProcess(pid_t pid, wire::UniqueFd socket, std::string directory)
    : pid_(pid), socket_(std::move(socket)), directory_(std::move(directory)), lines_(socket_.get()) {}

RunnerProcess::~RunnerProcess() { end(/*at_once=*/true); }

Result<std::unique_ptr<RunnerProcess>> RunnerProcess::start(const std::vector<std::string>& command,
                                                            const std::string& directory) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return wire::errno_error(ErrorCode::kResourceExhausted, "socketpair", errno);
  }
  wire::UniqueFd ours(ends[0]), theirs(ends[1]);
  auto pid = spawn(command, theirs.get(), directory + "/stderr");
  if (!pid) return pid.error();
  theirs.reset();
  std::unique_ptr<RunnerProcess> process(new RunnerProcess(*pid, std::move(ours), directory));
  if (auto greeted = process->greet(); !greeted) {
    const Death death = process->died(greeted.error());
    return error(ErrorCode::kUnavailable, command[0] + ": " + death.message);
  }
  return process;
}

Result<void> RunnerProcess::greet() {
  auto line = lines_.read(deadline_in(kGreetingTime));
  if (!line) return line.error();
  auto info = parse_hello(json::parse(*line, nullptr, false));
  if (!info) return info.error();
  info_ = std::move(*info);
  return {};
}

Answer RunnerProcess::ask(json request, Seconds silence) {
  const int64_t id = next_id_++;
  running_.reset();
  request["id"] = id;
  if (auto sent = write_line(socket_.get(), request); !sent) return {{}, {}, died(sent.error())};
  for (;;) {
    auto line = lines_.read(deadline_in(silence));
    if (!line) return {{}, {}, died(line.error())};
    const json message = json::parse(*line, nullptr, false);
    if (!message.is_object() || message.value("id", json()) != id) {
      return {{}, {}, died(invalid_argument("it answered `" + line->substr(0, 80) + "`"))};
    }
    const json running = message.value("running", json());
    if (running.is_number_unsigned()) running_ = running.get<CandidateId>();
    const bool lost = message.value("device_lost", json(false)) == true;
    if (const auto reply = message.find("reply"); reply != message.end()) return {*reply, {}, {}, lost};
    if (const auto refused = message.find("error"); refused != message.end()) {
      const json code = refused->is_object() ? refused->value("code", json()) : json();
      const json text = refused->is_object() ? refused->value("message", json()) : json();
      return {{},
              error(code.is_string() ? parse_error_code(code.get<std::string>()) : ErrorCode::kInternal,
                    text.is_string() ? text.get<std::string>() : "the runner gave no reason"),
              {},
              lost};
    }
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
  const std::string words = last_words();
  if (!words.empty()) out.message += "; its last words: " + words;
  return out;
}

std::string RunnerProcess::last_words() const {
  std::ifstream file(directory_ + "/stderr");
  std::string text(std::istreambuf_iterator<char>(file), {});
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.pop_back();
  return text.size() > kLastWords ? text.substr(text.size() - kLastWords) : text;
}

std::optional<int> RunnerProcess::end(bool at_once) {
  if (pid_ < 0) return std::nullopt;
  socket_.reset();
  std::optional<int> status;
  if (!at_once) status = wait_for(pid_, kExitTime);
  if (!status) {
    ::kill(-pid_, SIGKILL);
    (void)wait_for(pid_, kKillTime);
  }
  pid_ = -1;
  return status;
}

}  // namespace kiln::autotune

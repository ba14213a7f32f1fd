#include "service_fixture.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <thread>

#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace kiln::service_test {

namespace fs = std::filesystem;

TempDir::TempDir() {
  std::string pattern = (fs::temp_directory_path() / "kiln-test-XXXXXX").string();
  path_ = ::mkdtemp(pattern.data());
}

TempDir::~TempDir() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string DaemonProcess::start(const std::string& runtime_dir, const std::vector<std::string>& arguments) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "pipe failed";
  wire::UniqueFd ours(ends[0]), theirs(::fcntl(ends[1], F_DUPFD_CLOEXEC, 20));
  ::close(ends[1]);
  std::vector<std::string> words = {KILN_TEST_KILND, "--runtime-dir", runtime_dir, "--ready-fd", "3"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (auto& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, theirs.get(), 3);
  posix_spawn_file_actions_addclosefrom_np(&actions, 4);
  int failed = ::posix_spawn(&pid_, KILN_TEST_KILND, &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return std::strerror(failed);
  theirs.reset();
  std::string line;
  char chunk[256];
  ssize_t count;
  while (!line.ends_with('\n') && (count = ::read(ours.get(), chunk, sizeof chunk)) > 0) {
    line.append(chunk, static_cast<size_t>(count));
  }
  if (line.ends_with('\n')) line.pop_back();
  return line;
}

void DaemonProcess::signal(int number) const { ::kill(pid_, number); }

int DaemonProcess::wait(std::chrono::milliseconds patience) {
  int status = 0;
  if (!eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, patience)) return -1;
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void DaemonProcess::kill_now() {
  if (pid_ <= 0) return;
  // Politely first: under a sanitizer the end of the process is part of the test.
  ::kill(pid_, SIGTERM);
  if (wait() >= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
}

std::vector<std::string> ServiceTest::daemon_arguments() const {
  return {"--cache-dir",   cache(), "--worker",        KILN_TEST_WORKER,
          "--workers",     "4",     "--idle-timeout",  "60",
          "--kill-after",  "0.2",   "--drain-timeout", "1",
          "--crash-storm", "100000"};
}

void ServiceTest::start(std::vector<std::string> more) {
  auto arguments = daemon_arguments();
  for (size_t i = 0; i + 1 < more.size(); i += 2) {
    auto it = std::find(arguments.begin(), arguments.end(), more[i]);
    if (it == arguments.end()) {
      arguments.insert(arguments.end(), {more[i], more[i + 1]});
    } else {
      *(it + 1) = more[i + 1];
    }
  }
  ASSERT_EQ(daemon_.start(runtime(), arguments), "ready");
}

ConnectOptions ServiceTest::options() const {
  ConnectOptions out;
  out.runtime_dir = runtime();
  out.kilnd_path = KILN_TEST_KILND;
  out.worker_path = KILN_TEST_WORKER;
  out.autostart = false;
  out.allow_pipe = false;
  out.client_name = "service_tests";
  out.start_timeout = kPatience;
  return out;
}

std::unique_ptr<Connection> ServiceTest::connect() {
  auto connection = Connection::open(options());
  if (!connection) {
    ADD_FAILURE() << connection.error().message;
    return nullptr;
  }
  return std::move(*connection);
}

int ServiceTest::jobs_queued() {
  const auto depth = stats()["queue_depth"];
  return depth["interactive"].get<int>() + depth["background"].get<int>();
}

std::vector<pid_t> ServiceTest::busy_workers() {
  std::vector<pid_t> out;
  const auto figures = stats();
  for (const auto& worker : figures["worker_list"]) {
    const pid_t pid = worker["pid"];
    if (pid > 0 && worker["phase"] == "obey") out.push_back(pid);
  }
  return out;
}

void ServiceTest::let_go(const std::vector<pid_t>& workers) {
  for (pid_t pid : workers) ::kill(pid, SIGUSR1);
}

nlohmann::json ServiceTest::stats() {
  auto connection = connect();
  return connection ? figures_of(*connection) : nlohmann::json();
}

RequestBytes order(const std::string& what, uint64_t number, const std::string& salt, const std::string& debug) {
  std::string text = what + " " + std::to_string(number) + " " + salt;
  auto canonical = std::as_bytes(std::span(text)), names = std::as_bytes(std::span(debug));
  return {{canonical.begin(), canonical.end()}, {names.begin(), names.end()}};
}

bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience) {
  auto deadline = std::chrono::steady_clock::now() + patience;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(2ms);
  }
  return true;
}

std::vector<pid_t> descendants(pid_t root) {
  std::vector<pid_t> out;
  std::error_code gone;  // it may end while it is looked at
  fs::directory_iterator threads("/proc/" + std::to_string(root) + "/task", gone);
  for (; threads != fs::directory_iterator(); threads.increment(gone)) {
    std::ifstream children(threads->path() / "children");
    for (pid_t pid; children >> pid;) {
      out.push_back(pid);
      auto below = descendants(pid);
      out.insert(out.end(), below.begin(), below.end());
    }
  }
  return out;
}

bool alive(pid_t pid) {
  std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
  std::string skip, state;
  return stat >> skip >> skip >> state && state != "Z" && state != "X";
}

size_t open_descriptors(pid_t pid) {
  const std::string directory = "/proc/" + std::to_string(pid) + "/fd";
  struct stat info{};
  // A daemon hides the names from other processes of its user, and newer kernels tell their number to anybody.
  if (::stat(directory.c_str(), &info) == 0 && info.st_size > 0) return static_cast<size_t>(info.st_size);
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : fs::directory_iterator(directory)) ++count;
  return count;
}

RawPeer::RawPeer(const std::string& runtime_dir) {
  auto fd = wire::connect_socket(runtime_dir);
  if (!fd) ADD_FAILURE() << fd.error().message;
  channel_ = std::make_unique<wire::Channel>(fd ? std::move(*fd) : wire::UniqueFd());
}

Result<wire::Frame> RawPeer::read(std::chrono::milliseconds patience) {
  return channel_->read(wire::Clock::now() + patience);
}

void RawPeer::hello(wire::Version version) {
  wire::Hello hello;
  hello.version = version;
  std::string json = wire::to_text(hello);
  send({.type = wire::Type::kHello, .json = json});
}

void RawPeer::send(const wire::OutFrame& frame) { (void)channel_->write(frame, wire::Clock::now() + kPatience); }

void RawPeer::send_bytes(std::string_view bytes) {
  std::array<std::span<const std::byte>, 1> pieces = {std::as_bytes(std::span(bytes))};
  (void)wire::send_some(channel_->fd(), pieces, 0, -1);
}

bool RawPeer::closed(std::chrono::milliseconds patience) {
  auto deadline = wire::Clock::now() + patience;
  while (true) {
    auto frame = channel_->read(deadline);
    if (!frame) return frame.error().code == ErrorCode::kUnavailable;
  }
}

std::vector<std::string> entry_files(const std::string& cache_dir) {
  std::vector<std::string> out;
  std::error_code ignored;
  for (const auto& entry : fs::recursive_directory_iterator(cache_dir + "/v1", ignored)) {
    if (entry.is_regular_file()) out.push_back(entry.path().string());
  }
  return out;
}

}  // namespace kiln::service_test

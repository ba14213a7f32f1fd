// kiln-worker with a compiler that does what the request says: the canonical section is a text "<what> <number>
// <salt>".
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "attempts.h"
#include "fake_bytes.h"
#include "kiln/wire/frame.h"
#include "zygote.h"

namespace {

using kiln::Artifact;
using kiln::ErrorCode;
using kiln::Result;

struct Order {
  std::string what, salt;
  uint64_t number = 0;
  std::string debug = {};
};

[[noreturn]] void spin() {
  std::atomic<uint64_t> rounds{0};
  while (true) ++rounds;
}

// Ends only for a depth that nobody reaches.
[[gnu::noinline]] int overflow_stack(int depth, int end) {
  volatile char frame[4096];
  frame[0] = static_cast<char>(depth);
  if (depth == end) return 0;
  int below = overflow_stack(depth + 1, end);
  return frame[0] + below;
}

void write_raw(std::string_view bytes) { (void)!::write(kiln::worker::kChannelFd, bytes.data(), bytes.size()); }

void write_half_a_frame() {
  auto header = kiln::wire::encode_header({.type = kiln::wire::Type::kResult, .body_size = 1000});
  write_raw({reinterpret_cast<const char*>(header.data()), header.size()});
}

void announce(kiln::wire::Type type) {
  auto header = kiln::wire::encode_header({.type = type, .body_size = kiln::wire::kMaxBodySize, .request_id = 1});
  write_raw({reinterpret_cast<const char*>(header.data()), header.size()});
}

// Pages are touched, so that it is memory and not only address space.
[[noreturn]] void eat_memory() {
  while (true) {
    auto* block = new char[16u << 20];
    std::memset(block, 1, 16u << 20);
  }
}

Artifact bytes_artifact(const Order& order) {
  Artifact artifact;
  artifact.metadata.kernel = "fake";
  artifact.metadata.target = "cpu:fake";
  artifact.metadata.entry = order.salt;
  artifact.code = kiln::service_test::fake_bytes(order.salt, order.number);
  return artifact;
}

Artifact lying_artifact() {
  Artifact artifact;
  artifact.metadata.target = "cpu:fake";
  artifact.metadata.emit = "so";
  artifact.code = kiln::service_test::fake_bytes("no ELF file", 500);
  return artifact;
}

// Memory that stays: the worker has grown for good.
void grow(uint64_t mebibytes) {
  auto* block = new char[mebibytes << 20];
  std::memset(block, 1, mebibytes << 20);
  asm volatile("" : : "r"(block) : "memory");
}

bool has_room(uint64_t mebibytes) {
  void* block = std::malloc(mebibytes << 20);
  asm volatile("" : : "r"(block) : "memory");
  std::free(block);
  return block != nullptr;
}

// Forks until it is refused; the children live on. True where no child came to life.
bool fork_bomb() {
  for (int i = 0; i < 100; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) spin();
    if (pid > 0) return false;
  }
  return true;
}

// All variables, as the kernel has put them there: also those that were taken out since.
std::string_view environment_block;

std::string_view block_of(char** variables) {
  if (!*variables) return {};
  char** last = variables;
  while (last[1]) ++last;
  return {*variables, *last + std::strlen(*last)};
}

bool has_in_environment(const std::string& text) {
  bool found = environment_block.find(text) != std::string_view::npos;
  for (char** variable = environ; *variable; ++variable) found |= std::string_view(*variable).find(text) != text.npos;
  return found;
}

// What the sandbox left this process.
Artifact probe_artifact(const Order& order) {
  Artifact artifact;
  artifact.code.push_back(std::byte{1});
  auto& found = artifact.metadata.constexprs;
  found["may_fork"] = ::fork() >= 0 || errno != EPERM;
  char* nothing[] = {nullptr};
  found["may_exec"] = ::execve("/bin/true", nothing, nothing) >= 0 || errno != EPERM;
  found["open_files"] = ::sysconf(_SC_OPEN_MAX);
  found["has_home"] = ::getenv("HOME") != nullptr;
  found["has_place"] = !order.debug.empty() && has_in_environment(order.debug);
  return artifact;
}

int make_attempt(const Order& order) {
  kiln::service_test::Prey prey;
  prey.daemon = static_cast<pid_t>(order.number);
  std::istringstream(order.debug) >> prey.group >> prey.directory;
  return kiln::service_test::attempt(order.salt, prey);
}

// The assembler's name, which a daemon passes on, is the tests' word for what is to be otherwise.
bool is_wanted(std::string_view what) {
  const char* named = ::getenv("KILN_PTXAS");
  return named && named == what;
}

// A machine whose measurements never agree, where the test wants one.
kiln::worker::NativeTarget native_target() {
  kiln::worker::NativeTarget out{.processor = "cpu:fake"};
  if (!is_wanted("measures")) return out;
  out.measure = [] { return ";by=" + std::to_string(::getpid()); };
  out.may_be = [](const std::string& rest) { return rest.starts_with(";by="); };
  return out;
}

// Processes beside the worker, with the rights of those that run NVIDIA's assembler: one that reads nothing has started
// one that takes an order as text, and answers with the outcome of that attempt.
int helper = -1;

void start_helper(const kiln::worker::HelperRights& rights) {
  int ends[2];
  if (!is_wanted("helper") || ::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends) != 0) return;
  helper = ends[0];
  if (::fork() != 0) {
    ::close(ends[1]);
    return;
  }
  ::close(ends[0]);
  if (!rights.helper()) ::_exit(1);
  if (const pid_t pid = ::fork(); pid != 0) {
    ::waitpid(pid, nullptr, 0);
    ::_exit(0);
  }
  if (!rights.program()) ::_exit(1);
  char text[4096];
  for (ssize_t size; (size = ::recv(ends[1], text, sizeof text, 0)) > 0;) {
    Order order;
    std::istringstream words(std::string(text, static_cast<size_t>(size)));
    std::getline(words >> order.number >> order.salt >> std::ws, order.debug);
    const int outcome = order.salt == "lasting" ? ::getpid() : make_attempt(order);
    (void)!::send(ends[1], &outcome, sizeof outcome, 0);
  }
  ::_exit(0);
}

int attempt_beside(const Order& order) {
  const std::string text = std::to_string(order.number) + " " + order.salt + " " + order.debug;
  int outcome = 0;
  (void)!::send(helper, text.data(), text.size(), 0);
  (void)!::recv(helper, &outcome, sizeof outcome, 0);
  return outcome;
}

Artifact outcome_artifact(int outcome) {
  Artifact artifact;
  artifact.metadata.target = "cpu:fake";
  artifact.metadata.constexprs["errno"] = outcome;
  artifact.code.push_back(static_cast<std::byte>(outcome));
  return artifact;
}

// What libraries print, and what a terminal would obey.
void say(uint64_t bytes) {
  const std::string line = "a word \x1b]0;owned\x07 for the log" + std::string(100, '.') + "\n";
  for (uint64_t said = 0; said < bytes; said += line.size()) (void)!::write(STDERR_FILENO, line.data(), line.size());
}

// Into all that it has open to be written: what a terminal would obey, as long as there is room.
void fill_open_files() {
  const std::string line = "a word \x1b]0;owned\x07 for the report" + std::string(10'000, '.') + "\n";
  for (int number = 3; number < 64; ++number) {
    struct stat about{};
    if (::fstat(number, &about) != 0 || !S_ISREG(about.st_mode)) continue;
    for (int i = 0; i < 10'000 && ::write(number, line.data(), line.size()) > 0; ++i) {
    }
  }
}

// Told by SIGUSR1, for the order that waits for it: ServiceTest::let_go.
std::atomic<bool> may_go{false};

// What is done after an answer, by a thread of before the sandbox, in which none can be started.
std::atomic<void (*)()> afterwards{nullptr};

void wait_for_something_to_do() {
  std::thread([] {
    afterwards.wait(nullptr);
    ::usleep(200'000);
    afterwards.load()();
  }).detach();
}

void later(void (*act)()) {
  afterwards = act;
  afterwards.notify_one();
}

Result<Artifact> obey(const Order& order) {
  if (order.what == "attempt") return outcome_artifact(make_attempt(order));
  if (order.what == "attempt_beside") return outcome_artifact(attempt_beside(order));
  if (order.what == "lasting_beside") return outcome_artifact(attempt_beside({"", "lasting"}));
  if (order.what == "bytes") return bytes_artifact(order);
  if (order.what == "probe") return probe_artifact(order);
  if (order.what == "sleep") {
    ::usleep(static_cast<useconds_t>(order.number * 1000));
    return bytes_artifact({"bytes", order.salt, 64});
  }
  if (order.what == "waits") {
    while (!may_go.exchange(false)) ::usleep(1000);
    return bytes_artifact({"bytes", order.salt, 64});
  }
  if (order.what == "grow") {
    grow(order.number);
    return bytes_artifact({"bytes", order.salt, 64});
  }
  // Other bytes in each worker: a compiler that is not deterministic.
  if (order.what == "varies") return bytes_artifact({"bytes", std::to_string(::getpid()), 64});
  if (order.what == "forks") {
    if (!fork_bomb()) return kiln::internal_error("a child came to life");
    return kiln::error(ErrorCode::kCompileFailed, "no child came to life");
  }
  if (order.what == "says") {
    say(order.number);
    return bytes_artifact({"bytes", order.salt, 64});
  }
  if (order.what == "long_phase") {
    announce(kiln::wire::Type::kPhase);
    spin();
  }
  if (order.what == "long_afterwards") {
    later([] { announce(kiln::wire::Type::kResult); });
    return bytes_artifact({"bytes", order.salt, 64});
  }
  if (order.what == "restless" || order.what == "stops") {
    later(order.what == "stops" ? [] { ::raise(SIGSTOP); } : [] { spin(); });
    Artifact artifact = bytes_artifact({"bytes", order.salt, 64});
    artifact.metadata.constexprs["pid"] = ::getpid();
    return artifact;
  }
  // A worker that talks too much, and is of a kind of its own each time.
  if (order.what == "talks") {
    Artifact artifact = bytes_artifact({"bytes", order.salt, 64});
    artifact.metadata.target = order.salt + std::string(order.number, 'k') + ":fake";
    return artifact;
  }
  if (order.what == "starved") return kiln::internal_error("linking failed: " + std::string(std::strerror(ENOMEM)));
  if (order.what == "complains") {
    return kiln::error(ErrorCode::kCompileFailed, order.salt + std::string(order.number, 'c'));
  }
  if (order.what == "fail") return kiln::error(ErrorCode::kCompileFailed, "no such op: " + order.salt);
  // A compiler that takes it badly where memory is short.
  if (order.what == "needs" || order.what == "needs_or_hangs") {
    if (!has_room(order.number)) order.what == "needs" ? static_cast<void>(::raise(SIGSEGV)) : spin();
    return bytes_artifact({"bytes", order.salt, 64});
  }
  if (order.what == "throw") throw std::runtime_error("thrown");
  if (order.what == "lies") return lying_artifact();
  if (order.what == "empty") return Artifact{};
  if (order.what == "segv") ::raise(SIGSEGV);
  if (order.what == "fills_report") {
    fill_open_files();
    ::raise(SIGSEGV);
  }
  if (order.what == "abort") std::abort();
  if (order.what == "exit") ::_exit(static_cast<int>(order.number));
  if (order.what == "stack") return kiln::internal_error(std::to_string(overflow_stack(0, -1)));
  if (order.what == "hang") spin();
  if (order.what == "stubborn") {
    std::signal(SIGTERM, SIG_IGN);
    spin();
  }
  if (order.what == "memory") eat_memory();
  if (order.what == "garbage") {
    write_raw(std::string(500, 'x'));
    spin();
  }
  if (order.what == "half") {
    write_half_a_frame();
    ::_exit(0);
  }
  if (order.what == "halfhang") {
    write_half_a_frame();
    spin();
  }
  return kiln::invalid_argument("fake worker: unknown order " + order.what);
}

Result<Artifact> compile(std::span<const std::byte> canonical, std::span<const std::byte> debug,
                         const kiln::worker::Progress& progress) {
  std::istringstream text(std::string(reinterpret_cast<const char*>(canonical.data()), canonical.size()));
  Order order;
  text >> order.what >> order.number >> order.salt;
  order.debug.assign(reinterpret_cast<const char*>(debug.data()), debug.size());
  progress("obey");
  if (order.what == "phases") {
    const std::string name = "\x1b]0;owned\x07" + std::string(100, 'x'), longer(10'000, 'y');
    for (uint64_t i = 0; i < order.number; ++i) progress(i == 1 ? longer : name);
    return bytes_artifact({"bytes", order.salt, 64});
  }
  if (order.what == "talks") progress(std::string(std::min<uint64_t>(order.number, 200), 'p'));
  return obey(order);
}

}  // namespace

// Linked in the library's place (--wrap), so that a worker can be had that Landlock alone confines.
extern "C" int __real_seccomp_load(void* filter);  // NOLINT(bugprone-reserved-identifier)
extern "C" int __wrap_seccomp_load(void* filter);  // NOLINT(bugprone-reserved-identifier)
int __wrap_seccomp_load(void* filter) { return is_wanted("no filter") ? 0 : __real_seccomp_load(filter); }

int main(int argc, char** argv) {
  environment_block = block_of(environ);
  // A crash is part of the test: the sanitizers must not turn it into a report that takes seconds.
  for (int number : {SIGSEGV, SIGABRT, SIGBUS}) std::signal(number, SIG_DFL);
  std::signal(SIGUSR1, [](int) { may_go = true; });
  const kiln::worker::Compiler compiler{.builder_id = [] { return std::string("fake-builder-1"); },
                                        .native_target = native_target,
                                        .warm_up = [](const std::string&) {},
                                        .start_helpers =
                                            [](const kiln::worker::HelperRights& rights) {
                                              start_helper(rights);
                                              wait_for_something_to_do();
                                            },
                                        .compile = compile};
  if (argc == 4 && std::strcmp(argv[1], "--compile") == 0) {
    return kiln::worker::compile_main(compiler, argv[2], argv[3]);
  }
  return argc == 2 && std::strcmp(argv[1], "--zygote") == 0 ? kiln::worker::zygote_main(compiler) : 2;
}

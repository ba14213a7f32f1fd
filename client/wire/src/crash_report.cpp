// The handler of signals and what it may touch.
#include "kiln/wire/crash_report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>

namespace kiln::wire {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
constexpr size_t kKeyDigits = 2 * sizeof(RequestKey);
constexpr off_t kMaxFile = 256 << 10;

struct Running {
  std::atomic<uint64_t> job{0};  // 0: free
  std::array<char, kKeyDigits + 1> key{};
};

struct State {
  std::array<char, 4096> path{};
  std::array<char, 2048> identity{};
  std::array<Running, 64> running;
  std::array<std::byte, 32 << 10> stack;  // where the usual one has overflowed
};

State& state() {
  static State out;
  return out;
}

template <size_t size>
void copy_text(std::array<char, size>& to, const std::string& text) {
  const size_t count = std::min(text.size(), size - 1);
  std::memcpy(to.data(), text.data(), count);
  to[count] = 0;
}

// From here on only what a handler of signals may call.
void write_text(int fd, const char* text) { (void)!::write(fd, text, std::strlen(text)); }

void write_number(int fd, uint64_t number) {
  char digits[24];
  char* at = digits + sizeof digits;
  *--at = 0;
  do {
    *--at = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  write_text(fd, at);
}

void write_report(int fd, int number) {
  State& s = state();
  write_text(fd, "crashed by signal ");
  write_number(fd, static_cast<uint64_t>(number));
  write_text(fd, ", process ");
  write_number(fd, static_cast<uint64_t>(::getpid()));
  write_text(fd, ", seconds since 1970: ");
  write_number(fd, static_cast<uint64_t>(::time(nullptr)));
  write_text(fd, "\n");
  write_text(fd, s.identity.data());
  for (const Running& one : s.running) {
    if (one.job.load() == 0) continue;
    write_text(fd, "in flight: ");
    write_text(fd, one.key.data());
    write_text(fd, "; once it is stored: kiln reproduce ");
    write_text(fd, one.key.data());
    write_text(fd, "\n");
  }
}

void report(int number) {
  const int fd = ::open(state().path.data(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (fd >= 0) {
    struct stat info{};
    if (::fstat(fd, &info) == 0 && info.st_size > kMaxFile) (void)!::ftruncate(fd, 0);
    write_report(fd, number);
    ::close(fd);
  }
  std::signal(number, SIG_DFL);
  ::raise(number);
}

}  // namespace

void install_crash_report(const std::string& path, const std::string& identity) {
  State& s = state();
  copy_text(s.path, path);
  copy_text(s.identity, identity);
  stack_t stack{};
  stack.ss_sp = s.stack.data();
  stack.ss_size = s.stack.size();
  ::sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_handler = report;
  action.sa_flags = SA_ONSTACK;
  for (int number : kSignals) ::sigaction(number, &action, nullptr);
}

void note_running(uint64_t job, const RequestKey& key) {
  for (Running& one : state().running) {
    if (one.job.load() != 0) continue;
    copy_text(one.key, to_hex(key));
    one.job.store(job);
    return;
  }
}

void note_ended(uint64_t job) {
  for (Running& one : state().running) {
    if (one.job.load() == job) one.job.store(0);
  }
}

}  // namespace kiln::wire

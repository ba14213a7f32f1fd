// The handler of signals and what it may touch.
#include "kiln/wire/crash_report.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <functional>
#include <utility>
#include <vector>

#include "kiln/wire/own_file.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/printable.h"
#include "kiln/wire/report_room.h"

namespace kiln::wire {
namespace {

constexpr int kSignals[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
constexpr off_t kMaxFile = 256 << 10;
constexpr size_t kKeptRequests = 8;  // of one crash
constexpr size_t kKeptFiles = 64;    // of all
constexpr const char* kRequest = ".request.";
constexpr size_t kStack = 32 << 10;                   // of the handler
constexpr uint64_t kFree = 0, kTaken = ~uint64_t{0};  // taken: not yet filled in

struct Running {
  std::atomic<uint64_t> job{kFree};
  std::array<char, 256> what{};
  bool is_key = false;
  std::span<const std::byte> request;
};

struct State {
  std::array<char, 4096> path{};
  std::array<char, 2048> identity{};
  std::array<Running, 64> running;
  int held = -1;                                    // the report's file, where it was opened beforehand
  sigset_t ignored{};                               // before reports were installed
  std::atomic<pid_t> reporter{0};                   // the thread that reports
  alignas(16) std::array<std::byte, kStack> stack;  // of the first thread
  std::atomic<bool> installed{false};
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

// Of the requests that crashes have left, the newest stay.
void forget_old_requests(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failed, ignored;
  std::vector<std::pair<fs::file_time_type, fs::path>> kept;
  const std::string prefix = fs::path(path + kRequest).filename().string();
  fs::directory_iterator file(fs::path(path).parent_path(), failed);
  for (; !failed && file != fs::directory_iterator(); file.increment(failed)) {
    if (file->path().filename().string().starts_with(prefix)) kept.emplace_back(file->last_write_time(ignored), *file);
  }
  std::sort(kept.begin(), kept.end(), std::greater<>());
  for (size_t i = kKeptFiles; i < kept.size(); ++i) fs::remove(kept[i].second, ignored);
}

// From here on only what a handler of signals may call.
void write_text(int fd, const char* text) { (void)!::write(fd, text, std::strlen(text)); }

const char* decimal(char (&digits)[24], uint64_t number) {
  char* at = digits + sizeof digits;
  *--at = 0;
  do {
    *--at = static_cast<char>('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return at;
}

void write_number(int fd, uint64_t number) {
  char digits[24];
  write_text(fd, decimal(digits, number));
}

// A kept request's name, which no later crash takes: PATH.request.SECONDS-PROCESS-INDEX.
using RequestPath = char[sizeof(State::path) + 80];
void request_path(RequestPath& out, uint64_t seconds, size_t index) {
  char digits[24];
  std::strcpy(out, state().path.data());
  std::strcat(out, kRequest);
  std::strcat(out, decimal(digits, seconds));
  std::strcat(out, "-");
  std::strcat(out, decimal(digits, static_cast<uint64_t>(::getpid())));
  std::strcat(out, "-");
  std::strcat(out, decimal(digits, index));
}

bool keep_request(const char* path, std::span<const std::byte> request) {
  const int fd = open_own_file(AT_FDCWD, path, O_WRONLY | O_CREAT | O_EXCL);
  if (fd < 0) return false;
  while (!request.empty()) {
    const ssize_t count = ::write(fd, request.data(), request.size());
    if (count <= 0) break;
    request = request.subspan(static_cast<size_t>(count));
  }
  ::close(fd);
  return request.empty();
}

void write_report(int fd, int number) {
  State& s = state();
  const auto now = static_cast<uint64_t>(::time(nullptr));
  write_text(fd, "crashed by signal ");
  write_number(fd, static_cast<uint64_t>(number));
  write_text(fd, ", process ");
  write_number(fd, static_cast<uint64_t>(::getpid()));
  write_text(fd, ", seconds since 1970: ");
  write_number(fd, now);
  write_text(fd, "\n");
  write_text(fd, s.identity.data());
  for (size_t i = 0; i < s.running.size(); ++i) {
    const Running& one = s.running[i];
    if (one.job.load() == kFree || one.job.load() == kTaken) continue;
    write_text(fd, "in flight: ");
    write_text(fd, one.what.data());
    RequestPath path;
    request_path(path, now, i);
    if (i < kKeptRequests && !one.request.empty() && keep_request(path, one.request)) {
      write_text(fd, "; again: kiln reproduce ");
      write_text(fd, path);
    } else if (one.is_key) {
      write_text(fd, "; once it is stored: kiln reproduce ");
      write_text(fd, one.what.data());
    }
    write_text(fd, "\n");
  }
}

int open_report(const char* path) {
  const int fd = open_own_file(AT_FDCWD, path, O_WRONLY | O_CREAT | O_APPEND);
  struct stat info{};
  if (fd >= 0 && ::fstat(fd, &info) == 0 && info.st_size > kMaxFile) (void)!::ftruncate(fd, 0);
  return fd;
}

void write_report_file(int number) {
  const int fd = state().held >= 0 ? state().held : open_report(state().path.data());
  if (fd < 0) return;
  write_report(fd, number);
  ::close(fd);
}

// The kernel's signals about what the process did itself have codes above zero.
bool is_sent_by_others(const siginfo_t& info) { return info.si_code <= 0 && info.si_pid != ::getpid(); }

// Of threads that crash at once the first reports, and the process ends with it; a crash of the report ends it too.
void report(int number, siginfo_t* info, void*) {
  if (::sigismember(&state().ignored, number) == 1 && is_sent_by_others(*info)) return;
  const pid_t self = ::gettid();
  pid_t before = 0;
  if (state().reporter.compare_exchange_strong(before, self)) {
    write_report_file(number);
  } else if (before != self) {
    while (true) ::pause();
  }
  std::signal(number, SIG_DFL);
  ::raise(number);
}

// The stack of another thread's handler, until it ends. One that has a stack from somebody else keeps that: a
// sanitizer, say. A key knows it, and not an object of the thread's: glibc allocates for the destructor of one, and
// ends the process where it cannot.
void end_handler_stack(void* memory) {
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
  ::munmap(memory, kStack);
}

pthread_key_t make_key() {
  pthread_key_t key{};
  ::pthread_key_create(&key, end_handler_stack);
  return key;
}

void begin_handler_stack() {
  static const pthread_key_t key = make_key();
  stack_t now{};
  if (::sigaltstack(nullptr, &now) != 0 || (now.ss_flags & SS_DISABLE) == 0) return;
  void* memory = ::mmap(nullptr, kStack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;  // its overflows are not reported
  if (::pthread_setspecific(key, memory) != 0) {
    ::munmap(memory, kStack);
    return;
  }
  stack_t ours{};
  ours.ss_sp = memory;
  ours.ss_size = kStack;
  ::sigaltstack(&ours, nullptr);
}

}  // namespace

void install_crash_report(const std::string& path, const std::string& identity) {
  forget_old_requests(path);
  State& s = state();
  copy_text(s.path, path);
  copy_text(s.identity, identity);
  stack_t stack{};
  stack.ss_sp = s.stack.data();
  stack.ss_size = s.stack.size();
  ::sigaltstack(&stack, nullptr);
  struct sigaction action{};
  action.sa_sigaction = report;
  action.sa_flags = SA_ONSTACK | SA_SIGINFO | SA_RESTART;
  for (int number : kSignals) {
    struct sigaction before{};
    if (::sigaction(number, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) ::sigaddset(&s.ignored, number);
    ::sigaction(number, &action, nullptr);
  }
  s.installed.store(true, std::memory_order_relaxed);
}

void report_overflows_here() {
  if (!state().installed.load(std::memory_order_relaxed)) return;
  thread_local bool has_begun = false;
  if (!std::exchange(has_begun, true)) begin_handler_stack();
}

void hold_crash_report() {
  State& s = state();
  if (s.path[0] != 0 && s.held < 0) s.held = open_report(s.path.data());
}

void report_crashes_into(int room) { state().held = room; }

namespace {
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
}

bool is_report_room(int fd) { return ::fcntl(fd, F_GET_SEALS) == kSeals; }

ReportRoom::ReportRoom() {
  UniqueFd file(::memfd_create("kiln-report", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const bool is_fixed = file && ::ftruncate(file.get(), kSize) == 0 && ::fcntl(file.get(), F_ADD_SEALS, kSeals) == 0;
  if (is_fixed) file_ = std::move(file);
}

void ReportRoom::keep(const std::string& path) const {
  std::array<char, kSize> bytes{};
  if (!file_ || ::pread(file_.get(), bytes.data(), bytes.size(), 0) <= 0 || bytes[0] == 0) return;
  const UniqueFd report(open_report(path.c_str()));
  const std::string text = printable_lines({bytes.data(), ::strnlen(bytes.data(), bytes.size())});
  if (report) (void)!::write(report.get(), text.data(), text.size());
}

void install_crash_report_of(const std::string& program, const std::string& version) {
  const std::string dir = present_runtime_dir();
  if (dir.empty()) return;
  install_crash_report(dir + "/" + program + ".crash",
                       program + " " + version + ", build-id " + read_build_id(self_path()) + "\n");
}

namespace {

void note(uint64_t job, const std::string& what, bool is_key, std::span<const std::byte> request) {
  for (Running& one : state().running) {
    uint64_t free = kFree;
    if (!one.job.compare_exchange_strong(free, kTaken)) continue;
    copy_text(one.what, what);
    one.is_key = is_key;
    one.request = request;
    one.job.store(job);
    return;
  }
}

}  // namespace

void note_running(uint64_t job, const RequestKey& key, std::span<const std::byte> request) {
  note(job, to_hex(key), true, request);
}

void note_running(uint64_t job, const std::string& what) { note(job, what, false, {}); }

void note_ended(uint64_t job) {
  for (Running& one : state().running) {
    if (one.job.load() == job) one.job.store(kFree);
  }
}

}  // namespace kiln::wire

// A handler may call next to nothing, so it only wakes a thread:
//
//   SIGUSR2 → handler: adds 1 to a counter of the kernel's (eventfd) → the thread, which waits for it: show()
#include "on_signal.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <system_error>
#include <thread>

#include "kiln/wire/crash_report.h"
#include "signals.h"

namespace kiln::client {
namespace {

constexpr int kSignal = SIGUSR2;

struct Shown {
  int counter = -1;
  pid_t process = 0;
  std::atomic<bool> ends{false};
  std::thread thread;
};

// What the handler reads is there before the handler is. Never destroyed: the handler stays.
Shown& shown() {
  static Shown& shown = *new Shown;
  return shown;
}
std::atomic<Shown*> of_handler{nullptr};

void wake(const Shown& shown) {
  const uint64_t one = 1;
  (void)!::write(shown.counter, &one, sizeof one);
}

void handle(int signal) {
  const int error = errno;
  const Shown& shown = *of_handler.load(std::memory_order_relaxed);
  if (shown.process == ::getpid()) {
    wake(shown);
  } else {  // the child of a fork(), where no thread waits: the signal does what it does without us
    std::signal(signal, SIG_DFL);
    std::raise(signal);
  }
  errno = error;
}

bool is_left_to_system() {
  struct sigaction now{};
  return ::sigaction(kSignal, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == SIG_DFL;
}

void show_when_woken(Shown& shown, void (*show)()) {
  uint64_t times = 0;
  while (::read(shown.counter, &times, sizeof times) == sizeof times || errno == EINTR) {
    if (shown.ends.load(std::memory_order_acquire)) return;
    show();
  }
}

}  // namespace

void show_on_signal(void (*show)()) {
  Shown& all = shown();
  if (!is_left_to_system()) return;
  all.counter = ::eventfd(0, EFD_CLOEXEC);
  if (all.counter < 0) return;
  all.process = ::getpid();
  try {
    const SignalsBlocked inherited_by_the_thread;
    all.thread = std::thread(wire::reporting([&all, show] { show_when_woken(all, show); }));
  } catch (const std::system_error&) {  // no thread to be had: the signal stays what it is
    ::close(all.counter);
    return;
  }
  of_handler.store(&all, std::memory_order_relaxed);
  // System calls of the program go on, and so do threads that have little stack, if they have one for signals.
  struct sigaction ours{};
  ours.sa_handler = handle;
  ours.sa_flags = SA_RESTART | SA_ONSTACK;
  ::sigaction(kSignal, &ours, nullptr);
}

void show_no_more() {
  Shown& all = shown();
  if (!all.thread.joinable()) return;
  all.ends.store(true, std::memory_order_release);
  wake(all);
  all.thread.join();
}

}  // namespace kiln::client

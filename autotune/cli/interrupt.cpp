// A handler may do little more than write to a descriptor; a thread turns that into the request.
#include "interrupt.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>

#include "kiln/wire/crash_report.h"

namespace kiln::autotune::cli {
namespace {

constexpr uint64_t kSignal = 1, kEnd = uint64_t{1} << 32;

volatile std::sig_atomic_t event_fd = -1;

void on_signal(int) {
  const uint64_t one = kSignal;
  [[maybe_unused]] const ssize_t written = ::write(event_fd, &one, sizeof one);
}

}  // namespace

Interrupt::Interrupt() : events_(::eventfd(0, EFD_CLOEXEC)) {
  event_fd = events_.get();
  listener_ = std::thread(wire::reporting([this] {
    for (uint64_t events = 0; ::read(events_.get(), &events, sizeof events) == sizeof events && events < kEnd;) {
      source_.request_stop();
    }
  }));
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_RESTART | static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

Interrupt::~Interrupt() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
  const uint64_t end = kEnd;
  [[maybe_unused]] const ssize_t written = ::write(events_.get(), &end, sizeof end);
  listener_.join();
  event_fd = -1;
}

}  // namespace kiln::autotune::cli

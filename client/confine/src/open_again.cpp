// Opening what is open already. A filter of system calls sees no names, so it gives each opening to the handler of a
// signal, which can open nothing itself, and copies the descriptor that the name is of.
#include "open_again.h"

#include <fcntl.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <string_view>

namespace kiln::confine {
namespace {

constexpr int kByFilter = 1;  // SYS_SECCOMP, which the C library's header lacks
constexpr std::string_view kDescriptors = "/proc/self/fd/";

// As the system call would answer.
int open_again(std::string_view name) {
  int number = -1;
  if (!name.starts_with(kDescriptors)) return -EACCES;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kDescriptors.size(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0) return -EACCES;
  const int copy = ::fcntl(number, F_DUPFD_CLOEXEC, 0);
  return copy < 0 ? -errno : copy;
}

// The registers of openat's result and of its second argument.
struct Registers {
#if defined(__x86_64__)
  explicit Registers(mcontext_t& of) : result(of.gregs[REG_RAX]), name(of.gregs[REG_RSI]) {}
  greg_t& result;
  greg_t& name;
#else
  explicit Registers(mcontext_t& of) : result(of.regs[0]), name(of.regs[1]) {}
  unsigned long long& result;
  unsigned long long& name;
#endif
};

void answer(int, siginfo_t* info, void* context) {
  if (info->si_code != kByFilter) {
    std::signal(SIGSYS, SIG_DFL);
    (void)std::raise(SIGSYS);
    return;
  }
  const int before = errno;
  Registers call(static_cast<ucontext_t*>(context)->uc_mcontext);
  call.result = open_again(reinterpret_cast<const char*>(static_cast<uintptr_t>(call.name)));
  errno = before;
}

}  // namespace

void answer_openings() {
  struct sigaction action{};
  action.sa_sigaction = answer;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  ::sigaction(SIGSYS, &action, nullptr);
}

}  // namespace kiln::confine

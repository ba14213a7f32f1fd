// Opening what is open already, and looking at it. A filter of system calls sees no names, so it gives each opening to
// the handler of a signal, which can open nothing itself, and copies the descriptor that the name is of. So with looks:
// size, times and owner of any file are what Landlock hides from nobody.
#include "open_again.h"

#include <fcntl.h>
#include <sys/syscall.h>
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

// The descriptor that the name is of; else what the system call would answer.
int number_in(const char* text) {
  if (!text) return -EFAULT;
  const std::string_view name = text;
  int number = -1;
  if (!name.starts_with(kDescriptors)) return -EACCES;
  const char* end = name.data() + name.size();
  const auto parsed = std::from_chars(name.data() + kDescriptors.size(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || number < 0) return -EACCES;
  return number;
}

// The registers of a system call's result and of its arguments.
struct Call {
#if defined(__x86_64__)
  explicit Call(mcontext_t& of)
      : result(of.gregs[REG_RAX]),
        arguments{of.gregs[REG_RDI], of.gregs[REG_RSI], of.gregs[REG_RDX], of.gregs[REG_R10]} {}
  greg_t& result;
  const greg_t arguments[4];
#else
  explicit Call(mcontext_t& of) : result(of.regs[0]), arguments{of.regs[0], of.regs[1], of.regs[2], of.regs[3]} {}
  unsigned long long& result;
  const unsigned long long arguments[4];
#endif
  int number(int index) const { return static_cast<int>(arguments[index]); }
  void* pointer(int index) const { return reinterpret_cast<void*>(static_cast<uintptr_t>(arguments[index])); }
  const char* name() const { return static_cast<const char*>(pointer(1)); }
};

int open_again(const Call& call) {
  const int number = number_in(call.name());
  if (number < 0) return number;
  const int copy = ::fcntl(number, F_DUPFD_CLOEXEC, 0);
  return copy < 0 ? -errno : copy;
}

// Of a descriptor itself, which is how C libraries of some years make fstat(), or by its name. Of the link that the
// name is, nobody needs to know.
int look_again(const Call& call) {
  const int flags = call.number(3);
  const bool has_name = call.name() && *call.name() != '\0';
  int number = call.number(0);
  if (has_name || (flags & AT_EMPTY_PATH) == 0) {
    number = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? -EACCES : number_in(call.name());
    if (number < 0) return number;
  }
  return ::syscall(SYS_fstat, number, call.pointer(2)) == 0 ? 0 : -errno;
}

void answer(int, siginfo_t* info, void* context) {
  if (info->si_code != kByFilter) {
    std::signal(SIGSYS, SIG_DFL);
    (void)std::raise(SIGSYS);
    return;
  }
  const int before = errno;
  Call call(static_cast<ucontext_t*>(context)->uc_mcontext);
  call.result = info->si_syscall == SYS_openat ? open_again(call) : look_again(call);
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

// The zygote: says hello, warms up, then forks workers on command and reports their deaths.
#include "zygote.h"

#include <poll.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "kiln/confine/confine.h"
#include "kiln/wire/crash_report.h"
#include "kiln/wire/json.h"
#include "kiln/wire/paths.h"
#include "kiln/wire/report_room.h"

namespace kiln::worker {
namespace {

using wire::Channel;
using wire::Type;
using wire::UniqueFd;

struct Child {
  uint64_t id = 0;
  pid_t pid = 0;
  UniqueFd pidfd;
  wire::ReportRoom report;
};

struct Zygote {
  Channel channel;
  const Compiler& compiler;
  const std::string report_file;  // empty: none
  std::vector<Child> children;

  bool tell(Type type, uint64_t id, const nlohmann::json& json, int fd = -1) {
    std::string text = wire::dump(json);
    return channel.write({.type = type, .request_id = id, .json = text, .body = {}, .flags = 0, .fd = fd}).ok();
  }

  bool spawn(wire::Frame frame);
  bool reap(size_t index);
  int run();
};

Limits parse_limits(const nlohmann::json& object) {
  wire::Fields fields(object);
  Limits limits;
  limits.memory_bytes = fields.number("memory_bytes", limits.memory_bytes);
  limits.cpu_seconds = fields.number("cpu_seconds", limits.cpu_seconds);
  limits.max_jobs = fields.number("max_jobs", limits.max_jobs);
  limits.max_rss_bytes = fields.number("max_rss_bytes", limits.max_rss_bytes);
  return limits;
}

// In the forked process: keep the standard streams, the worker's channel and the room for its report, and nothing else
// of the zygote.
[[noreturn]] void become_worker(UniqueFd end, int report, const Limits& limits, const Compiler& compiler,
                                int zygote_pid) {
  if (::dup2(end.get(), kChannelFd) < 0) ::_exit(1);
  const bool reports = report >= 0 && ::dup2(report, kReportFd) == kReportFd;
  ::syscall(SYS_close_range, reports ? kReportFd + 1 : kReportFd, ~0u, 0);
  wire::report_crashes_into(reports ? kReportFd : -1);
  (void)end.release();
  worker_main(Channel(UniqueFd(kChannelFd)), limits, compiler, zygote_pid);
}

bool Zygote::spawn(wire::Frame frame) {
  auto object = wire::parse_object(frame.json);
  if (!object || !frame.fd) return false;
  Limits limits = parse_limits(*object);
  int self = ::getpid();
  wire::ReportRoom report;
  std::fflush(nullptr);
  pid_t pid = ::fork();
  if (pid == 0) become_worker(std::move(frame.fd), report.fd(), limits, compiler, self);
  if (pid < 0) {
    return tell(Type::kExited, frame.id(),
                {{"message", wire::errno_error(ErrorCode::kInternal, "fork", errno).message}});
  }
  // The child cannot vanish before this: it stays a zombie until the zygote itself waits for it.
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!pidfd) {  // nobody could signal it, or learn of its end
    const Error failure = wire::errno_error(ErrorCode::kInternal, "pidfd_open", errno);
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    return tell(Type::kExited, frame.id(), {{"message", failure.message}});
  }
  bool told = tell(Type::kSpawned, frame.id(), {{"pid", pid}}, pidfd.get());
  children.push_back({frame.id(), pid, std::move(pidfd), std::move(report)});
  return told;
}

bool Zygote::reap(size_t index) {
  // What it had started goes with it. Its number is its group's, and nobody else's until it is waited for.
  ::kill(-children[index].pid, SIGKILL);
  siginfo_t info{};
  if (::waitid(static_cast<idtype_t>(P_PIDFD), static_cast<id_t>(children[index].pidfd.get()), &info, WEXITED) != 0) {
    return errno == EINTR;
  }
  uint64_t id = children[index].id;
  bool exited = info.si_code == CLD_EXITED;
  if (!exited && !report_file.empty()) children[index].report.keep(report_file);
  children.erase(children.begin() + static_cast<ptrdiff_t>(index));
  return tell(Type::kExited, id, {{exited ? "code" : "signal", info.si_status}});
}

int Zygote::run() {
  while (true) {
    std::vector<pollfd> fds = {{channel.fd(), POLLIN, 0}};
    for (const auto& child : children) fds.push_back({child.pidfd.get(), POLLIN, 0});
    if (::poll(fds.data(), fds.size(), -1) < 0) {
      if (errno == EINTR) continue;
      return 1;
    }
    for (size_t i = children.size(); i-- > 0;) {
      if (fds[i + 1].revents && !reap(i)) return 1;
    }
    if (!fds[0].revents) continue;
    // Frames of the daemon are small and whole; several may have arrived at once.
    do {
      auto frame = channel.read();
      if (!frame) return frame.error().code == ErrorCode::kUnavailable ? 0 : 1;
      if (frame->type() != Type::kSpawn || !spawn(std::move(*frame))) return 1;
    } while (channel.buffered());
  }
}

// Of a variable that workers have no use for. It goes also from where the kernel has put it, which unsetenv() leaves.
std::string take_variable(const char* name) {
  char* value = ::secure_getenv(name);
  if (!value) return {};
  std::string out = value;
  ::explicit_bzero(value, out.size());
  ::unsetenv(name);
  return out;
}

}  // namespace

int zygote_main(const Compiler& compiler) {
  int daemon = ::getppid();
  // With the daemon gone, nobody would ever read from this process again, even if it is still warming up.
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != daemon) return 0;
  confine::hide_from_others();  // the workers inherit it
  std::signal(SIGPIPE, SIG_IGN);
  if (::chdir("/") != 0) return 1;
  const std::string report = take_variable("KILN_WORKER_CRASH"), cache = take_variable("KILN_WORKER_CACHE");
  if (!report.empty()) {
    wire::install_crash_report(report, "kiln-worker " KILN_VERSION ", build-id " +
                                           wire::read_build_id(wire::self_path()) + "\nbuilder " +
                                           compiler.builder_id() + "\n");
  }
  Zygote zygote{Channel(UniqueFd(kChannelFd)), compiler, report, {}};
  const std::string native = native_target_kept_in(cache, compiler.native_target());
  // Hello goes before the warm-up: the daemon can serve hits as soon as it knows the builder.
  if (!zygote.tell(Type::kZygoteHello, 0, {{"builder_id", compiler.builder_id()}, {"native_target", native}})) {
    return 1;
  }
  compiler.warm_up(native);
  return zygote.run();
}

}  // namespace kiln::worker

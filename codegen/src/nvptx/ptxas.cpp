// A job is one message over a socket pair: what flags to use, and the descriptors of three anonymous files, which
// ptxas opens by their names in /proc: the PTX, the machine code, and what ptxas says. The answer is its wait status.
#include "nvptx/ptxas.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <span>
#include <sstream>

#include "kiln/target/gpu.h"
#include "memory_file.h"

namespace kiln::codegen::nvptx {
namespace {

constexpr int kFiles = 3;
constexpr int kFirstFile = 3;  // in ptxas: 3 the PTX, 4 the machine code, 5 the log
constexpr int kCannotRun = 127;
constexpr const char* kArchitecture = "-arch=";

struct Job {
  char architecture[32];
  bool line_tables;
};

Error failed(const char* what) { return internal_error(std::string("ptxas: ") + what + ": " + std::strerror(errno)); }

// ---- the assembler's process: one thread, forked where others may have held locks, so that it makes do without the
// heap once it is confined. It reads nothing of anybody's: for each job it starts another, which gives up starting
// processes, takes the worker's word, and becomes ptxas ----

bool confine(const std::function<Result<void>()>& give_up) { return !give_up || give_up().ok(); }

[[noreturn]] void become_ptxas(const char* program, const Job& job, const int* files) {
  // First out of the way of the numbers that they get.
  int high[kFiles];
  for (int i = 0; i < kFiles; ++i) high[i] = ::fcntl(files[i], F_DUPFD, kFirstFile + kFiles);
  for (int i = 0; i < kFiles; ++i) {
    if (::dup2(high[i], kFirstFile + i) < 0) ::_exit(kCannotRun);
  }
  ::dup2(kFirstFile + 2, STDOUT_FILENO);
  ::dup2(kFirstFile + 2, STDERR_FILENO);
  ::syscall(SYS_close_range, kFirstFile + kFiles, ~0u, 0);
  const char* arguments[] = {program,           "-O3",   "-v",   job.architecture, "/proc/self/fd/3", "-o",
                             "/proc/self/fd/4", nullptr, nullptr};
  if (job.line_tables) arguments[7] = "-lineinfo";
  ::execv(program, const_cast<char* const*>(arguments));
  ::_exit(kCannotRun);
}

// A message with descriptors.
struct Envelope {
  explicit Envelope(Job& job) : part{&job, sizeof job} {
    header.msg_iov = &part;
    header.msg_iovlen = 1;
    header.msg_control = control;
    header.msg_controllen = sizeof control;
  }
  iovec part;
  alignas(cmsghdr) char control[CMSG_SPACE(kFiles * sizeof(int))] = {};
  msghdr header = {};
};

// The worker may have been taken over: its word is a processor's name, and no other option.
bool is_architecture(const Job& job) {
  const char* end = static_cast<const char*>(std::memchr(job.architecture, 0, sizeof job.architecture));
  if (!end || std::strncmp(job.architecture, kArchitecture, std::strlen(kArchitecture)) != 0) return false;
  for (const char* at = job.architecture + std::strlen(kArchitecture); at != end; ++at) {
    if ((*at < '0' || *at > '9') && (*at < 'a' || *at > 'z') && *at != '_') return false;
  }
  return true;
}

[[noreturn]] void run_job(const char* program, const Outside& outside, int socket, volatile bool& taken) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (!confine(outside.confine_program)) ::_exit(kCannotRun);
  Job job{};
  Envelope envelope(job);
  ssize_t size = 0;
  while ((size = ::recvmsg(socket, &envelope.header, 0)) < 0 && errno == EINTR) {
  }
  taken = true;
  const cmsghdr* control = size == sizeof job ? CMSG_FIRSTHDR(&envelope.header) : nullptr;
  if (!control || control->cmsg_len != CMSG_LEN(kFiles * sizeof(int)) || !is_architecture(job)) ::_exit(kCannotRun);
  int files[kFiles];
  std::memcpy(files, CMSG_DATA(control), sizeof files);
  become_ptxas(program, job, files);
}

// A job that nobody took is not answered; this process ends, which is an answer.
[[noreturn]] void serve(const char* program, const Outside& outside, int socket) {
  void* shared = ::mmap(nullptr, sizeof(bool), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) ::_exit(kCannotRun);
  volatile bool& taken = *static_cast<volatile bool*>(shared);
  for (;;) {
    pollfd wait{socket, POLLIN, 0};
    if (::poll(&wait, 1, -1) < 0 && errno == EINTR) continue;
    if ((wait.revents & POLLHUP) || !(wait.revents & POLLIN)) ::_exit(0);  // the other end is closed
    taken = false;
    const pid_t pid = ::fork();
    if (pid == 0) run_job(program, outside, socket, taken);
    int status = 0;
    while (pid > 0 && ::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (!taken || ::send(socket, &status, sizeof status, MSG_NOSIGNAL) != sizeof status) ::_exit(0);
  }
}

[[noreturn]] void become_assembler_process(const char* program, const Outside& outside, int socket) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // Nothing of the parent's stays open: others wait for its descriptors to be closed.
  const int own = ::fcntl(socket, F_DUPFD, 3);
  ::dup2(own, 3);
  ::syscall(SYS_close_range, 4, ~0u, 0);
  if (!confine(outside.confine_helper)) ::_exit(kCannotRun);
  serve(program, outside, 3);
}

// ---- the caller's side ----

std::string as_text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool send_job(int socket, Job job, const std::array<int, kFiles>& files) {
  Envelope envelope(job);
  cmsghdr* control = CMSG_FIRSTHDR(&envelope.header);
  control->cmsg_level = SOL_SOCKET;
  control->cmsg_type = SCM_RIGHTS;
  control->cmsg_len = CMSG_LEN(kFiles * sizeof(int));
  std::memcpy(CMSG_DATA(control), files.data(), sizeof files);
  return ::sendmsg(socket, &envelope.header, MSG_NOSIGNAL) == sizeof job;
}

bool is_program(const std::string& path) {
  struct stat about{};
  return ::stat(path.c_str(), &about) == 0 && S_ISREG(about.st_mode) && ::access(path.c_str(), X_OK) == 0;
}

// What ptxas says of PTX of a later version, and of a processor that came after it.
bool does_not_know_it_yet(const std::string& log) {
  return log.find("Unsupported .version") != std::string::npos ||
         log.find("is not defined for option 'gpu-name'") != std::string::npos;
}

Error too_old(const std::string& program, const std::string& processor, const std::string& log) {
  const target::NvidiaGpu* gpu = target::find_nvidia_gpu(processor);
  const std::string needed =
      gpu == nullptr ? "a later one" : "that of CUDA " + target::cuda_version_text(gpu->least_cuda()) + " or later";
  return error(ErrorCode::kCompileFailed, "NVIDIA's assembler " + program + " is too old for " + processor +
                                              ", which needs " + needed + ": " + log);
}

}  // namespace

Result<std::string> find_ptxas(const Outside& outside) {
  const auto check = [&](const std::string& path) {
    return outside.check_program ? outside.check_program(path) : Result<void>();
  };
  if (const char* named = ::secure_getenv("KILN_PTXAS"); named && *named) {
    if (auto checked = check(named); !checked)
      return error(ErrorCode::kCompileFailed, "KILN_PTXAS: " + checked.error().message);
    return std::string(is_program(named) ? named : "");
  }
  const auto usable = [&](const std::string& path) { return is_program(path) && check(path); };
  const char* path = ::secure_getenv("PATH");
  std::istringstream folders(path ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (!folder.empty() && usable(folder + "/ptxas")) return folder + "/ptxas";
  }
  const std::string usual = "/usr/local/cuda/bin/ptxas";
  return usable(usual) ? usual : std::string();
}

Result<std::unique_ptr<AssemblerProcess>> AssemblerProcess::start(std::string program, const Outside& outside) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return failed("socketpair");
  const pid_t pid = ::fork();
  if (pid == 0) become_assembler_process(program.c_str(), outside, ends[1]);
  ::close(ends[1]);
  if (pid < 0) {
    ::close(ends[0]);
    return failed("fork");
  }
  return std::unique_ptr<AssemblerProcess>(new AssemblerProcess(std::move(program), pid, ends[0]));
}

AssemblerProcess::~AssemblerProcess() {
  ::close(socket_);  // it ends when it reads the end
  ::waitpid(pid_, nullptr, 0);
}

Result<AssemblerProcess::Output> AssemblerProcess::assemble(const std::string& ptx, const std::string& processor,
                                                            bool line_tables) const {
  const MemoryFile source, cubin, log;
  if (!source.valid() || !cubin.valid() || !log.valid() || !source.write(std::as_bytes(std::span(ptx)))) {
    return failed("no memory for its files");
  }
  Job job{{}, line_tables};
  const std::string architecture = kArchitecture + processor;
  if (architecture.size() >= sizeof job.architecture)
    return invalid_argument("ptxas: no processor `" + processor + "`");
  std::memcpy(job.architecture, architecture.c_str(), architecture.size());
  int status = 0;
  if (!send_job(socket_, job, {source.fd(), cubin.fd(), log.fd()}) ||
      ::recv(socket_, &status, sizeof status, 0) != sizeof status) {
    return internal_error("the process that runs " + program_ + " is gone");
  }
  Output out{cubin.read(), as_text(log.read())};
  if (WIFEXITED(status) && WEXITSTATUS(status) == kCannotRun) return internal_error(program_ + " cannot be run");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || out.cubin.empty()) {
    const std::string how = WIFEXITED(status) ? "exit code " + std::to_string(WEXITSTATUS(status))
                                              : "signal " + std::to_string(WTERMSIG(status));
    if (does_not_know_it_yet(out.log)) return too_old(program_, processor, out.log);
    return internal_error("NVIDIA's assembler refused the code (" + program_ + ", " + how + "): " + out.log);
  }
  return out;
}

}  // namespace kiln::codegen::nvptx

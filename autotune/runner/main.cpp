// kiln-runner: measures candidates on one device, for a tuner that talks to it by JSON lines; see docs/runner.md. It is
// expendable: a candidate that crashes or hangs takes this process with it and nothing else.
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <thread>

#include "device.h"
#include "kiln/wire/crash_report.h"
#include "placement.h"
#include "reproduce.h"
#include "serve.h"

namespace kiln::autotune {
namespace {

struct Flags {
  std::string kind = "cpu";
  int device = 0;
  int threads = 0;
  double patience_s = 60;
  std::string reproducer;
};

// While a kernel hangs nobody reads from the tuner, so a thread that only sleeps waits for the tuner's end.
void end_with_parent() {
  const auto parent = static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0));
  if (parent < 0) return;
  std::thread([parent] {
    pollfd wait{parent, POLLIN, 0};
    while (::poll(&wait, 1, -1) <= 0) {
    }
    ::_exit(0);
  }).detach();
}

Result<std::unique_ptr<MeasuredDevice>> open_device(const Flags& flags, char** arguments) {
  if (flags.kind != "cpu") return open_gpu(flags.kind, flags.device);
  auto threads = place_threads(flags.threads, arguments);
  if (!threads) return threads.error();
  return open_cpu({*threads});
}

int run(const Flags& flags, char** arguments) {
  auto device = open_device(flags, arguments);
  if (!device) {
    std::fprintf(stderr, "kiln-runner: %s\n", device.error().message.c_str());
    return 1;
  }
  wire::install_crash_report_of("kiln-runner", KILN_VERSION);
  if (!flags.reproducer.empty()) return reproduce(**device, flags.reproducer);
  ::signal(SIGPIPE, SIG_IGN);
  end_with_parent();
  // What libraries print must not come between the lines.
  const int out = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  const std::string place = flags.kind == "cpu" ? "cpu" : flags.kind + "-" + std::to_string(flags.device);
  return serve(**device, {place, flags.patience_s}, STDIN_FILENO, out);
}

}  // namespace
}  // namespace kiln::autotune

int main(int argc, char** argv) {
  kiln::autotune::Flags flags;
  CLI::App app("Measures kernels on one device, as a tuner asks it to on standard input");
  app.add_option("--kind", flags.kind, "of the device")->check(CLI::IsMember({"cpu", "cuda", "amd"}));
  app.add_option("--device", flags.device, "its number, of a GPU")->check(CLI::NonNegativeNumber);
  app.add_option("--threads", flags.threads, "of a CPU; 0: one a core")->check(CLI::NonNegativeNumber);
  app.add_option("--patience", flags.patience_s, "seconds to wait for another process's measurements");
  app.add_option("--reproduce", flags.reproducer, "runs what was kept of a wrong result, and ends");
  CLI11_PARSE(app, argc, argv);
  return kiln::autotune::run(flags, argv);
}

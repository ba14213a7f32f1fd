// kiln-runner: measures candidates on one device, for a tuner that talks to it by JSON lines; see
// docs/reference/runner.md. It is expendable: a candidate that crashes or hangs takes this process with it and nothing
// else.
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <filesystem>
#include <thread>

#include "device.h"
#include "kiln/confine/confine.h"
#include "kiln/wire/crash_report.h"
#include "kiln/wire/printable.h"
#include "kiln/wire/report_room.h"
#include "measure_lock.h"
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
void end_with(int parent) {
  if (parent < 0) return;
  std::thread(wire::reporting([parent] {
    pollfd wait{parent, POLLIN, 0};
    while (::poll(&wait, 1, -1) <= 0) {
    }
    ::_exit(0);
  })).detach();
}

// What a GPU's driver opens once it has started. Not all of /dev: there are terminals and memory of others.
std::vector<std::string> device_files(const std::string& kind) {
  std::vector<std::string> out = {"/dev/null", "/dev/zero"};
  if (kind == "amd") {
    out.insert(out.end(), {"/dev/kfd", "/dev/dri", "/dev/shm"});
    return out;
  }
  out.emplace_back("/dev/dxg");
  std::error_code failed;
  std::filesystem::directory_iterator file("/dev", failed);
  for (; !failed && file != std::filesystem::directory_iterator(); file.increment(failed)) {
    const std::string name = file->path().filename();
    for (const char* driver : {"nvidia", "nvhost", "nvmap", "nvgpu"}) {
      if (name.starts_with(driver)) out.push_back(file->path());
    }
  }
  return out;
}

// A candidate is code that somebody sent, or kept for who runs it again. What it may do to the machine is what
// measuring needs: the device, reading files, one file that is locked. A GPU's driver calls what it likes, so that of
// its calls the dangerous ones are taken.
Result<void> confine_to(const std::string& kind, int lock) {
  constexpr const char* kMeasuring[] = {"clone",      "memfd_create", "sched_setaffinity", "getdents64", "readlink",
                                        "readlinkat", "access",       "faccessat",         "faccessat2", "stat",
                                        "lstat",      "statfs",       "fstatfs",           "ftruncate",  "arch_prctl"};
  const bool is_cpu = kind == "cpu";
  confine::hide_from_others();
  if (auto done = confine::gain_no_rights(); !done) return done;
  confine::Files files{.read = {"/"}};
  if (!is_cpu) files.write = device_files(kind);
  if (auto done = confine::open_only(files); !done) return done;
  if (!is_cpu) return confine::reach_nobody(lock);
  return confine::call_only({.opening = confine::Opening::kRead, .more = kMeasuring, .lock = lock});
}

// Of a CPU, the CPUs that it is tied to.
Result<std::vector<int>> tie(const Flags& flags, char** arguments) {
  return flags.kind == "cpu" ? place_threads(flags.threads, arguments) : std::vector<int>();
}

Result<std::unique_ptr<MeasuredDevice>> open_device(const Flags& flags, const std::vector<int>& cpus) {
  if (flags.kind != "cpu") return open_gpu(flags.kind, flags.device);
  return open_cpu({static_cast<int>(cpus.size()), cpus});
}

// The tuner has given room for the report; else it has its file.
void hold_report() {
  if (wire::is_report_room(wire::kReportRoom)) return wire::report_crashes_into(wire::kReportRoom);
  wire::hold_crash_report();
}

int fail(const Error& failure) {
  std::fprintf(stderr, "kiln-runner: %s\n", wire::printable_lines(failure.message).c_str());
  return 1;
}

int reproduce_confined(MeasuredDevice& device, const Flags& flags) {
  wire::hold_crash_report();
  if (auto confined = confine_to(flags.kind, /*lock=*/-1); !confined) return fail(confined.error());
  return reproduce(device, flags.reproducer);
}

int run(const Flags& flags, char** arguments) {
  const std::string place = flags.kind == "cpu" ? "cpu" : flags.kind + "-" + std::to_string(flags.device);
  auto cpus = tie(flags, arguments);
  if (!cpus) return fail(cpus.error());
  auto keeper = flags.reproducer.empty() ? NameKeeper::start(place) : NameKeeper();
  if (!keeper) return fail(keeper.error());
  auto device = open_device(flags, *cpus);
  if (!device) return fail(device.error());
  wire::install_crash_report_of("kiln-runner", KILN_VERSION);
  if (!flags.reproducer.empty()) return reproduce_confined(**device, flags);
  ::signal(SIGPIPE, SIG_IGN);
  auto lock_file = open_lock_file(place);
  if (!lock_file) return fail(lock_file.error());
  const auto parent = static_cast<int>(::syscall(SYS_pidfd_open, ::getppid(), 0));
  hold_report();
  if (auto confined = confine_to(flags.kind, lock_file->file.get()); !confined) return fail(confined.error());
  end_with(parent);
  // What libraries print must not come between the lines.
  const int out = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  ::dup2(STDERR_FILENO, STDOUT_FILENO);
  return serve(**device, {place, flags.patience_s, &*lock_file, &*keeper}, STDIN_FILENO, out);
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

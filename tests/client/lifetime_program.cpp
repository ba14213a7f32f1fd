// Programs that use the client and end, or fork, in all the ways that programs do: SCENARIO BLOCK. `BLOCK` makes a
// kernel that is in no cache, so that something compiles behind each launch. Ends with 0 where all is right.
#include <dirent.h>
#include <dlfcn.h>
#include <openssl/crypto.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "kiln/client/client.h"
#include "kiln/client/host_memory.h"
#include "kiln/dsl/kernels.h"
#include "kiln/dsl/text.h"
#include "kiln/wire/crash_report.h"

#ifdef __SANITIZE_ADDRESS__
// What threads hold that run as the process ends is no leak.
extern "C" const char* __lsan_default_options() { return "detect_leaks=0"; }
#endif

extern char** environ;  // NOLINT(readability-redundant-declaration): not in every unistd.h

namespace {

using kiln::kernels::vector_add;
using Handle =
    kiln::Function<kiln::dsl::lang::Ptr<const kiln::dsl::lang::f32>, kiln::dsl::lang::Ptr<const kiln::dsl::lang::f32>,
                   kiln::dsl::lang::Ptr<kiln::dsl::lang::f32>, kiln::dsl::lang::i32>;

// Destroyed last of all: what threads do meanwhile they do in a process that ends.
struct Lingers {
  ~Lingers() { std::this_thread::sleep_for(std::chrono::milliseconds(ms.load())); }
  std::atomic<int> ms{0};
} lingers;

// Destroyed in the reverse order: the handle that is assigned to `late` after the client, the client, `early`.
std::optional<Handle> late;
kiln::Client client;
std::optional<Handle> early;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "%d: %s\n", static_cast<int>(::getpid()), what.c_str());
  std::_Exit(1);
}

Handle get(int block, kiln::Client& from = client) {
  auto fn = from.get(vector_add<>(), {.constexprs = {{"BLOCK", block}}});
  if (!fn) fail("get: " + fn.error().message);
  return *fn;
}

void launch(const Handle& fn, int threads = 1, int n = 999) {
  std::vector<float> x(1000, 1.5f), y(1000, 2), out(1000);
  auto done = fn.launch({.threads = threads}, x.data(), y.data(), out.data(), n);
  if (!done) fail("launch: " + done.error().message);
  for (int i = 0; i < 1000; ++i) {
    if (out[static_cast<size_t>(i)] != (i < n ? 3.5f : 0)) fail("a wrong result");
  }
}

// Forks and runs what the child does; what it ended with.
int in_child(const std::function<void()>& body) {
  const pid_t pid = ::fork();
  if (pid < 0) fail("fork");
  if (pid == 0) {
    body();
    std::exit(0);
  }
  int status = -1;
  ::waitpid(pid, &status, 0);
  return status;
}

void expect_fine(int status) {
  if (status != 0) fail("a child ended with " + std::to_string(status));
}

size_t open_sockets() {
  size_t count = 0;
  DIR* directory = ::opendir("/proc/self/fd");
  while (const dirent* entry = ::readdir(directory)) {
    char target[256] = {};
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (::readlink(path.c_str(), target, sizeof target - 1) > 0 && std::strncmp(target, "socket:", 7) == 0) ++count;
  }
  ::closedir(directory);
  return count;
}

// For as long as the process lasts.
// With a moment in between: some kernels let threads that never rest keep a daemon of another session from the
// processors for as long as they run.
void launch_for_ever(int block) {
  for (int i = 0; i < 3; ++i) {
    std::thread([block] {
      static const Handle fn = get(block);
      for (;; std::this_thread::sleep_for(std::chrono::microseconds(200))) launch(fn, 2);
    }).detach();
  }
}
void get_for_ever(int block) {
  for (int i = 0; i < 3; ++i) {
    std::thread([block, i] {
      for (int k = 0;; ++k) launch(get(block + 1 + 3 * (k % 200) + i));
    }).detach();
  }
}
void pause_a_little() { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }

struct LaunchesWhenDestroyed {
  ~LaunchesWhenDestroyed() {
    if (!early) return;
    launch(*early, 1);
    launch(*early, 2);
    launch(get(early_block + 1));
    if (!kiln::HostMemory::allocate(1 << 20, 2)) fail("no memory");
  }
  int early_block = 0;
} launches_when_destroyed;

// --- The end.

void end_by_return(int block) { launch(get(block)); }
void end_by_exit(int block) {
  launch(get(block));
  std::exit(0);
}
void end_by_quick_exit(int block) {
  launch(get(block));
  std::quick_exit(0);
}
void end_at_once(int block) {
  launch(get(block));
  ::_exit(0);
}
void end_from_another_thread(int block) {
  launch(get(block));
  std::thread([] { std::exit(0); }).detach();
  for (int i = 1;; ++i) launch(get(block + i), 2);
}
void end_in_a_print(int block) {
  auto kernel = kiln::dsl::parse("kernel k(%n: i32) {\n  print %n {message = \"n\"}\n}", "k.kiln");
  auto fn = client.get(*kernel);
  if (!fn) fail(fn.error().message);
  launch(get(block));
  const kiln::client::Argument n[] = {{nullptr, 0, 1}};
  (void)fn->launch(n, {.threads = 2, .grid = std::array<uint32_t, 3>{64, 1, 1}, .print = [](const auto&) {
                         static std::atomic<bool> first{true};
                         if (first.exchange(false)) std::exit(0);
                       }});
  for (;;) ::pause();  // another thread runs exit()
}
void end_by_a_signal_handler(int block) {
  std::signal(SIGALRM, [](int) { std::exit(0); });
  ::alarm(1);
  for (int i = 0;; ++i) launch(get(block + i % 100), 2);
}
void threads_launch_on(int block) {
  launch_for_ever(block);
  pause_a_little();
}
void threads_get_on(int block) {
  get_for_ever(block);
  pause_a_little();
}
void threads_begin(int block) {
  launch_for_ever(block);
  get_for_ever(block + 1);
}
void statics_around_the_client(int block) {
  late = get(block);
  early = get(block + 1);
  launch(*late);
  launch(*early);
}
void a_local_static_client(int block) {
  static kiln::Client local;
  static const Handle fn = get(block, local);
  launch(fn);
}
void an_owned_static_client(int block) {
  static const auto owned = std::make_unique<kiln::Client>();
  static auto fn = std::make_unique<Handle>(get(block, *owned));
  launch(*fn);
}
void handles_outlive_a_client(int block) {
  std::optional<Handle> fn;
  {
    kiln::Client local;
    fn = get(block, local);
    launch(*fn);
  }
  launch(*fn, 2);
  launch(*fn, 2, 512);
}
void a_destructor_launches(int block) {
  early = get(block);
  launch(*early, 2);
  launches_when_destroyed.early_block = block;
}
void openssl_is_gone(int block) {
  ::OPENSSL_cleanup();
  launch(get(block));
  launch(get(block + 1), 2);
}
void a_plugin_is_closed(int block) {
  for (int i = 0; i < 3; ++i) {
    void* plugin = ::dlopen(LIFETIME_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (plugin == nullptr) fail(::dlerror());
    auto use = reinterpret_cast<int (*)(int)>(::dlsym(plugin, "use_the_client"));
    if (use(block + i) != 0) fail("the plugin");
    ::dlclose(plugin);
  }
}
void the_client_is_never_used(int) {}

// The first use of a client that is a function-local static, at a place of its own. While the process ends there may be
// an answer, which must be right, or an error, which must say what is the matter. The kernel is never destroyed: a
// value that exit() destroys under a thread that copies it is the program's own fault.
template <int place>
void first_use(int block, const std::function<void()>& before_get = [] {}) {
  static kiln::Client local;
  namespace lang = kiln::dsl::lang;
  static const auto& twice =
      *new auto(lang::kernel("twice", {"x", "y", "n", "BLOCK=4096"},
                             [](lang::Ptr<const lang::f32> x, lang::Ptr<lang::f32> y, lang::i32 n, lang::Const BLOCK) {
                               lang::grid(lang::cdiv(n, BLOCK));
                               const lang::Value start = lang::program_id(0) * BLOCK;
                               const lang::Value value = lang::tile(x, {n}).load({start}, {BLOCK});
                               lang::tile(y, {n}).store({start}, value + value);
                             }));
  before_get();
  const auto fn = local.get(twice, {.constexprs = {{"BLOCK", block}}});
  if (!fn) {
    if (fn.error().message.empty()) fail("an error without words");
    return;
  }
  std::vector<float> x(1000, 1.5f), y(1000);
  const auto done = fn->launch({.threads = 2}, x.data(), y.data(), 999);
  if (!done) return;
  for (size_t i = 0; i < 1000; ++i) {
    if (y[i] != (i < 999 ? 3 : 0)) fail("a wrong result");
  }
}
int block_of_first_use = 0;
struct UsesAClientForTheFirstTime {
  ~UsesAClientForTheFirstTime() {
    if (block_of_first_use > 0) first_use<0>(block_of_first_use);
  }
} uses_a_client_for_the_first_time;

void first_use_in_a_destructor(int block) { block_of_first_use = block; }
void first_use_in_a_destructor_after_others(int block) {
  launch(get(block + 1));
  block_of_first_use = block;
}
void first_use_in_an_exit_handler(int block) {
  block_of_first_use = block;
  std::atexit([] { first_use<1>(block_of_first_use + 1); });
  launch(get(block + 2));
  std::atexit([] { first_use<2>(block_of_first_use + 3); });
}
void first_use_in_a_thread_as_main_returns(int block) {
  std::thread([block] { first_use<3>(block); }).detach();
  std::thread([block] { first_use<4>(block + 1); }).detach();
  std::thread([block] { first_use<5>(block + 2); }).detach();
  lingers.ms = 20;
  std::this_thread::sleep_for(std::chrono::microseconds(block % 7 * 100));
}
// The statics are made before main returns, and destroyed before they are used.
void first_use_in_a_thread_after_the_destructors(int block) {
  static std::atomic<bool> made{false};
  lingers.ms = 500;
  std::thread([block] {
    first_use<6>(block, [] {
      made = true;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    });
  }).detach();
  while (!made) std::this_thread::yield();
}
// --- A crash, on a thread that OpenMP has begun.

int recurse(volatile int* depth) {
  volatile char page[4096];
  page[0] = static_cast<char>(*depth);
  *depth = *depth + 1;
  return *depth < 0 ? 0 : recurse(depth) + page[0];
}
void overflow_in_a_launch(int block) {
  launch(get(block), 2);
  kiln::wire::install_crash_report_of("lifetime_program", "0");
  auto kernel = kiln::dsl::parse("kernel k(%n: i32) {\n  print %n {message = \"n\"}\n}", "k.kiln");
  auto fn = client.get(*kernel);
  if (!fn) fail(fn.error().message);
  const kiln::client::Argument n[] = {{nullptr, 0, 1}};
  for (;;) {
    (void)fn->launch(n, {.threads = 2, .grid = std::array<uint32_t, 3>{64, 1, 1}, .print = [](const auto&) {
                           volatile int depth = 0;
                           if (::gettid() != ::getpid()) (void)recurse(&depth);
                           ::usleep(1000);
                         }});
  }
}

// --- Threads that cannot be had.

// A process of this user is one too many from now on, or has been for long.
void no_process_more() {
  if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) fail("setuid");
  const rlimit one{1, 1};
  if (::setrlimit(RLIMIT_NPROC, &one) != 0) fail("setrlimit");
}
void launches_without_threads(int block) {
  const Handle fn = get(block);
  no_process_more();
  for (const int threads : {1, 2, 16, 3, 0}) launch(fn, threads);
  if (!kiln::HostMemory::allocate(8 << 20, 4)) fail("no memory");
  bool begun = true;
  try {
    std::thread([] {}).join();
  } catch (const std::system_error&) {
    begun = false;
  }
  if (begun) fail("the limit does not hold");
}
void launches_with_the_threads_that_it_has(int block) {
  const Handle fn = get(block);
  launch(fn, 2);
  no_process_more();
  for (const int threads : {2, 1, 16, 2}) launch(fn, threads);
}

// --- fork().

void both_go_on(int block) {
  launch(get(block));
  const pid_t pid = ::fork();
  for (int i = 1; i <= 10; ++i) launch(get(block + 2 * i + (pid == 0 ? 1 : 0)));
  if (pid == 0) std::exit(0);
  int status = -1;
  ::waitpid(pid, &status, 0);
  expect_fine(status);
  launch(get(block + 100));
}
void the_child_launches(int block) {
  const Handle fn = get(block);
  launch(fn, 2);
  if (!kiln::HostMemory::allocate(8 << 20, 2)) fail("no memory");
  expect_fine(in_child([&] {
    for (const int threads : {1, 2, 4, 1}) launch(fn, threads);
    if (!kiln::HostMemory::allocate(8 << 20, 3)) fail("no memory in the child");
    std::thread([&] { launch(fn, 2); }).join();
    expect_fine(in_child([&] { launch(fn, 2); }));
  }));
  launch(fn, 2);
}
void the_childs_old_and_new_handles(int block) {
  const Handle fn = get(block);
  std::vector<float> x(1000, 1.5f), out(1000);
  const auto prepare = [&](const Handle& what, int n) {
    return what.prepare(x.data() + 1, x.data() + 1, out.data() + 1, n);
  };
  if (!prepare(fn, 16)) fail("prepare");
  expect_fine(in_child([&] {
    if (!prepare(fn, 16)) fail("what there is, is prepared");
    auto refused = prepare(fn, 1);
    refused = prepare(fn, 8);
    if (refused || refused.error().message.find("get() the kernel again") == std::string::npos) fail("no word of fork");
    const Handle again = get(block);
    if (!prepare(again, 8)) fail("prepare in the child");
    launch(again, 2);
  }));
  if (!prepare(fn, 8)) fail("prepare after fork");
}
void a_connection_goes_on(int) {
  auto daemon = kiln::client::Connection::open({});
  if (!daemon) fail(daemon.error().message);
  const std::string builder = (*daemon)->server().builder_id;
  expect_fine(in_child([&] {
    if (open_sockets() != 0) fail("the parent's connection is open in the child");
    if ((*daemon)->server().builder_id != builder) fail("no greeting");
    if (!(*daemon)->ping()) fail("ping in the child");
  }));
  for (int i = 0; i < 10; ++i) {
    if (!(*daemon)->ping()) fail("ping");
  }
}
void fork_amid_everything(int block) {
  launch(get(block));
  launch_for_ever(block);
  get_for_ever(block + 1);
  for (int i = 0; i < 6; ++i) {
    pause_a_little();
    expect_fine(in_child([&] {
      const Handle fn = get(block);
      launch(fn, 1);
      launch(fn, 2);
    }));
  }
}
void children_without_a_copy(int block) {
  launch(get(block));
  for (int i = 1; i <= 3; ++i) {
    pid_t pid = -1;
    std::string name = "true";
    char* words[] = {name.data(), nullptr};
    if (::posix_spawnp(&pid, "true", nullptr, nullptr, words, environ) != 0) fail("posix_spawn");
    int status = -1;
    ::waitpid(pid, &status, 0);
    expect_fine(status);
    launch(get(block + i), 2);
  }
}

// --- Signals.

// The pattern of a program that waits for its signals, whose threads were there before it decided to.
void signals_are_the_programs(int block) {
  launch(get(block));
  sigset_t terminate;
  sigemptyset(&terminate);
  sigaddset(&terminate, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &terminate, nullptr);
  for (int i = 1; i < 20; ++i) {
    launch(get(block + i));
    ::kill(::getpid(), SIGTERM);
    int which = 0;
    ::sigwait(&terminate, &which);
    if (which != SIGTERM) fail("another signal");
  }
}

struct Scenario {
  const char* name;
  void (*run)(int block);
};
#define SCENARIO(name) {#name, name}
constexpr Scenario kScenarios[] = {
    SCENARIO(end_by_return),
    SCENARIO(end_by_exit),
    SCENARIO(end_by_quick_exit),
    SCENARIO(end_at_once),
    SCENARIO(end_from_another_thread),
    SCENARIO(end_in_a_print),
    SCENARIO(end_by_a_signal_handler),
    SCENARIO(threads_launch_on),
    SCENARIO(threads_get_on),
    SCENARIO(threads_begin),
    SCENARIO(statics_around_the_client),
    SCENARIO(a_local_static_client),
    SCENARIO(an_owned_static_client),
    SCENARIO(handles_outlive_a_client),
    SCENARIO(a_destructor_launches),
    SCENARIO(openssl_is_gone),
    SCENARIO(a_plugin_is_closed),
    SCENARIO(the_client_is_never_used),
    SCENARIO(first_use_in_a_destructor),
    SCENARIO(first_use_in_a_destructor_after_others),
    SCENARIO(first_use_in_an_exit_handler),
    SCENARIO(first_use_in_a_thread_as_main_returns),
    SCENARIO(first_use_in_a_thread_after_the_destructors),
    SCENARIO(overflow_in_a_launch),
    SCENARIO(launches_without_threads),
    SCENARIO(launches_with_the_threads_that_it_has),
    SCENARIO(both_go_on),
    SCENARIO(the_child_launches),
    SCENARIO(the_childs_old_and_new_handles),
    SCENARIO(a_connection_goes_on),
    SCENARIO(fork_amid_everything),
    SCENARIO(children_without_a_copy),
    SCENARIO(signals_are_the_programs),
};

}  // namespace

int main(int argc, char** argv) {
  for (const Scenario& scenario : kScenarios) {
    if (argc != 3 || std::strcmp(scenario.name, argv[1]) != 0) continue;
    scenario.run(std::atoi(argv[2]));
    return 0;
  }
  fail("usage: lifetime_program SCENARIO BLOCK");
}

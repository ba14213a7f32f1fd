// Programs that use the client and end or fork at any moment: none is killed, hung or changed by it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "kiln/client/connection.h"
#include "kiln/wire/process.h"
#include "scratch.h"

namespace kiln {
namespace {

using namespace std::chrono_literals;

constexpr auto kPatience = 120s;  // many times what a scenario takes
// Less than a client waits for a reply, which ends some of what hangs.
constexpr auto kPatienceWithForks = 25s;

class Lifetime : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "kiln-life-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    ::setenv("KILN_CACHE_DIR", (directory_ / "cache").c_str(), 1);
    ::setenv("KILN_RUNTIME_DIR", (directory_ / "run").c_str(), 1);
    ::setenv("KILN_KILND", KILND_EXECUTABLE, 1);
  }
  void TearDown() override {
    if (auto daemon = client::Connection::open({})) (void)(*daemon)->shutdown();
    ::unsetenv("KILN_RUNTIME_DIR");
    ::unsetenv("KILN_KILND");
    test::remove_scratch(directory_);
  }

  // What it ended with; it is killed, with all that it forked, where it does not end.
  std::string run(const std::string& scenario, int block, std::chrono::seconds patience = kPatience) {
    const std::string errors = (directory_ / "errors").string();
    wire::Program program{.command = {LIFETIME_PROGRAM, scenario, std::to_string(block)},
                          .group = wire::ProcessGroup::kOwn};
    program.descriptors = {{.number = 0, .path = "/dev/null", .flags = O_RDONLY},
                           {.number = 1, .path = errors, .flags = O_WRONLY | O_CREAT | O_TRUNC},
                           {.number = 2, .path = errors, .flags = O_WRONLY | O_CREAT | O_APPEND}};
    auto pid = wire::spawn(program);
    if (!pid) return pid.error().message;
    const auto status = wire::wait_for_exit(*pid, patience);
    if (!status) {
      ::kill(-*pid, SIGKILL);
      ::waitpid(*pid, nullptr, 0);
      return "hangs";
    }
    std::ifstream file(errors);
    return wire::exit_text(*status) + "\n" + std::string{std::istreambuf_iterator<char>(file), {}};
  }
  // Each time with other kernels.
  void run_times(const std::string& scenario, int times, std::chrono::seconds patience = kPatience) {
    if (::getenv("KILN_SOAK") != nullptr) times *= 20;
    for (int i = 0; i < times; ++i) {
      const std::string end = run(scenario, 16 + 640 * i, patience);
      ASSERT_EQ(end, "exit code 0\n") << scenario << ", run " << i;
    }
  }

  std::filesystem::path directory_;
};

std::string name_of(const testing::TestParamInfo<const char*>& info) { return info.param; }

// Those whose threads, or whose signal handler, go on while exit() destroys the program's own statics, among them its
// kernels: races of the program's, which is what they try.
bool is_race(const std::string& scenario) {
#if defined(__SANITIZE_THREAD__)
  return scenario.starts_with("threads_") || scenario.starts_with("first_use_in_a_thread") ||
         scenario == "end_by_a_signal_handler";
#else
  (void)scenario;
  return false;
#endif
}

class End : public Lifetime {};
TEST_P(End, IsClean) {
  if (is_race(GetParam())) GTEST_SKIP() << "a race of the program's own";
  run_times(GetParam(), 6);
}
INSTANTIATE_TEST_SUITE_P(Of, End,
                         testing::Values("end_by_return", "end_by_exit", "end_by_quick_exit", "end_at_once",
                                         "end_from_another_thread", "end_in_a_print", "threads_launch_on",
                                         "threads_get_on", "threads_begin", "statics_around_the_client",
                                         "a_local_static_client", "an_owned_static_client", "handles_outlive_a_client",
                                         "a_destructor_launches", "the_client_is_never_used",
                                         "first_use_in_a_destructor", "first_use_in_a_destructor_after_others",
                                         "first_use_in_an_exit_handler", "first_use_in_a_thread_as_main_returns",
                                         "first_use_in_a_thread_after_the_destructors"),
                         name_of);

class EndOnce : public Lifetime {};
TEST_P(EndOnce, IsClean) {
  if (is_race(GetParam())) GTEST_SKIP() << "a race of the program's own";
  run_times(GetParam(), 1);
}
INSTANTIATE_TEST_SUITE_P(Of, EndOnce,
                         testing::Values("openssl_is_gone", "a_plugin_is_closed", "end_by_a_signal_handler",
                                         "signals_are_the_programs"),
                         name_of);

// A program of ours reports it wherever it was.
class Crash : public Lifetime {};
TEST_P(Crash, IsReported) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "a sanitizer reports crashes itself";
#endif
  EXPECT_EQ(run(GetParam(), 16).substr(0, 9), "signal 11");
  std::ifstream file(directory_ / "run" / "lifetime_program.crash");
  const std::string report{std::istreambuf_iterator<char>(file), {}};
  EXPECT_TRUE(report.starts_with("crashed by signal 11")) << report;
}
INSTANTIATE_TEST_SUITE_P(Of, Crash, testing::Values("overflow_in_a_launch"), name_of);

// OpenMP would end a process that cannot begin a thread.
class FewThreads : public Lifetime {};
TEST_P(FewThreads, ALaunchGoesOnWithThoseThatThereAre) {
  ::setenv("LSAN_OPTIONS", "detect_leaks=0", 0);  // it would need a thread
  run_times(GetParam(), 2);
}
INSTANTIATE_TEST_SUITE_P(Of, FewThreads,
                         testing::Values("launches_without_threads", "launches_with_the_threads_that_it_has"), name_of);

// The locks of this sanitizer's allocator survive fork() from LLVM 18 on (its change 75290), whose GCC is 15.
bool forks_amid_allocations(const std::string& scenario) {
#if defined(__SANITIZE_ADDRESS__) && __GNUC__ < 15
  return scenario == "both_go_on" || scenario == "fork_amid_everything";
#else
  (void)scenario;
  return false;
#endif
}

class Fork : public Lifetime {};
TEST_P(Fork, LeavesBothAtWork) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer allows the child of a process with threads none of its own";
#endif
  if (forks_amid_allocations(GetParam())) GTEST_SKIP() << "the address sanitizer's own locks are not the child's";
  ::setenv("LSAN_OPTIONS", "detect_leaks=0", 0);  // what threads hold that a child does not have is no leak
  run_times(GetParam(), 2, kPatienceWithForks);
}
INSTANTIATE_TEST_SUITE_P(Of, Fork,
                         testing::Values("both_go_on", "the_child_launches", "the_childs_old_and_new_handles",
                                         "a_connection_goes_on", "fork_amid_everything", "children_without_a_copy"),
                         name_of);

}  // namespace
}  // namespace kiln

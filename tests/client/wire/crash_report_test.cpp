// A process that crashes leaves a report, whichever of its threads did it, and however it did.
#include "kiln/wire/crash_report.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <thread>

#include "scratch.h"

namespace kiln::wire {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Until there is no stack left. The compiler may not see that it never ends.
int recurse(volatile int* depth) {
  volatile char page[4096];
  page[0] = static_cast<char>(*depth);
  *depth = *depth + 1;
  return *depth < 0 ? 0 : recurse(depth) + page[0];
}
void overflow() {
  volatile int depth = 0;
  (void)recurse(&depth);
}

class CrashReport : public ::testing::Test {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer reports crashes itself";
    std::string name = (std::filesystem::temp_directory_path() / "kiln-crash-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
  }
  void TearDown() override {
    if (!directory_.empty()) test::remove_scratch(directory_);
  }
  // What a process leaves that does this; "" where it leaves nothing.
  std::string report_of(const std::function<void()>& crash) const {
    const std::string path = (directory_ / "report").string();
    std::filesystem::remove(path);
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit none{};
      ::setrlimit(RLIMIT_CORE, &none);
      install_crash_report(path, "a program\n");
      crash();
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFSIGNALED(status)) << status;
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::filesystem::path directory_;
};

TEST_F(CrashReport, OfATrapOrACallThatIsNotAllowed) {
  EXPECT_NE(report_of([] { ::raise(SIGTRAP); }).find("crashed by signal 5"), std::string::npos);
  EXPECT_NE(report_of([] { ::raise(SIGSYS); }).find("crashed by signal 31"), std::string::npos);
}

// What a process ignores means nothing to it where others send it, and ends it with a report where it is its own.
TEST_F(CrashReport, OfAnIgnoredSignalIsOfItsOwnAlone) {
  std::signal(SIGTRAP, SIG_IGN);
  const std::string report = report_of([] {
    const pid_t self = ::getpid(), other = ::fork();
    if (other == 0) ::_exit(::kill(self, SIGTRAP));
    ::waitpid(other, nullptr, 0);
    note_running(1, "the signal of another is over");
    ::raise(SIGTRAP);
  });
  std::signal(SIGTRAP, SIG_DFL);
  EXPECT_NE(report.find("the signal of another is over"), std::string::npos) << report;
}

TEST_F(CrashReport, OfAnOverflowOnTheFirstThread) {
  EXPECT_NE(report_of(overflow).find("crashed by signal 11"), std::string::npos);
}

TEST_F(CrashReport, OfAnOverflowOnAnyThreadThatIsOurs) {
  for (const std::function<void()>& crash :
       {std::function<void()>([] { std::thread(reporting(overflow)).join(); }),
        std::function<void()>([] { std::jthread(reporting([](const std::stop_token&) { overflow(); })).join(); }),
        std::function<void()>([] { std::async(std::launch::async, reporting(overflow)).get(); }),
        // Threads that have come and gone leave nothing in the way of later ones.
        std::function<void()>([] {
          for (int i = 0; i < 100; ++i) std::thread(reporting([] {})).join();
          std::thread(reporting(overflow)).join();
        })}) {
    EXPECT_NE(report_of(crash).find("crashed by signal 11"), std::string::npos);
  }
}

// Nobody else's stack is taken from them, and without reports nothing is done.
TEST_F(CrashReport, LeavesTheStacksOfOthersAlone) {
  std::thread([] {
    reporting([] {})();
    stack_t now{};
    ASSERT_EQ(::sigaltstack(nullptr, &now), 0);
    EXPECT_NE(now.ss_flags & SS_DISABLE, 0) << "no reports are installed";
  }).join();
  EXPECT_EQ(report_of([] {
              std::thread([] {
                static char own[64 << 10];
                stack_t mine{};
                mine.ss_sp = own;
                mine.ss_size = sizeof own;
                ::sigaltstack(&mine, nullptr);
                report_overflows_here();
                stack_t now{};
                ::sigaltstack(nullptr, &now);
                if (now.ss_sp == own) ::kill(::getpid(), SIGKILL);
              }).join();
            }),
            "");
}

}  // namespace
}  // namespace kiln::wire

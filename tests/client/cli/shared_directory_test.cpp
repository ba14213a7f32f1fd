// What strangers put where a program was told to leave files: KILN_KERNEL_FILES and the trace of KILN_PROFILE.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "cli_helpers.h"
#include "kiln/wire/fd.h"
#include "left_out.h"

namespace kiln::cli::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr uid_t kStranger = 65534;

class SharedDirectory : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    kilnd_ = KILND_EXECUTABLE;
    write("axpy.kiln", kAxpy);
    write_floats("x.npy", {1, 2, 3, 4});
    fs::create_directory(path("shared"));
    fs::permissions(path("shared"), fs::perms::all | fs::perms::sticky_bit);
  }
  void TearDown() override {
    (void)kiln({"stop"});
    CliTest::TearDown();
  }

  // `kiln run` with this in its environment; 124: it has waited for somebody.
  Outcome run(const std::string& variable) const {
    const Outcome outcome =
        kiln({"profile", "--", "env", "-u", "KILN_PROFILE", variable, "timeout", "20", KILN_EXECUTABLE, "run",
              "axpy.kiln", "--target", "cpu", "x=@x.npy", "y=@x.npy", "z=@x.npy>@z.npy", "n=4", "a=2"});
    EXPECT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(read_floats("z.npy"), (std::vector<float>{3, 6, 9, 12}));
    return outcome;
  }
  // A stranger's where a test may make one.
  std::string fifo(const std::string& name) const {
    EXPECT_EQ(::mkfifo(path(name).c_str(), 0600), 0);
    EXPECT_EQ(::chmod(path(name).c_str(), 0666), 0);
    const uid_t owner = test::root_may("give a fifo to another user") ? kStranger : ::geteuid();
    EXPECT_EQ(::chown(path(name).c_str(), owner, ::getegid()), 0);
    return path(name);
  }
};

// Who reads the fifo could let the program wait, put a library of his own in its place, and go on.
TEST_F(SharedDirectory, HasNoCodeThatIsExecuted) {
  run("KILN_KERNEL_FILES=" + path("own"));
  const fs::path kernel = fs::directory_iterator(path("own"))->path();
  fifo("shared/" + kernel.filename().string());
  const Outcome outcome = run("KILN_KERNEL_FILES=" + path("shared"));
  EXPECT_THAT(outcome.errors, HasSubstr("kiln: KILN_KERNEL_FILES: " + path("shared") +
                                        " is not used: others can put files there; name a directory of your own"));
  fs::permissions(path("shared"), fs::perms::all);
  EXPECT_THAT(run("KILN_KERNEL_FILES=" + path("shared")).errors,
              HasSubstr(path("shared") + " can be written by everybody"));
  EXPECT_EQ(std::distance(fs::directory_iterator(path("shared")), fs::directory_iterator()), 1) << "but the fifo";
  // One's own below it, which is made, is nobody else's.
  fs::permissions(path("shared"), fs::perms::all | fs::perms::sticky_bit);
  run("KILN_KERNEL_FILES=" + path("shared/own"));
  EXPECT_TRUE(exists("shared/own/" + kernel.filename().string()));
}

TEST_F(SharedDirectory, HasNoFifoThatATraceWaitsFor) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a fifo to another user, and one's own is waited for";
  const std::string trace = fifo("shared/trace.json");
  EXPECT_THAT(run("KILN_PROFILE=trace=" + trace).errors, HasSubstr(trace + ": cannot be written: nobody reads it"));
  // With a reader that may never read.
  const wire::UniqueFd reader(::open(trace.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_THAT(run("KILN_PROFILE=trace=" + trace).errors,
              HasSubstr(trace + ": cannot be written: a fifo of another user's"));
  ASSERT_EQ(::chown(trace.c_str(), 0, 0), 0);
  EXPECT_EQ(run("KILN_PROFILE=trace=" + trace).errors, "");
  std::string text(1 << 16, '\0');
  const ssize_t size = ::read(reader.get(), text.data(), text.size());
  EXPECT_THAT(text.substr(0, static_cast<size_t>(std::max<ssize_t>(size, 0))), HasSubstr("\"traceEvents\""));
}

}  // namespace
}  // namespace kiln::cli::testing

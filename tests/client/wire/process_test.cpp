// Programs are started with what they are given, and with nothing else.
#include "kiln/wire/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <csignal>

#include "kiln/wire/channel.h"

namespace kiln::wire {
namespace {

using namespace std::chrono_literals;

// Runs a shell's words with standard output in a pipe. Gives what it wrote.
std::string output_of(const std::string& words, Program program = {}) {
  int ends[2];
  EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  UniqueFd ours(ends[0]), theirs(ends[1]);
  program.command = {"/bin/sh", "-c", words};
  program.descriptors.push_back({.number = 1, .fd = theirs.get()});
  auto pid = spawn(program);
  EXPECT_TRUE(pid.ok());
  if (!pid) return pid.error().message;
  theirs.reset();
  std::string out;
  char chunk[256];
  for (ssize_t count; (count = ::read(ours.get(), chunk, sizeof chunk)) > 0;)
    out.append(chunk, static_cast<size_t>(count));
  EXPECT_EQ(wait_for_exit(*pid, 60s), 0);
  return out;
}

TEST(Process, HasTheDescriptorsThatAreNamedAndNoOthers) {
  const UniqueFd kept(::open("/dev/null", O_RDONLY));  // not close-on-exec
  ASSERT_GE(kept.get(), 3);
  Program program;
  // One that stands where another is to go.
  program.descriptors = {
      {.number = 0, .path = "/dev/zero", .flags = O_RDONLY}, {.number = 3, .fd = 2}, {.number = 4, .fd = 3}};
  // A pipe of the shell's own would be a descriptor more.
  EXPECT_EQ(output_of("readlink /proc/$$/fd/0; ls /proc/$$/fd; true", program), "/dev/zero\n0\n1\n2\n3\n4\n");
}

TEST(Process, HasTheEnvironmentThatIsNamed) {
  Program program;
  program.environment = {{"PATH=/usr/bin:/bin", "WORD=found"}};
  EXPECT_EQ(output_of("echo $WORD$HOME", program), "found\n");
  ::setenv("WORD", "ours", 1);
  EXPECT_EQ(output_of("echo $WORD"), "ours\n");
  ::unsetenv("WORD");
}

TEST(Process, IgnoresNoSignals) {
  ::signal(SIGTERM, SIG_IGN);
  EXPECT_EQ(output_of("sh -c 'kill $$; echo ignored' || echo ended"), "ended\n");
  ::signal(SIGTERM, SIG_DFL);
}

TEST(Process, LeadsAGroupWhereThatIsWanted) {
  Program program;
  EXPECT_EQ(output_of("cut -d' ' -f5 /proc/$$/stat", program), std::to_string(::getpgrp()) + "\n");
  for (ProcessGroup group : {ProcessGroup::kOwn, ProcessGroup::kSession}) {
    program.group = group;
    EXPECT_EQ(output_of("[ $(cut -d' ' -f5 /proc/$$/stat) = $$ ] && echo leads", program), "leads\n");
  }
}

// What is started is the file that was looked at, and none that PATH has of that name.
TEST(Process, LooksForNothingInPath) {
  auto started = spawn({.command = {"sh", "-c", "exit 7"}});
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().message, "cannot start sh: No such file or directory");
}

TEST(Process, SaysHowItEnded) {
  auto absent = spawn({.command = {"/nonexistent/program"}});
  ASSERT_FALSE(absent.ok());
  EXPECT_EQ(absent.error().message, "cannot start /nonexistent/program: No such file or directory");
  const pid_t sleeping = spawn({.command = {"/bin/sleep", "100"}}).value();
  EXPECT_FALSE(wait_for_exit(sleeping, 10ms));
  ::kill(sleeping, SIGKILL);
  EXPECT_EQ(exit_text(wait_for_exit(sleeping, 60s).value()), "signal 9");
  EXPECT_EQ(exit_text(wait_for_exit(spawn({.command = {"/bin/sh", "-c", "exit 7"}}).value(), 60s).value()),
            "exit code 7");
}

}  // namespace
}  // namespace kiln::wire

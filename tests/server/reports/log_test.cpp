// A log whose lines nobody reads.
#include "reports/log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sstream>
#include <string>

#include "kiln/wire/fd.h"
#include "kiln/wire/json.h"

namespace kiln::server {
namespace {

constexpr int kLines = 5000;

// Writes more than there is room for, says so, and writes one line more when it is told to.
[[noreturn]] void write_much(int error, int told, int heard) {
  ::dup2(error, STDERR_FILENO);
  Log log("", "info");
  for (int i = 0; i < kLines; ++i) log.info("line", {{"number", i}});
  char byte = 0;
  (void)!::write(told, &byte, 1);
  (void)!::read(heard, &byte, 1);
  log.info("last");
  ::_exit(0);
}

// What is there, until it ends or, if it is not to be waited for, there is no more.
std::string read_all(int fd, int patience_ms) {
  std::string out;
  char chunk[4096];
  pollfd ready{fd, POLLIN, 0};
  while (::poll(&ready, 1, patience_ms) > 0) {
    const ssize_t size = ::read(fd, chunk, sizeof chunk);
    if (size <= 0) break;
    out.append(chunk, static_cast<size_t>(size));
  }
  return out;
}

void expect_whole_lines(const std::string& log) {
  std::istringstream lines(log);
  int written = 0, dropped = 0;
  std::string event, before;
  for (std::string line; std::getline(lines, line);) {
    const auto object = wire::parse_object(line);
    ASSERT_TRUE(object) << line;
    before = std::exchange(event, (*object)["event"].get<std::string>());
    written += event == "line";
    if (event == "log_lines_dropped") dropped += (*object)["lines"].get<int>();
  }
  EXPECT_EQ(event, "last");
  EXPECT_EQ(before, "log_lines_dropped");
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(written + dropped, kLines);
}

TEST(Log, WhatNobodyReadsIsDroppedAndCounted) {
  for (const bool is_pipe : {true, false}) {
    int ends[2], told[2], heard[2];
    ASSERT_EQ(is_pipe ? ::pipe2(ends, O_CLOEXEC) : ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ASSERT_EQ(::pipe2(told, O_CLOEXEC) | ::pipe2(heard, O_CLOEXEC), 0);
    const pid_t child = ::fork();
    if (child == 0) write_much(ends[1], told[1], heard[0]);
    const wire::UniqueFd ours(ends[0]), said(told[0]), tell(heard[1]);
    for (const int theirs : {told[1], heard[0]}) ::close(theirs);
    pollfd done{said.get(), POLLIN, 0};
    const bool ends_in_time = ::poll(&done, 1, 20'000) == 1;
    EXPECT_TRUE(ends_in_time) << "it waits for a reader";
    EXPECT_EQ(::fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0) << "others have it too";
    ::close(ends[1]);
    std::string log = ends_in_time ? read_all(ours.get(), 0) : "";
    if (!ends_in_time) ::kill(child, SIGKILL);
    (void)!::write(tell.get(), "", 1);
    log += read_all(ours.get(), 20'000);
    ::waitpid(child, nullptr, 0);
    if (ends_in_time) expect_whole_lines(log);
  }
}

}  // namespace
}  // namespace kiln::server

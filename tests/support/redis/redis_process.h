// Debian's redis-server for a test, and a wire to it that can be cut.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "kiln/wire/fd.h"

extern char** environ;  // NOLINT(readability-redundant-declaration)

namespace kiln::redis_test {

inline int shell(const std::string& command) { return std::system(("{ " + command + "; } >/dev/null 2>&1").c_str()); }

inline bool redis_installed() { return shell("command -v redis-server && command -v redis-cli") == 0; }

// Nothing on disk, and a socket in the test's directory.
class RedisProcess {
 public:
  explicit RedisProcess(const std::string& directory, std::vector<std::string> more = {})
      : directory_(directory), socket_(directory + "/redis.sock"), more_(std::move(more)) {
    start();
  }
  ~RedisProcess() { kill_now(); }
  RedisProcess(const RedisProcess&) = delete;
  RedisProcess& operator=(const RedisProcess&) = delete;

  void start() {
    std::vector<std::string> words = {"redis-server",
                                      "--port",
                                      "0",
                                      "--unixsocket",
                                      socket_,
                                      "--save",
                                      "",
                                      "--dir",
                                      directory_,
                                      "--appendonly",
                                      "no",
                                      "--daemonize",
                                      "no",
                                      "--logfile",
                                      directory_ + "/redis.log"};
    words.insert(words.end(), more_.begin(), more_.end());
    std::vector<char*> pointers;
    for (auto& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    EXPECT_EQ(::posix_spawnp(&pid_, "redis-server", nullptr, nullptr, pointers.data(), environ), 0);
    EXPECT_TRUE(answers());
  }
  void kill_now() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  std::string url() const { return "redis+unix://" + socket_; }
  const std::string& socket() const { return socket_; }
  // What redis-cli prints.
  std::string ask(const std::string& words) const {
    std::string out;
    std::FILE* pipe = ::popen(("redis-cli -s " + socket_ + " " + words).c_str(), "re");
    std::array<char, 4096> buffer;
    for (size_t count; (count = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0;)
      out.append(buffer.data(), count);
    ::pclose(pipe);
    while (out.ends_with('\n')) out.pop_back();
    return out;
  }

 private:
  bool answers() const {
    for (int i = 0; i < 1200; ++i) {
      if (shell("redis-cli -s " + socket_ + " PING") == 0) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return false;
  }

  const std::string directory_, socket_;
  const std::vector<std::string> more_;
  pid_t pid_ = -1;
};

// Passes bytes on between those who connect to it and a socket, until it is cut: then it keeps them, and its
// connections stay open, as those of a host whose network is gone.
class Wire {
 public:
  Wire(std::string path, std::string to) : path_(std::move(path)), to_(std::move(to)) {
    listener_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un name = name_of(path_);
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  void cut() { cut_ = true; }
  void mend() { cut_ = false; }
  std::string url() const { return "redis+unix://" + path_; }

 private:
  static sockaddr_un name_of(const std::string& path) {
    sockaddr_un out{};
    out.sun_family = AF_UNIX;
    path.copy(out.sun_path, sizeof out.sun_path - 1);
    return out;
  }
  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      if (cut_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
        continue;
      }
      std::vector<pollfd> ends = {{listener_.get(), POLLIN, 0}};
      for (const auto& [from, to] : pairs_) {
        ends.push_back({from.get(), POLLIN, 0});
        ends.push_back({to.get(), POLLIN, 0});
      }
      if (::poll(ends.data(), ends.size(), 10) <= 0 || cut_) continue;
      for (size_t i = pairs_.size(); i-- > 0;) {
        auto& [a, b] = pairs_[i];
        const bool open = (ends[1 + 2 * i].revents == 0 || pass(a.get(), b.get())) &&
                          (ends[2 + 2 * i].revents == 0 || pass(b.get(), a.get()));
        if (!open) pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (ends[0].revents != 0) join();
    }
  }
  void join() {
    wire::UniqueFd from(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    wire::UniqueFd to(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un name = name_of(to_);
    if (::connect(to.get(), reinterpret_cast<const sockaddr*>(&name), sizeof name) == 0) {
      pairs_.emplace_back(std::move(from), std::move(to));
    }
  }
  static bool pass(int from, int to) {
    std::array<char, 65536> buffer;
    const ssize_t count = ::recv(from, buffer.data(), buffer.size(), 0);
    if (count <= 0) return false;
    for (ssize_t done = 0; done < count;) {
      const ssize_t sent = ::send(to, buffer.data() + done, static_cast<size_t>(count - done), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      done += sent;
    }
    return true;
  }

  const std::string path_, to_;
  wire::UniqueFd listener_;
  std::vector<std::pair<wire::UniqueFd, wire::UniqueFd>> pairs_;
  std::atomic<bool> cut_{false};
  std::jthread thread_;
};

}  // namespace kiln::redis_test

// A daemon in a directory of its own, clients for it, and ways to look at it.
#pragma once

#include <gtest/gtest.h>
#include <sys/types.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../support/figures.h"
#include "kiln/client/connection.h"
#include "kiln/wire/channel.h"
#include "kiln/wire/messages.h"
#include "patience.h"

namespace kiln::service_test {

// A sanitizer's own memory is not bounded, and all takes several times as long.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Else AddressSanitizer refuses what is loaded before it, in every process that is started from here on.
inline void allow_preloading() {
  const char* given = std::getenv("ASAN_OPTIONS");
  ::setenv("ASAN_OPTIONS", ((given ? given + std::string(":") : "") + "verify_asan_link_order=0").c_str(), 1);
}

using client::Connection;
using client::ConnectOptions;
using test::figures_of;
using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

using test::kPatience;

// A directory that is removed with its contents.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

// A kilnd that this process started and will end.
class DaemonProcess {
 public:
  DaemonProcess() = default;
  DaemonProcess(DaemonProcess&& other) noexcept : pid_(std::exchange(other.pid_, -1)) {}
  ~DaemonProcess() { kill_now(); }

  // Waits for its readiness line and returns it.
  std::string start(const std::string& runtime_dir, const std::vector<std::string>& arguments);
  pid_t pid() const { return pid_; }
  void signal(int number) const;
  // The exit code, or 128 + signal; -1 when it is still there after `patience`.
  int wait(std::chrono::milliseconds patience = kPatience);
  void kill_now();

 private:
  pid_t pid_ = -1;
};

class ServiceTest : public ::testing::Test {
 protected:
  std::string runtime() const { return temp_ / "run"; }
  std::string cache() const { return temp_ / "cache"; }
  std::vector<std::string> daemon_arguments() const;
  // Starts the fixture's daemon; more arguments override the defaults.
  void start(std::vector<std::string> more = {});
  ConnectOptions options() const;
  std::unique_ptr<Connection> connect();
  nlohmann::json stats();
  int jobs_queued();  // jobs, of both classes
  // Those that are at a compile now. Of what they are ordered, "waits" ends when it is told to, and not before: what a
  // test does while it runs has as long as it takes.
  std::vector<pid_t> busy_workers();
  static void let_go(const std::vector<pid_t>& workers);

  TempDir temp_;
  DaemonProcess daemon_;
};

// A compile request that the fake worker obeys.
RequestBytes order(const std::string& what, uint64_t number = 64, const std::string& salt = "x",
                   const std::string& debug = "");

// Polls, because processes end when they end; fails the test after `patience`.
bool eventually(const std::function<bool()>& condition, std::chrono::milliseconds patience = kPatience);

// Processes whose parent, or parent's parent, is `root`.
std::vector<pid_t> descendants(pid_t root);
bool alive(pid_t pid);
size_t open_descriptors(pid_t pid);

// A connection of its own making, for peers that do not behave.
class RawPeer {
 public:
  explicit RawPeer(const std::string& runtime_dir);
  Result<wire::Frame> read(std::chrono::milliseconds patience = kPatience);
  void hello(wire::Version version = wire::kVersion);
  void send(const wire::OutFrame& frame);
  void send_bytes(std::string_view bytes);
  // True when the daemon closes the connection in time; frames before that are dropped.
  bool closed(std::chrono::milliseconds patience = kPatience);
  int fd() const { return channel_->fd(); }

 private:
  std::unique_ptr<wire::Channel> channel_;
};

std::vector<std::string> entry_files(const std::string& cache_dir);

}  // namespace kiln::service_test

// Statement 39: what others have put into the daemon's directories, for it to follow, wait at, write to or delete.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>

#include "bar.h"
#include "fault_fs.h"
#include "kiln/wire/own_file.h"
#include "kiln/wire/paths.h"
#include "left_out.h"
#include "other_build.h"

namespace kiln::service_test {
namespace {

namespace fs = std::filesystem;
using server::entry;
using server::key_number;

constexpr uid_t kNobody = 65534;

enum class Kind { kLink, kFifo, kHardLink, kStrangers };  // the last only by root, who can make such

std::vector<Kind> kinds() {
  std::vector<Kind> out = {Kind::kLink, Kind::kFifo, Kind::kHardLink};
  if (test::root_may("give a file to another user")) out.push_back(Kind::kStrangers);
  return out;
}

// What must be left as it is: a file, and a directory with all that a cache has.
class Victim {
 public:
  Victim() {
    std::ofstream(file()) << "alias ls=ls\n";
    for (const std::string& place : {std::string(), std::string("/0123456789abcdef/01/")}) {
      fs::create_directories(directory() + place);
      for (int i = 0; i < 80; ++i) std::ofstream(directory() + place + "/" + std::to_string(100 + i)) << "precious";
    }
    fs::create_directory(directory() + "/other");
    before_ = contents();
  }
  std::string file() const { return temp_ / ".profile"; }
  std::string directory() const { return temp_ / "documents"; }
  void expect_untouched(const std::string& what) const {
    EXPECT_TRUE(contents() == before_) << what << " led to something that was changed";
  }

 private:
  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> out;
    for (const auto& item : fs::recursive_directory_iterator(temp_.path())) {
      std::ifstream text(item.path());
      out[item.path().string()] = item.is_directory() ? "" : std::string(std::istreambuf_iterator<char>(text), {});
    }
    return out;
  }
  TempDir temp_;
  std::map<std::string, std::string> before_;
};

void plant_file(Kind kind, const std::string& path, const Victim& victim) {
  switch (kind) {
    case Kind::kLink:
      return fs::create_symlink(victim.file(), path);
    case Kind::kFifo:
      ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
      return;
    case Kind::kHardLink:
      return fs::create_hard_link(victim.file(), path);
    case Kind::kStrangers:
      std::ofstream(path) << "";
      ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
      ASSERT_EQ(::chmod(path.c_str(), 0666), 0);
  }
}

std::string text_of(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class BarPlanted : public Bar {
 protected:
  void SetUp() override { ASSERT_TRUE(wire::open_private_dir(cache())); }
  // All that a cache does to its directories.
  void use(const std::string& log_file) {
    server::PosixFs posix;
    server::Log log(log_file, "warn");
    server::DiskCache disk(posix, log, cache(), "b", 2 << 10);
    disk.open();
    disk.scan();
    for (uint64_t i = 0; i < 6; ++i) disk.store(key_number(i), entry(key_number(i)), i % 2 == 0);
    const bool elsewhere = fs::is_symlink(cache() + "/v1");
    for (const std::string& file : elsewhere ? std::vector<std::string>() : entry_files(cache())) {
      fs::permissions(file, fs::perms::owner_all);
      fs::resize_file(file, 100);
    }
    for (uint64_t i = 0; i < 6; ++i) EXPECT_FALSE(disk.find(key_number(i)));
    for (uint64_t i = 0; i < 3; ++i) disk.keep_crash(key_number(i), entry(key_number(i), 0));
    disk.set_limit(1);
    disk.recount();
    disk.recheck();
  }
  ConnectOptions autostart() const {
    ConnectOptions out = options();
    out.autostart = true;
    out.daemon_args = {"--cache-dir", cache(), "--workers", "2", "--idle-timeout", "60"};
    return out;
  }
  void TearDown() override {
    if (auto left = Connection::open(options())) {
      EXPECT_TRUE((*left)->shutdown());
    }
  }
};

TEST_F(BarPlanted, Statement39DirectoriesOfACacheLeadNowhereElse) {
  int tried = 0;
  const std::string builder = "v1/" + wire::builder_directory("b");
  const std::vector<std::string> names = {"v1", "tmp", "quarantine", "crashes", builder};
  for (const Kind kind : kinds()) {
    if (kind == Kind::kHardLink) continue;  // there are none of directories
    for (const std::string& name : names) {
      const Victim victim;
      fs::remove_all(cache());
      ASSERT_TRUE(wire::open_private_dir(cache()));
      const std::string path = cache() + "/" + name, log = temp_ / ("log" + std::to_string(tried++));
      fs::create_directories(fs::path(path).parent_path());
      if (kind == Kind::kLink) fs::create_directory_symlink(victim.directory(), path);
      if (kind == Kind::kFifo) plant_file(kind, path, victim);
      if (kind == Kind::kStrangers) {
        fs::copy(victim.directory(), path, fs::copy_options::recursive);
        ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
      }
      const auto before = std::distance(fs::recursive_directory_iterator(cache()), {});
      use(log);
      victim.expect_untouched(name);
      if (kind == Kind::kStrangers && name != builder) {
        EXPECT_EQ(std::distance(fs::recursive_directory_iterator(cache()), {}), before) << name;
      }
      const std::string said = text_of(log);
      EXPECT_TRUE(said.find(path + ": ") != std::string::npos || said.find("store_degraded") != std::string::npos)
          << name << ": " << said;
    }
  }
  figure(39, "%d directories of a cache that lead elsewhere: nothing there changed", tried);
}

TEST_F(BarPlanted, Statement39FilesOfACacheAreNobodyElses) {
  for (const Kind kind : kinds()) {
    for (const char* name : {"LOCK", "reserve"}) {
      const Victim victim;
      fs::remove_all(cache());
      ASSERT_TRUE(wire::open_private_dir(cache()));
      plant_file(kind, cache() + "/" + name, victim);
      use(temp_ / "log");
      victim.expect_untouched(name);
      if (kind == Kind::kStrangers && name == std::string("LOCK")) {
        EXPECT_EQ(text_of(cache() + "/LOCK"), "");
      }
    }
  }
}

// A miss, which heals; and nobody waits.
TEST_F(BarPlanted, Statement39WhatIsNoEntryIsAMiss) {
  server::PosixFs posix;
  server::Log log(temp_ / "log", "warn");
  server::DiskCache disk(posix, log, cache(), "b", 1 << 20);
  disk.open();
  const auto key = key_number(1);
  ASSERT_TRUE(disk.store(key, entry(key)));
  const std::string path = entry_files(cache()).at(0), elsewhere = temp_ / "elsewhere";
  fs::copy_file(path, elsewhere);
  auto replant = [&](const std::function<void()>& plant) {
    fs::remove_all(path);
    plant();
    const auto known = disk.find_cached(key);
    EXPECT_FALSE(known && *known);
    EXPECT_FALSE(disk.find(key));
    EXPECT_TRUE(disk.store(key, entry(key)));
    EXPECT_TRUE(disk.find(key)) << "it heals";
  };
  replant([&] { fs::create_symlink(elsewhere, path); });
  replant([&] { ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0); });
  replant([&] { fs::create_directories(path + "/deep"); });
  const bool more = test::root_may("give a file to another user");
  if (more) {
    replant([&] {
      fs::copy_file(elsewhere, path);
      ASSERT_EQ(::chown(path.c_str(), kNobody, kNobody), 0);
    });
  }
  EXPECT_EQ(disk.stats().corrupt, more ? 4u : 3u);
  EXPECT_EQ(disk.stats().quarantined, disk.stats().corrupt);
}

// The daemon's io thread looks up what memory holds of the disk; it too waits for nobody.
TEST_F(BarPlanted, Statement39AFifoInAnEntrysPlaceStopsNobody) {
  start();
  ASSERT_TRUE(connect()->fetch(order("bytes")));
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  const std::string path = entry_files(cache()).at(0);
  fs::remove(path);
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  start();
  Stopwatch took;
  auto served = connect()->fetch(order("bytes"));
  ASSERT_TRUE(served) << served.error().message;
  EXPECT_EQ(served->metadata.served_from, "compile");
  EXPECT_TRUE(connect()->ping());
  figure(39, "a fifo in an entry's place: compiled anew after %.1f ms", took.ms());
}

// Logs and reports are appended to; a trace id in a shell's start-up file would be executed by the next shell.
TEST_F(BarPlanted, Statement39LogsAndReportsGoNowhereElse) {
  const std::vector<std::string> names = {"kilnd.log",   "kiln-worker.log",   "kilnd.stderr",
                                          "kilnd.crash", "kiln-worker.crash", "kiln-tune.crash"};
  for (const Kind kind : kinds()) {
    const Victim victim;
    fs::remove_all(runtime());
    ASSERT_TRUE(wire::open_private_dir(runtime()));
    for (const std::string& name : names) plant_file(kind, runtime() + "/" + name, victim);
    auto daemon = Connection::open(autostart());
    ASSERT_TRUE(daemon) << daemon.error().message;
    EXPECT_TRUE((*daemon)->fetch(order("bytes", 64, std::to_string(static_cast<int>(kind)))));
    EXPECT_FALSE((*daemon)->fetch(order("segv", 64, std::to_string(static_cast<int>(kind)))));
    const auto pid = static_cast<pid_t>((*daemon)->server().pid);
    ::kill(pid, SIGABRT);
    ASSERT_TRUE(eventually([&] { return !alive(pid); }));
    victim.expect_untouched("kind " + std::to_string(static_cast<int>(kind)));
    if (kind == Kind::kStrangers) {
      for (const std::string& name : names) EXPECT_EQ(text_of(runtime() + "/" + name), "") << name;
    }
  }
}

// A log that is full takes the name of the one before it, whatever has that name.
TEST_F(BarPlanted, Statement39RotatedLogsGoNowhereElse) {
  constexpr size_t kFull = 5u << 20;
  for (const Kind kind : kinds()) {
    const Victim victim;
    fs::remove_all(runtime());
    ASSERT_TRUE(wire::open_private_dir(runtime()));
    for (const std::string name : {"kilnd", "kiln-worker"}) {
      std::ofstream(runtime() + "/" + name + ".log") << std::string(kFull, ' ') << "\n";
      fs::permissions(runtime() + "/" + name + ".log", fs::perms::owner_read | fs::perms::owner_write);
      for (const char* number : {".1", ".2", ".3"}) plant_file(kind, runtime() + "/" + name + number + ".log", victim);
    }
    auto daemon = Connection::open(autostart());
    ASSERT_TRUE(daemon) << daemon.error().message;
    EXPECT_TRUE((*daemon)->fetch(order("bytes", 64, std::to_string(static_cast<int>(kind)))));
    EXPECT_TRUE((*daemon)->shutdown());
    const auto pid = static_cast<pid_t>((*daemon)->server().pid);
    ASSERT_TRUE(eventually([&] { return !alive(pid); }));
    victim.expect_untouched("kind " + std::to_string(static_cast<int>(kind)));
    EXPECT_LT(fs::file_size(runtime() + "/kilnd.log"), kFull) << "it was not full";
    EXPECT_NE(text_of(runtime() + "/kilnd.log").find("listening"), std::string::npos);
  }
}

// Where a second installation's daemon would live while another has the usual place.
TEST_F(BarPlanted, Statement39ADirectoryOfAnotherInstallationLeadsNowhereElse) {
  auto first = Connection::open(autostart());
  ASSERT_TRUE(first) << first.error().message;
  ConnectOptions other = autostart();
  other.worker_path = other_build_of(KILN_TEST_WORKER, temp_ / "other_worker");
  ASSERT_NE(other.worker_path, "");
  const std::string place = runtime() + "/of-" + wire::builder_directory(other.kilnd_path + "\n" + other.worker_path);
  for (const Kind kind : kinds()) {
    if (kind == Kind::kHardLink) continue;
    const Victim victim;
    if (kind == Kind::kLink) fs::create_directory_symlink(victim.directory(), place);
    if (kind == Kind::kFifo) plant_file(kind, place, victim);
    if (kind == Kind::kStrangers) {
      fs::create_directory(place);
      ASSERT_EQ(::chown(place.c_str(), kNobody, kNobody), 0);
    }
    auto refused = Connection::open(other);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message.find("of-"), std::string::npos) << refused.error().message;
    victim.expect_untouched("kind " + std::to_string(static_cast<int>(kind)));
    fs::remove_all(place);
  }
  auto second = Connection::open(other);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE((*second)->shutdown());
}

// Whoever opens a file waits for whoever has such a lease on it, for 45 s.
TEST_F(BarPlanted, Statement39ALeaseOnTheFileOfOptionsStopsNobody) {
  const std::string file = temp_ / "kilnd.toml";
  std::ofstream(file) << "queue-limit = 6\n";
  start({"--config", file});
  auto daemon = connect();
  ASSERT_TRUE(daemon->ping());
  std::ofstream(file) << "queue-limit = 7\n";
  ::signal(SIGIO, SIG_IGN);  // it would be given up
  wire::UniqueFd holder(::open(file.c_str(), O_RDWR | O_CLOEXEC));
  if (::fcntl(holder.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "no leases on this file system";
  daemon_.signal(SIGHUP);
  const auto refused = [&] {
    for (const auto& line : log_lines("kilnd.log")) {
      if (line["event"] == "reload_failed") return line["reason"].get<std::string>();
    }
    return std::string();
  };
  const Stopwatch time;
  EXPECT_TRUE(eventually([&] { return !refused().empty(); }));
  EXPECT_TRUE(daemon->ping());
  EXPECT_LT(time.ms(), 10'000);
  EXPECT_EQ(refused(), file + " is held by somebody's lease");
  EXPECT_EQ(stats()["config"]["queue_jobs"], 6);
  holder.reset();
  daemon_.signal(SIGHUP);
  EXPECT_TRUE(eventually([&] { return stats()["config"]["queue_jobs"] == 7; }));
}

TEST_F(BarPlanted, Statement39LocksAreNobodyElses) {
  for (const Kind kind : kinds()) {
    for (const std::string name : {wire::kLockName, wire::kSpawnLockName}) {
      const Victim victim;
      fs::remove_all(runtime());
      ASSERT_TRUE(wire::open_private_dir(runtime()));
      plant_file(kind, runtime() + "/" + name, victim);
      auto refused = Connection::open(autostart());
      ASSERT_FALSE(refused);
      EXPECT_NE(refused.error().message.find(name + ": it "), std::string::npos) << refused.error().message;
      victim.expect_untouched(name);
    }
  }
}

}  // namespace
}  // namespace kiln::service_test

// The disk tier through the daemon: damage, foreign entries, full and unwritable disks, eviction.
#include <fcntl.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>

#include "service_fixture.h"

namespace kiln::service_test {
namespace {

namespace fs = std::filesystem;

class StoreTest : public ServiceTest {
 protected:
  void restart(std::vector<std::string> more = {}) {
    daemon_.signal(SIGTERM);
    ASSERT_EQ(daemon_.wait(), 0);
    start(std::move(more));
  }
  // The file of one compiled entry, with the daemon stopped.
  std::string compiled_entry(const RequestBytes& request) {
    start();
    EXPECT_TRUE(connect()->fetch(request));
    daemon_.signal(SIGTERM);
    EXPECT_EQ(daemon_.wait(), 0);
    auto files = entry_files(cache());
    EXPECT_EQ(files.size(), 1u);
    return files.empty() ? "" : files[0];
  }
  size_t quarantined() const {
    std::error_code ignored;
    return static_cast<size_t>(std::distance(fs::directory_iterator(cache() + "/quarantine", ignored), {}));
  }
  // Recompiled on the first request, on disk again for the next daemon.
  void expect_healed(const RequestBytes& request, int corrupt) {
    start();
    auto healed = connect()->fetch(request);
    ASSERT_TRUE(healed) << healed.error().message;
    EXPECT_EQ(healed->metadata.served_from, "compile");
    auto figures = stats();
    EXPECT_EQ(figures["cache_corrupt_total"], corrupt);
    EXPECT_EQ(figures["cache_quarantined_total"], corrupt);
    restart();
    auto hit = connect()->fetch(request);
    ASSERT_TRUE(hit) << hit.error().message;
    EXPECT_EQ(hit->metadata.served_from, "disk");
    EXPECT_EQ(hit->code, healed->code);
  }
};

void flip_byte(const std::string& path, size_t at) {
  ::chmod(path.c_str(), 0600);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(at));
  char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(static_cast<std::streamoff>(at));
  file.put(byte);
}

TEST_F(StoreTest, DirectoryIsPrivateAndEntriesAreReadOnly) {
  std::string file = compiled_entry(order("bytes"));
  struct stat info{};
  ASSERT_EQ(::stat(cache().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0700u);
  ASSERT_EQ(::stat(file.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0400u);
  EXPECT_TRUE(fs::is_empty(cache() + "/tmp"));
}

TEST_F(StoreTest, DamagedEntryIsQuarantinedAndRecompiled) {
  auto request = order("bytes", 1000);
  std::string file = compiled_entry(request);
  flip_byte(file, 500);
  expect_healed(request, 1);
  EXPECT_EQ(quarantined(), 1u);
}

TEST_F(StoreTest, TruncatedEntryIsQuarantinedAndRecompiled) {
  auto request = order("bytes", 1000);
  std::string file = compiled_entry(request);
  fs::permissions(file, fs::perms::owner_all);
  fs::resize_file(file, 700);
  expect_healed(request, 1);
}

TEST_F(StoreTest, EmptyEntryIsQuarantinedAndRecompiled) {
  auto request = order("bytes", 1000);
  std::string file = compiled_entry(request);
  fs::permissions(file, fs::perms::owner_all);
  fs::resize_file(file, 0);
  expect_healed(request, 1);
}

TEST_F(StoreTest, EntryUnderAnotherNameIsRefused) {
  start();
  auto daemon = connect();
  auto mine = order("bytes", 100, "mine"), other = order("bytes", 100, "other");
  ASSERT_TRUE(daemon->fetch(other));
  std::string hex = to_hex(daemon->key_of(mine));
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  fs::path file = entry_files(cache()).at(0);
  fs::path swapped = file.parent_path().parent_path() / hex.substr(0, 2) / hex.substr(2);
  fs::create_directories(swapped.parent_path());
  fs::copy_file(file, swapped);
  expect_healed(mine, 1);
}

TEST_F(StoreTest, LeftoversOfACrashAreSwept) {
  start();
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  std::ofstream(cache() + "/tmp/999-1") << "torn";
  start();
  EXPECT_TRUE(connect()->ping());
  EXPECT_TRUE(fs::is_empty(cache() + "/tmp"));
}

TEST_F(StoreTest, KillLoopServesNothingTorn) {
  for (int round = 0; round < 15; ++round) {
    start();
    auto daemon = connect();
    for (int i = 0; i < 6; ++i) {
      std::string salt = std::to_string(round * 4 + i);
      auto artifact = daemon->fetch(order("bytes", 20'000, salt));
      ASSERT_TRUE(artifact) << artifact.error().message;
      ASSERT_EQ(artifact->metadata.entry, salt);
    }
    EXPECT_EQ(stats()["cache_corrupt_total"], 0);
    daemon_.signal(SIGKILL);
    daemon_.wait();
  }
}

TEST_F(StoreTest, UnusableCacheDirectoryStillCompiles) {
  fs::create_directory(cache());
  ::chmod(cache().c_str(), 0755);  // open to others: not ours to use
  start();
  auto daemon = connect();
  auto artifact = daemon->fetch(order("bytes"));
  ASSERT_TRUE(artifact) << artifact.error().message;
  EXPECT_EQ(daemon->fetch(order("bytes"))->metadata.served_from, "memory");
  EXPECT_EQ(stats()["store_degraded"], 1);
  EXPECT_TRUE(entry_files(cache()).empty());
  std::ifstream log(runtime() + "/kilnd.log");
  std::string text((std::istreambuf_iterator<char>(log)), {});
  EXPECT_NE(text.find("cache_unusable"), std::string::npos);
}

TEST_F(StoreTest, UnwritableCacheDirectoryStillCompiles) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount";
  fs::create_directory(cache());
  if (::mount("none", cache().c_str(), "tmpfs", MS_RDONLY, "mode=0700") != 0)
    GTEST_SKIP() << "mounting is not permitted";
  start();
  EXPECT_TRUE(connect()->fetch(order("bytes")));
  EXPECT_EQ(stats()["store_degraded"], 1);
  daemon_.kill_now();
  ::umount2(cache().c_str(), MNT_DETACH);
}

TEST_F(StoreTest, FullDiskStillCompilesAndRecovers) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount";
  fs::create_directory(cache());
  if (::mount("none", cache().c_str(), "tmpfs", 0, "size=4m,mode=0700") != 0)
    GTEST_SKIP() << "mounting is not permitted";
  start({"--memory-size", "1000"});
  auto daemon = connect();
  // More than fits: the cache lives within what there is.
  for (int i = 0; i < 150; ++i) {
    auto artifact = daemon->fetch(order("bytes", 50'000, std::to_string(i)));
    ASSERT_TRUE(artifact) << artifact.error().message;
    ASSERT_EQ(artifact->code.size(), 50'000u);
  }
  EXPECT_TRUE(eventually([&] { return stats()["evictions_total"] > 0; }));
  // Somebody else fills it, and nothing of ours is left to free.
  fs::remove_all(cache() + "/v1");
  fs::remove(cache() + "/reserve");
  auto fill = [&] {
    std::ofstream hog(cache() + "/hog", std::ios::binary | std::ios::app);
    while (hog.write(std::string(4096, 'h').data(), 4096).flush()) {
    }
  };
  // What the daemon was still writing or evicting makes room behind the first filling: fill up before each request.
  int request = 0;
  EXPECT_TRUE(eventually([&] {
    fill();
    EXPECT_TRUE(daemon->fetch(order("bytes", 50'000, "full" + std::to_string(request++))));
    return stats()["store_degraded"] == 1;
  }));
  EXPECT_GT(stats()["store_errors_total"], 0);
  fs::remove(cache() + "/hog");
  ASSERT_TRUE(daemon->fetch(order("bytes", 50'000, "room")));
  EXPECT_TRUE(eventually([&] { return stats()["store_degraded"] == 0; }));
  daemon_.kill_now();
  ::umount2(cache().c_str(), MNT_DETACH);
}

// `rm -rf` of what is only a cache, under a daemon that goes on.
TEST_F(StoreTest, ARemovedDirectoryIsMadeAgain) {
  start();
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes", 64, "before"), {.durable = true}));
  for (const std::string& removed : {cache() + "/tmp", cache() + "/v1", cache()}) {
    fs::remove_all(removed);
    auto after = daemon->compile(order("bytes", 64, removed), {.durable = true});
    ASSERT_TRUE(after) << after.error().message;
    EXPECT_EQ(after->metadata.durable, true) << removed;
    EXPECT_EQ(entry_files(cache()).size(), removed.ends_with("/tmp") ? 2u : 1u) << removed;
  }
  EXPECT_EQ(stats()["store_degraded"], 0);
  restart();
  auto hit = connect()->fetch(order("bytes", 64, cache()));
  ASSERT_TRUE(hit) << hit.error().message;
  EXPECT_EQ(hit->metadata.served_from, "disk");
}

TEST_F(StoreTest, DiskStaysUnderItsLimit) {
  start({"--cache-size", "400000", "--memory-size", "1000"});
  auto daemon = connect();
  for (int i = 0; i < 40; ++i) ASSERT_TRUE(daemon->fetch(order("bytes", 20'000, std::to_string(i))));
  ASSERT_TRUE(eventually([&] { return stats()["stored_total"] == 40; }));
  uint64_t total = 0;
  for (const auto& file : entry_files(cache())) total += fs::file_size(file);
  EXPECT_LE(total, 400'000u);
  EXPECT_GT(total, 200'000u);
  EXPECT_GT(stats()["evictions_total"], 0);
}

TEST_F(StoreTest, SecondDaemonOnOneCacheReadsOnly) {
  start();
  ASSERT_TRUE(connect()->fetch(order("bytes", 64, "shared")));
  ASSERT_TRUE(eventually([&] { return entry_files(cache()).size() == 1; }));
  DaemonProcess second;
  ASSERT_EQ(second.start(temp_ / "run2", daemon_arguments()), "ready");
  ConnectOptions there = options();
  there.runtime_dir = temp_ / "run2";
  auto reader = Connection::open(there);
  ASSERT_TRUE(reader);
  EXPECT_EQ((*reader)->fetch(order("bytes", 64, "shared"))->metadata.served_from, "disk");
  // Durable, so that the answer comes when it has tried.
  auto own = (*reader)->fetch(order("bytes", 64, "own"), {.durable = true});
  ASSERT_TRUE(own);
  EXPECT_EQ(own->metadata.durable, false);
  EXPECT_EQ(figures_of(**reader)["store_read_only"], 1);
  EXPECT_EQ(entry_files(cache()).size(), 1u);
  // With the writer gone the reader takes over at its next store.
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  EXPECT_TRUE((*reader)->fetch(order("bytes", 64, "after")));
  EXPECT_TRUE(eventually([&] { return entry_files(cache()).size() == 2; }));
}

}  // namespace
}  // namespace kiln::service_test

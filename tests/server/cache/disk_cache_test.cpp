// The disk tier by itself, over a file system whose every call can be made to fail.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>
#include <fstream>
#include <thread>

#include "cache/store.h"
#include "fault_fs.h"
#include "sampled.h"

namespace kiln::server {
namespace {

namespace fs = std::filesystem;
using service_test::entry_files;

TEST_F(DiskCacheTest, StoresAndFinds) {
  auto cache = make();
  cache.open();
  EXPECT_FALSE(cache.find(key_number(1)));
  EXPECT_TRUE(cache.store(key_number(1), entry(key_number(1))));
  auto found = cache.find(key_number(1));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->bytes, entry(key_number(1)));
  EXPECT_TRUE(found->fd);
}

// What was just written, and that there was nothing, memory knows where the file system lets it say so.
TEST_F(DiskCacheTest, FindsAtOnceWhatMemoryHolds) {
  auto cache = make();
  cache.open();
  ASSERT_TRUE(cache.store(key_number(1), entry(key_number(1))));
  auto known = cache.find_cached(key_number(1));
  if (!known) GTEST_SKIP() << "this file system or kernel does not say what memory holds";
  ASSERT_TRUE(*known);
  EXPECT_EQ((*known)->bytes, entry(key_number(1)));
  cache.note_use((*known)->fd);
  EXPECT_FALSE(cache.find(key_number(2)));
  known = cache.find_cached(key_number(2));
  EXPECT_TRUE(!known || !*known);
}

TEST_F(DiskCacheTest, WhatIsWrongIsNotSaidAtOnce) {
  auto cache = make();
  cache.open();
  ASSERT_TRUE(cache.store(key_number(1), entry(key_number(1))));
  const std::string file = entry_files(dir_ / "cache").at(0);
  fs::permissions(file, fs::perms::owner_all);
  fs::resize_file(file, 100);
  EXPECT_FALSE(cache.find_cached(key_number(1)));
  EXPECT_EQ(cache.stats().corrupt, 0u);
  EXPECT_FALSE(cache.find(key_number(1)));
  EXPECT_EQ(cache.stats().corrupt, 1u);
  // What is long is read by threads that may wait.
  const auto large = entry(key_number(2), 300 << 10);
  ASSERT_TRUE(cache.store(key_number(2), large));
  EXPECT_FALSE(cache.find_cached(key_number(2)));
  EXPECT_TRUE(cache.find(key_number(2)));
}

// Between the read of a bad entry and its removal somebody stores a good one, which has to stay.
TEST_F(DiskCacheTest, WhatHealsWhileItIsReadStays) {
  class HealingFs : public PosixFs {
   public:
    std::function<void()> heal;
    ssize_t read(int fd, std::byte* data, size_t size) override {
      const ssize_t count = PosixFs::read(fd, data, size);
      if (auto once = std::exchange(heal, nullptr)) once();
      return count;
    }
  };
  HealingFs healing;
  DiskCache cache(healing, log_, dir_ / "cache", "b", 1 << 20);
  cache.open();
  const auto good = entry(key_number(1));
  ASSERT_TRUE(cache.store(key_number(1), good));
  const std::string file = entry_files(dir_ / "cache").at(0);
  fs::permissions(file, fs::perms::owner_all);
  fs::resize_file(file, 100);
  healing.heal = [&] { EXPECT_TRUE(cache.store(key_number(1), good, true)); };
  EXPECT_FALSE(cache.find(key_number(1)));
  EXPECT_EQ(cache.stats().corrupt, 1u);
  EXPECT_EQ(cache.stats().quarantined, 0u);
  EXPECT_TRUE(cache.find(key_number(1))) << "what was acknowledged is lost";
}

// What others have put there counts from the next look on.
TEST_F(DiskCacheTest, IsCountedAnewWhenAsked) {
  auto cache = make();
  cache.open();
  const auto one = entry(key_number(1), 1000);
  ASSERT_TRUE(cache.store(key_number(1), one));
  const std::string file = entry_files(dir_ / "cache").at(0);
  fs::copy_file(file, fs::path(file).parent_path() / std::string(62, 'a'));
  EXPECT_EQ(cache.stats().bytes, one.size());
  cache.recount();
  EXPECT_EQ(cache.stats().bytes, 2 * one.size());
  cache.set_limit(one.size() * 3 / 2);
  cache.recount();
  EXPECT_EQ(cache.stats().bytes, one.size());
  EXPECT_EQ(cache.stats().evictions, 1u);
}

// What somebody else has put there and cannot be removed costs no other entry its place.
TEST_F(DiskCacheTest, WhatCannotBeRemovedTakesNobodysPlace) {
  class StuckFs : public PosixFs {
   public:
    int unlink(int dir, const std::string& path) override {
      return path.ends_with(std::string(62, 'a')) ? -EPERM : PosixFs::unlink(dir, path);
    }
  };
  StuckFs stuck;
  DiskCache cache(stuck, log_, dir_ / "cache", "b", 1 << 20);
  cache.open();
  const size_t size = entry(key_number(1), 1000).size();
  for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(cache.store(key_number(i), entry(key_number(i), 1000)));
  const fs::path planted = fs::path(entry_files(dir_ / "cache").at(0)).parent_path() / std::string(62, 'a');
  std::ofstream(planted) << std::string(500'000, 'x');
  fs::last_write_time(planted, fs::file_time_type::clock::now() - std::chrono::hours(1));
  cache.set_limit(20 * size);
  for (int i = 0; i < 3; ++i) cache.recount();
  EXPECT_EQ(cache.stats().evictions, 0u);
  EXPECT_EQ(cache.stats().bytes, 10 * size);
  for (uint64_t i = 0; i < 10; ++i) EXPECT_TRUE(cache.find(key_number(i))) << i;
  EXPECT_TRUE(cache.store(key_number(10), entry(key_number(10), 1000)));
  std::ifstream log(dir_ / "log");
  int said = 0;
  for (std::string line; std::getline(log, line);) said += line.find("not_evicted") != std::string::npos;
  EXPECT_EQ(said, 1);
}

// Nor does what is no entry count; nor is it removed.
TEST_F(DiskCacheTest, WhatIsNoEntryIsNotCounted) {
  auto cache = make();
  cache.open();
  const auto one = entry(key_number(1));
  ASSERT_TRUE(cache.store(key_number(1), one));
  const fs::path fan = fs::path(entry_files(dir_ / "cache").at(0)).parent_path(), v1 = fan.parent_path().parent_path();
  const std::string name(62, 'b');
  const fs::path fifo = fan / std::string(62, 'c'), link = fan / std::string(62, 'd');
  const fs::path directory = fan / std::string(62, 'e'), large = fan / std::string(62, 'f');
  fs::create_directories(v1 / "nobody" / "aa");
  fs::create_directories(fan.parent_path() / "aaa");
  std::vector<fs::path> planted = {fan / "short", fan / std::string(62, 'G'), v1 / "nobody/aa" / name,
                                   fan.parent_path() / "aaa" / name, v1 / name};
  for (const fs::path& at : planted) std::ofstream(at) << std::string(300'000, 'x');
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  fs::create_symlink(fan / "short", link);
  fs::create_directory(directory);
  wire::UniqueFd file(::open(large.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  ASSERT_EQ(::posix_fallocate(file.get(), 0, wire::kMaxEntrySize + 1), 0) << "longer than an entry may be";
  planted.insert(planted.end(), {fifo, link, directory, large});
  cache.recount();
  EXPECT_EQ(cache.stats().bytes, one.size());
  EXPECT_TRUE(cache.find(key_number(1)));
  cache.set_limit(0);
  cache.recount();
  EXPECT_EQ(cache.stats().bytes, 0u);
  EXPECT_EQ(cache.stats().evictions, 1u);
  EXPECT_FALSE(cache.find(key_number(1)));
  for (const fs::path& at : planted) EXPECT_TRUE(fs::exists(fs::symlink_status(at))) << at;
}

// What an import has not written to its end is no entry, and goes when nobody can be writing to it any more.
TEST_F(DiskCacheTest, WhatAKilledImportHasLeftGoesAfterADay) {
  auto cache = std::make_unique<DiskCache>(fs_, log_, dir_ / "cache", "b", 1 << 20);
  cache->open();
  ASSERT_TRUE(cache->store(key_number(1), entry(key_number(1))));
  const std::string file = entry_files(dir_ / "cache").at(0);
  const auto plant = [](const std::string& at, int hours) {
    std::ofstream(at) << std::string(300'000, 'x');
    fs::last_write_time(at, fs::file_time_type::clock::now() + std::chrono::hours(hours));
  };
  const std::string old = file + ".part-4", future = file + ".part-5", young = file + ".part-6";
  const std::string other = fs::path(file).parent_path() / "mine.part-4", directory = file + ".part-7";
  fs::create_directory(directory);
  const auto plant_all = [&] {
    for (const std::string& at : {old, other}) plant(at, -25);
    plant(future, 25);
    plant(young, -23);
    fs::last_write_time(directory, fs::file_time_type::clock::now() - std::chrono::hours(25));
  };
  const auto expect_swept = [&](const std::string& when) {
    for (const std::string& at : {old, future}) EXPECT_FALSE(fs::exists(at)) << when << ": " << at;
    for (const std::string& at : {young, other, directory, file}) EXPECT_TRUE(fs::exists(at)) << when << ": " << at;
  };
  plant_all();
  cache->recount();
  expect_swept("a count that was asked for");
  EXPECT_LT(cache->stats().bytes, 300'000u);
  plant_all();
  cache.reset();
  auto next = make();
  next.open();
  next.scan();
  expect_swept("the next daemon's");
}

// Nor does an entry count as more than it takes.
TEST_F(DiskCacheTest, WhatIsLongerThanItTakesCountsAsWhatItTakes) {
  auto cache = make();
  cache.open();
  const auto one = entry(key_number(1));
  ASSERT_TRUE(cache.store(key_number(1), one));
  const fs::path sparse = fs::path(entry_files(dir_ / "cache").at(0)).parent_path() / std::string(62, 'b');
  std::ofstream(sparse) << "x";
  fs::resize_file(sparse, wire::kMaxEntrySize);
  cache.recount();
  EXPECT_GE(cache.stats().bytes, one.size());
  EXPECT_LT(cache.stats().bytes, 100'000u);
  EXPECT_TRUE(cache.find(key_number(1)));
}

// Names that a store would take can be foreseen.
TEST_F(DiskCacheTest, DirectoriesInTmpStopNoStore) {
  auto cache = std::make_unique<DiskCache>(fs_, log_, dir_ / "cache", "b", 1 << 20);
  cache->open();
  const fs::path tmp = dir_ / "cache/tmp", elsewhere = dir_ / "elsewhere";
  for (int i = 0; i < 50; ++i) fs::create_directory(tmp / (std::to_string(::getpid()) + "-" + std::to_string(i)));
  for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(cache->store(key_number(i), entry(key_number(i)))) << i;
  EXPECT_FALSE(cache->stats().degraded);
  // They go with what a crash has left, and with them what is in them; what a link leads to stays.
  fs::create_directories(tmp / "a/b/c");
  std::ofstream(elsewhere) << "x";
  fs::create_symlink(elsewhere, tmp / "a/b/link");
  fs::create_directory_symlink(dir_.path(), tmp / "a/up");
  std::ofstream(tmp / "a/b/file") << "x";
  cache.reset();
  auto next = make();
  next.open();
  EXPECT_TRUE(fs::is_empty(tmp));
  EXPECT_TRUE(fs::exists(elsewhere));
  EXPECT_TRUE(next.find(key_number(1)));
}

// Reports of crashes stay, whatever else lies there and whenever that says it was written.
TEST_F(DiskCacheTest, WhatIsPlantedAmongReportsPushesNoneOut) {
  Log log(dir_ / "info", "info");
  DiskCache cache(fs_, log, dir_ / "cache", "b", 1 << 20);
  cache.open();
  const fs::path crashes = dir_ / "cache/crashes";
  // More than the ring holds of each kind, all newer than the reports before them: directories and links a little, for
  // they are no reports whatever their time is, and files from the future.
  const auto plant = [&](const std::string& kind, time_t later, const auto& make_one) {
    for (int i = 0; i < 100; ++i) {
      const fs::path at = crashes / (kind + std::to_string(i));
      make_one(at);
      const timespec time{::time(nullptr) + later, 0}, times[2] = {time, time};
      ASSERT_EQ(::utimensat(AT_FDCWD, at.c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
    }
  };
  plant("future", 3'600'000, [](const fs::path& at) { std::ofstream(at) << "x"; });
  cache.keep_crash(key_number(0), entry(key_number(0)));
  plant("directory", 1, [](const fs::path& at) { fs::create_directory(at); });
  cache.keep_crash(key_number(1), entry(key_number(1)));
  plant("link", 1, [&](const fs::path& at) { fs::create_symlink(dir_ / "info", at); });
  cache.keep_crash(key_number(2), entry(key_number(2)));
  for (uint64_t i = 0; i < 3; ++i) EXPECT_TRUE(fs::exists(crashes / to_hex(key_number(i)))) << i;
  const fs::directory_iterator kept(crashes);
  EXPECT_EQ(std::distance(begin(kept), end(kept)), 64);
  std::ifstream file(dir_ / "info");
  int said = 0;
  for (std::string line; std::getline(file, line);) said += line.find("crash_kept") != std::string::npos;
  EXPECT_EQ(said, 3);
}

// A shutdown has no more time than it has: what is not written by then is dropped, and the rest is whole.
TEST_F(DiskCacheTest, TheEndDoesNotWaitForASlowDisk) {
  class SlowFs : public PosixFs {
   public:
    int sync_data(int fd) override {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return PosixFs::sync_data(fd);
    }
  };
  SlowFs slow;
  asio::io_context io;
  Config config;
  config.cache_dir = dir_ / "cache";
  constexpr int kEntries = 200;
  Store store(io, config, log_, slow, "builder");
  for (uint64_t i = 0; i < kEntries; ++i) {
    store.put(std::make_shared<const Blob>(Blob{key_number(i), entry(key_number(i)), nullptr}));
  }
  store.finish(std::chrono::milliseconds(200));
  const auto figures = store.stats();
  const int stored = figures["stored_total"], dropped = figures["store_dropped_total"];
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(stored + dropped, kEntries);
  EXPECT_EQ(entry_files(dir_ / "cache").size(), static_cast<size_t>(stored));
}

// One count for all who ask for it before it begins, however many do while another takes its time.
TEST_F(DiskCacheTest, CountsThatAreAskedForMeanwhileAreOne) {
  class HeldFs : public PosixFs {
   public:
    std::atomic<int> counts = 0;
    std::atomic<bool> held = false;
    int list(int dir, const std::string& path, std::vector<DirEntry>& entries) override {
      if (path == "v1") {
        ++counts;
        while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      return PosixFs::list(dir, path, entries);
    }
  };
  HeldFs fs;
  asio::io_context io;
  Config config;
  config.cache_dir = dir_ / "cache";
  Store store(io, config, log_, fs, "builder");
  ASSERT_TRUE(service_test::eventually([&] { return fs.counts == 1; })) << "the scan";
  store.set_limits(1 << 20, 1 << 20);
  ASSERT_TRUE(service_test::eventually([&] {
    store.set_limits(1 << 20, 1 << 20);  // none, as long as the scan has not ended
    return fs.counts > 1;
  }));
  fs.held = true;
  const int before = fs.counts;
  for (int i = 0; i < 300; ++i) {
    store.set_limits(1 << 20, 1 << 20);
    if (i % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  fs.held = false;
  store.set_limits(1 << 20, 2 << 20);
  store.finish();
  EXPECT_GT(fs.counts, before) << "the last one is heard";
  EXPECT_LE(fs.counts, before + 5);
}

TEST_F(DiskCacheTest, FaultsOfWhatIsFoundAtOnceLoseNothing) {
  auto cache = make();
  cache.open();
  ASSERT_TRUE(cache.store(key_number(1), entry(key_number(1))));
  for (int number : {EIO, EACCES, EMFILE, EAGAIN}) {
    for (int at = 0; at < 3; ++at) {
      fs_.number = number;
      fs_.calls = 0;
      fs_.fail_at = at;
      EXPECT_FALSE(cache.find_cached(key_number(1))) << "errno " << number << " at call " << at;
      fs_.fail_at = -1;
      ASSERT_TRUE(cache.find(key_number(1)));
    }
  }
}

TEST_F(DiskCacheTest, AnotherBuildersEntryIsAMiss) {
  auto cache = make();
  cache.open();
  ASSERT_TRUE(cache.store(key_number(1), entry(key_number(1), 500, "other builder")));
  EXPECT_FALSE(cache.find(key_number(1)));
  EXPECT_EQ(cache.stats().corrupt, 1u);
}

TEST_F(DiskCacheTest, EveryTruncationIsAMissAndHeals) {
  auto cache = make();
  cache.open();
  auto bytes = entry(key_number(1), 100);
  for (size_t size = 0; size < bytes.size(); ++size) {
    ASSERT_TRUE(cache.store(key_number(1), bytes));
    std::string file = entry_files(dir_ / "cache").at(0);
    fs::permissions(file, fs::perms::owner_all);
    fs::resize_file(file, size);
    ASSERT_FALSE(cache.find(key_number(1))) << size;
    ASSERT_TRUE(entry_files(dir_ / "cache").empty());
  }
  EXPECT_EQ(cache.stats().corrupt, bytes.size());
  size_t kept = static_cast<size_t>(std::distance(fs::directory_iterator(dir_ / "cache/quarantine"), {}));
  EXPECT_LE(kept, 64u);
}

TEST_F(DiskCacheTest, QuarantineKeepsTheNewestUpToItsSize) {
  auto cache = make(1 << 30);
  cache.open();
  constexpr size_t kSize = 20 << 20;
  for (int i = 1; i <= 5; ++i) {
    ASSERT_TRUE(cache.store(key_number(i), entry(key_number(i), kSize)));
    const std::string file = entry_files(dir_ / "cache").at(0);
    fs::permissions(file, fs::perms::owner_all);
    fs::resize_file(file, kSize);
    ASSERT_FALSE(cache.find(key_number(i)));
  }
  const fs::directory_iterator kept(dir_ / "cache/quarantine");
  EXPECT_EQ(std::distance(begin(kept), end(kept)), 3) << "64 MiB";
}

// One call after the other fails, with each error that a disk can give, two of them by turns in the default run: never
// a crash, never wrong bytes, and the next attempt without a fault succeeds.
TEST_F(DiskCacheTest, SweepOfFaults) {
  for (int at = 0; at < 60; ++at) {
    for (int number : test::sampled(std::vector<int>{EIO, ENOSPC, EDQUOT, EACCES, EMFILE, EROFS}, 2)) {
      fs::remove_all(dir_ / "cache");
      fs_.number = number;
      fs_.calls = 0;
      fs_.fail_at = at;
      auto cache = make();
      cache.open();
      cache.scan();
      for (uint64_t i = 0; i < 3; ++i) {
        cache.store(key_number(i), entry(key_number(i)));
        if (auto found = cache.find(key_number(i))) {
          EXPECT_EQ(found->bytes, entry(key_number(i)));
        }
      }
      fs_.fail_at = -1;
      ASSERT_TRUE(cache.store(key_number(9), entry(key_number(9)))) << "errno " << number << " at call " << at;
      ASSERT_TRUE(cache.find(key_number(9)));
      EXPECT_FALSE(cache.stats().degraded);
    }
  }
}

TEST_F(DiskCacheTest, EvictsTheOldestUseFirst) {
  auto cache = make(100 * entry(key_number(0)).size());
  cache.open();
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE(cache.store(key_number(i), entry(key_number(i))));
    set_age(i);
  }
  // A look-up counts as a use.
  ASSERT_TRUE(cache.find(key_number(0)));
  ASSERT_TRUE(cache.store(key_number(100), entry(key_number(100))));
  EXPECT_TRUE(cache.find(key_number(0)));
  EXPECT_TRUE(cache.find(key_number(100)));
  EXPECT_EQ(cache.stats().evictions, 11u);
  for (uint64_t i = 1; i < 100; ++i) EXPECT_EQ(cache.find(key_number(i)).has_value(), i > 11) << i;
}

TEST_F(DiskCacheTest, ScanCountsWhatIsThere) {
  {
    auto cache = make();
    cache.open();
    for (uint64_t i = 0; i < 10; ++i) ASSERT_TRUE(cache.store(key_number(i), entry(key_number(i))));
  }
  auto cache = make(5 * entry(key_number(0)).size());
  cache.open();
  cache.scan();
  EXPECT_LE(entry_files(dir_ / "cache").size(), 5u);
  EXPECT_LE(cache.stats().bytes, 5 * entry(key_number(0)).size());
}

// A full disk at once after the start, when nothing is counted yet, costs a tenth of the entries and not all.
TEST_F(DiskCacheTest, AFullDiskBeforeTheScanCostsFewEntries) {
  for (int at = 0; at < 10; ++at) {
    fs::remove_all(dir_ / "cache");
    {
      auto cache = make();
      cache.open();
      for (uint64_t i = 0; i < 50; ++i) ASSERT_TRUE(cache.store(key_number(i), entry(key_number(i))));
    }
    auto cache = make();
    cache.open();
    fs_.number = ENOSPC;
    fs_.fail_at = fs_.calls + at;
    cache.store(key_number(50), entry(key_number(50)));
    fs_.fail_at = -1;
    EXPECT_GE(entry_files(dir_ / "cache").size(), 43u) << "call " << at;
  }
}

// What is ours makes room on a full disk, one without inodes (ENOSPC too) and within a quota. Other failures evict
// nothing.
TEST_F(DiskCacheTest, RoomIsMadeOnAFullDiskAndWithinAQuota) {
  for (const int number : {ENOSPC, EDQUOT, EIO}) {
    int stored_after_evictions = 0, evictions = 0;
    for (int at = 0; at < 8; ++at) {
      fs::remove_all(dir_ / "cache");
      auto cache = make();
      cache.open();
      cache.scan();
      for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(cache.store(key_number(i), entry(key_number(i))));
      fs_.number = number;
      fs_.fail_at = fs_.calls + at;
      const bool is_stored = cache.store(key_number(50), entry(key_number(50)));
      fs_.fail_at = -1;
      evictions += cache.stats().evictions > 0;
      stored_after_evictions += is_stored && cache.stats().evictions > 0 && cache.find(key_number(50));
      EXPECT_EQ(cache.stats().degraded, !is_stored) << "errno " << number << " at call " << at;
    }
    EXPECT_EQ(evictions, stored_after_evictions) << "errno " << number;
    EXPECT_EQ(evictions > 0, number != EIO) << "errno " << number;
  }
}

TEST_F(DiskCacheTest, AnEntryThatIsReplacedCountsOnce) {
  auto cache = make();
  cache.open();
  cache.scan();
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(cache.store(key_number(1), entry(key_number(1)), true));
  EXPECT_EQ(cache.stats().bytes, entry(key_number(1)).size());
}

TEST_F(DiskCacheTest, AScanThatIsStoppedCountsNothing) {
  auto cache = make();
  cache.open();
  ASSERT_TRUE(cache.store(key_number(1), entry(key_number(1))));
  const uint64_t before = cache.stats().bytes;
  cache.stop_scan();
  cache.scan();
  EXPECT_EQ(cache.stats().bytes, before);
}

TEST_F(DiskCacheTest, SymbolicLinkIsNotFollowed) {
  auto cache = make();
  cache.open();
  ASSERT_TRUE(cache.store(key_number(1), entry(key_number(1))));
  fs::path file = entry_files(dir_ / "cache").at(0);
  fs::rename(file, dir_ / "elsewhere");
  fs::create_symlink(dir_ / "elsewhere", file);
  EXPECT_FALSE(cache.find(key_number(1)));
}

// What a full cache of an earlier daemon holds is known before anything is added to it.
TEST_F(DiskCacheTest, StoresWaitForTheCountAtTheStart) {
  const uint64_t each = entry(key_number(0)).size();
  {
    auto before = make(100 * each);
    before.open();
    for (uint64_t i = 0; i < 20; ++i) ASSERT_TRUE(before.store(key_number(i), entry(key_number(i))));
  }
  auto cache = make(20 * each);
  cache.open();
  cache.expect_scan();
  std::atomic<bool> stored{false};
  std::jthread storing([&] { stored = cache.store(key_number(99), entry(key_number(99))); });
  ASSERT_TRUE(cache.find(key_number(3))) << "lookups do not wait";
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_FALSE(stored);
  EXPECT_EQ(entry_files(dir_ / "cache").size(), 20u);
  cache.scan();
  storing.join();
  EXPECT_TRUE(stored);
  EXPECT_LE(entry_files(dir_ / "cache").size(), 19u) << "room was made";
  EXPECT_LE(cache.stats().bytes, 20 * each);
  // Nor is anybody kept waiting when the daemon ends first.
  auto ended = make(20 * each);
  ended.open();
  ended.expect_scan();
  ended.stop_scan();
  ended.scan();
  (void)ended.store(key_number(98), entry(key_number(98)));
}

// Clocks that were wrong, or are: a pass frees what it is to free and no more.
TEST_F(DiskCacheTest, TimesOfTheFutureAndThePastEvictNoMore) {
  const uint64_t each = entry(key_number(0)).size();
  for (int64_t years : {-10, 10}) {
    fs::remove_all(dir_ / "cache");
    auto cache = make(100 * each);
    cache.open();
    cache.scan();
    for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(cache.store(key_number(i), entry(key_number(i))));
    ASSERT_EQ(cache.stats().evictions, 0u);
    const timespec shifted{::time(nullptr) + years * 365 * 86'400, 0}, times[2] = {shifted, shifted};
    for (const auto& file : entry_files(dir_ / "cache")) ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
    for (uint64_t i = 100; i < 105; ++i) ASSERT_TRUE(cache.store(key_number(i), entry(key_number(i))));
    EXPECT_LE(cache.stats().evictions, 11u) << "a tenth, and room for one";
    EXPECT_GE(entry_files(dir_ / "cache").size(), 90u);
    EXPECT_EQ(cache.stats().corrupt, 0u);
  }
}

}  // namespace
}  // namespace kiln::server

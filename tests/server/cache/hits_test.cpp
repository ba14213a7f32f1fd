// Uses of entries that are hit, as the disk tier is told of them.
#include <atomic>
#include <filesystem>
#include <thread>

#include "cache/store.h"
#include "fault_fs.h"

namespace kiln::server {
namespace {

using service_test::entry_files;

// A disk that has 20 entries; without syncs, which take seconds on a slow one.
class HitTest : public DiskCacheTest {
 protected:
  class NotingFs : public PosixFs {
   public:
    std::atomic<size_t> touches = 0;
    std::atomic<bool> held = false;
    int touch(int fd) override {
      ++touches;
      while (held) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return PosixFs::touch(fd);
    }
    int sync_data(int) override { return 0; }
  };
  static constexpr uint64_t kEntries = 20;

  HitTest() {
    config_.cache_dir = dir_ / "cache";
    config_.cache_bytes = kEntries * entry(key_number(0)).size();
  }
  void put(Store& store, uint64_t number) {
    store.put(std::make_shared<const Blob>(Blob{key_number(number), entry(key_number(number)), nullptr}));
    ASSERT_TRUE(service_test::eventually([&] { return store.stats()["stored_total"] == number + 1; }));
  }
  void hit(Store& store, uint64_t number, bool a_minute_later = false) {
    if (a_minute_later) store.find_memory(key_number(number))->noted -= Store::kNotedFor;
    EXPECT_TRUE(store.find_memory(key_number(number)));
    poll();
  }
  void poll() {
    io_.restart();
    io_.poll();
  }

  asio::io_context io_;
  Config config_;
  NotingFs noting_;
};

// They come faster than a busy disk notes them, and each that waits has a file open.
TEST_F(HitTest, AnEntryIsNotedOnceHoweverOftenItIsHitMeanwhile) {
  auto cache = make();
  cache.open();
  ASSERT_TRUE(cache.store(key_number(1), entry(key_number(1))));
  if (!cache.find_cached(key_number(1))) GTEST_SKIP() << "this file system does not say what memory holds";
  Store store(io_, config_, log_, noting_, "b");
  int found = 0;
  const auto hit_on_disk = [&] {
    store.find_disk(key_number(1), [&](const SharedBlob& blob) { found += blob != nullptr; });
    poll();
  };
  const auto open_files = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
  };
  noting_.held = true;
  hit_on_disk();
  ASSERT_TRUE(service_test::eventually([&] { return noting_.touches == 1; }));
  const auto before = open_files();
  for (int i = 0; i < 200; ++i) hit_on_disk();
  EXPECT_EQ(found, 201);
  EXPECT_LE(open_files(), before + 2);
  noting_.held = false;
  ASSERT_TRUE(service_test::eventually([&] {
    hit_on_disk();
    return noting_.touches > 1;
  })) << "it is noted again afterwards";
  store.finish();
  poll();
}

// What memory serves is in use as well, and not the oldest on disk; noting that takes a moment, so that it is done now
// and then.
TEST_F(HitTest, WhatMemoryServesStaysOnDisk) {
  Store store(io_, config_, log_, noting_, "b");
  for (uint64_t i = 0; i < kEntries; ++i) {
    put(store, i);
    set_age(i);
  }
  for (int i = 0; i < 1000; ++i) hit(store, 0);
  hit(store, 0, true);
  EXPECT_TRUE(service_test::eventually([&] { return noting_.touches > 0; }, std::chrono::seconds(10)));
  for (int i = 0; i < 1000; ++i) hit(store, 0);
  put(store, kEntries);
  store.finish();
  EXPECT_EQ(noting_.touches, 1u) << "at most once a minute";
  auto disk = make();
  disk.open();
  EXPECT_TRUE(disk.find(key_number(0)));
  EXPECT_FALSE(disk.find(key_number(1))) << "the oldest";
  EXPECT_TRUE(disk.find(key_number(kEntries)));
}

// A disk that is busy, or has the entry no more, costs hits nothing: what is not noted now is with a later hit.
TEST_F(HitTest, FewHitsWaitUntilTheyAreNoted) {
  constexpr uint64_t kMany = 300;
  config_.cache_bytes = 1 << 30;
  Store store(io_, config_, log_, noting_, "b");
  for (uint64_t i = 0; i < kMany; ++i) put(store, i);
  for (const std::string& file : entry_files(dir_ / "cache")) {
    if (file.ends_with(to_hex(key_number(0)).substr(2))) std::filesystem::remove(file);
  }
  hit(store, 0, true);
  noting_.held = true;
  for (uint64_t i = 1; i < kMany; ++i) hit(store, i, true);
  noting_.held = false;
  ASSERT_TRUE(service_test::eventually([&] {
    const size_t before = noting_.touches;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    hit(store, 0);
    return before >= 255 && noting_.touches == before;
  }));
  EXPECT_LE(noting_.touches, 256u);
  ASSERT_TRUE(service_test::eventually([&] {
    for (uint64_t i = 1; i < kMany; ++i) hit(store, i);
    return noting_.touches == kMany - 1;
  })) << noting_.touches;
  store.finish();
  EXPECT_EQ(noting_.touches, kMany - 1) << "each once";
}

}  // namespace
}  // namespace kiln::server

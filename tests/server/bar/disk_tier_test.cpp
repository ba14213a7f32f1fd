// Statements 2, 3, 6 and 8: the disk tier by itself, where thousands of cases cost seconds.
#include <sys/stat.h>

#include <list>

#include "../fault_fs.h"
#include "bar.h"
#include "crash_fs.h"
#include "kiln/wire/entry.h"

namespace kiln::server {
namespace {

namespace fs = std::filesystem;
using service_test::count;
using service_test::figure;

class BarDisk : public DiskCacheTest {};

TEST_F(BarDisk, Statement02PowerLossServesNothingWrongAndKeepsWhatIsDurable) {
  const int seeds = count(300, 5000);
  uint64_t crashes = 0, found = 0, durable_found = 0, set_aside = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    std::mt19937_64 random(seed);
    CrashFs disk(seed);
    disk.lies = seed % 10 == 9;
    std::vector<bool> durable(8, false);
    for (int boot = 0; boot < 4; ++boot) {
      DiskCache cache(disk, log_, dir_ / "root", "b", 1 << 20);
      cache.open();
      cache.scan();
      for (uint64_t i = 0; i < durable.size(); ++i) {
        const RequestKey key = key_number(i);
        auto entry_found = cache.find(key);
        if (entry_found) {
          ASSERT_EQ(entry_found->bytes, entry(key, 50 + 40 * i)) << "seed " << seed;
        }
        if (durable[i]) {
          ASSERT_TRUE(entry_found) << "seed " << seed << ": a durable entry is lost";
        }
        found += entry_found.has_value();
        durable_found += durable[i];
      }
      set_aside += cache.stats().corrupt;
      for (int i = 0; i < 12; ++i) {
        const uint64_t number = random() % durable.size();
        const bool lasting = !disk.lies && random() % 4 == 0;
        ASSERT_TRUE(cache.store(key_number(number), entry(key_number(number), 50 + 40 * number), lasting));
        if (lasting) durable[number] = true;
      }
      disk.lose_power();
      ++crashes;
    }
  }
  figure(2,
         "%d seeds, %llu power losses: %llu entries found and right, %llu durable ones all there, %llu torn by disks "
         "that lie set aside",
         seeds, crashes, found, durable_found, set_aside);
}

// Damage is stored under the entry's own name, as an accident would leave it.
TEST_F(BarDisk, Statement03NoDamagedEntryIsServed) {
  auto cache = make(64 << 20);
  cache.open();
  std::mt19937_64 random(3);
  uint64_t damaged = 0;
  auto refused = [&](uint64_t number, const std::vector<std::byte>& bytes) {
    const RequestKey key = key_number(number);
    ASSERT_TRUE(cache.store(key, bytes));
    ASSERT_FALSE(cache.find(key));
    ASSERT_EQ(cache.stats().corrupt, ++damaged);
    ASSERT_EQ(cache.stats().quarantined, damaged);
  };
  const int flips = count(300, 10'000);
  for (int i = 0; i < flips; ++i) {
    auto bytes = entry(key_number(i % 50), 100 + i % 400);
    const uint64_t bit = random() % (bytes.size() * 8);
    bytes[bit / 8] ^= static_cast<std::byte>(1u << (bit % 8));
    refused(i % 50, bytes);
  }
  const int truncated = count(2, 20);
  for (int number = 0; number < truncated; ++number) {
    const auto bytes = entry(key_number(number), 20 + 7 * number);
    for (size_t size = 0; size < bytes.size(); ++size)
      refused(number, {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)});
    auto zeroed = bytes, doubled = bytes;
    std::fill(zeroed.begin() + static_cast<ptrdiff_t>(zeroed.size() / 2), zeroed.end(), std::byte{0});
    refused(number, zeroed);
    refused(number, std::vector<std::byte>(bytes.size()));
    doubled.insert(doubled.end(), bytes.end() - 16, bytes.end());
    refused(number, doubled);
  }
  for (int number = 0; number < 50; ++number) {
    ASSERT_TRUE(cache.store(key_number(number), entry(key_number(number))));
    ASSERT_TRUE(cache.find(key_number(number)));
  }
  const auto kept = std::distance(fs::directory_iterator(dir_ / "cache/quarantine"), {});
  EXPECT_LE(kept, 64);
  figure(
      3,
      "%d bit flips and %llu truncations, zero fills and tails of %d entries: 0 served, %llu counted, %d in quarantine",
      flips, damaged - flips, truncated, damaged, static_cast<int>(kept));
}

// What an earlier daemon has left: a torn file, and as much in quarantine and of crashes as is kept.
void leave_behind(const std::string& cache) {
  for (const char* ring : {"quarantine", "crashes"}) {
    fs::create_directories(fs::path(cache) / ring);
    for (int i = 0; i < 64; ++i) std::ofstream(fs::path(cache) / ring / std::to_string(i)) << "x";
  }
  fs::create_directories(fs::path(cache) / "tmp");
  std::ofstream(fs::path(cache) / "tmp/torn") << "x";
  fs::permissions(cache, fs::perms::owner_all);
}

TEST_F(BarDisk, Statement06OneFailingCallAtATimeNeverHarms) {
  uint64_t injected = 0;
  const size_t descriptors = service_test::open_descriptors(::getpid());
  const std::vector<int> numbers = {EIO, EROFS, EMFILE, EACCES, ENOSPC};
  for (int which = 0; which < count(1, 5); ++which) {
    const int number = numbers[which];
    bool reached = true;
    for (int at = 0; reached; ++at) {
      fs::remove_all(dir_ / "cache");
      leave_behind(dir_ / "cache");
      fs_.number = number;
      fs_.calls = 0;
      fs_.fail_at = at;
      {
        // Small, so that eviction has its calls too; one entry is damaged, so that quarantine has, which is full.
        auto cache = make(8 * entry(key_number(0)).size());
        cache.open();
        cache.scan();
        for (uint64_t i = 0; i < 10; ++i) {
          auto bytes = entry(key_number(i));
          if (i == 3) bytes.back() ^= std::byte{1};
          cache.store(key_number(i), bytes, i % 2 == 0);
          auto found = cache.find(key_number(i));
          ASSERT_TRUE(!found || found->bytes == entry(key_number(i))) << "errno " << number << " at call " << at;
        }
        cache.keep_crash(key_number(5), entry(key_number(5)));
        cache.recount();
        reached = fs_.calls > at;
        injected += reached;
        fs_.fail_at = -1;
        ASSERT_TRUE(cache.store(key_number(99), entry(key_number(99)))) << "errno " << number << " at call " << at;
        ASSERT_TRUE(cache.find(key_number(99)));
        ASSERT_FALSE(cache.stats().degraded);
      }
      ASSERT_EQ(service_test::open_descriptors(::getpid()), descriptors) << "errno " << number << " at call " << at;
    }
  }
  EXPECT_GT(injected, 100u);
  figure(6, "%llu faults, one at a time, at every call: 0 crashes, 0 wrong answers, 0 descriptors left", injected);
}

// Gives every use an age of its own, so that "oldest" has one answer.
class CountingFs : public FaultFs {
 public:
  int sync_data(int fd) override { return touch(fd); }
  int touch(int fd) override {
    ++clock_;
    timespec times[2] = {{clock_, 0}, {clock_, 0}};
    return ::futimens(fd, times);
  }

 private:
  time_t clock_ = 1'000'000;
};

TEST_F(BarDisk, Statement08OldestUseGoesFirstAsInAModel) {
  CountingFs disk;
  const uint64_t size = entry(key_number(0)).size(), limit = 1000 * size;
  DiskCache cache(disk, log_, dir_ / "cache", "b", limit);
  cache.open();
  std::list<uint64_t> model;  // newest use first
  std::mt19937_64 random(8);
  const int operations = count(1800, 20'000);
  uint64_t evictions = 0;
  for (int i = 0; i < operations; ++i) {
    const uint64_t number = random() % 3000;
    const auto known = std::find(model.begin(), model.end(), number);
    const bool present = cache.find(key_number(number)).has_value();
    ASSERT_EQ(present, known != model.end()) << "operation " << i << ", entry " << number;
    if (present) {
      model.splice(model.begin(), model, known);
      continue;
    }
    if ((model.size() + 1) * size > limit) {
      while (model.size() * size > limit - limit / 10 - size) {
        model.pop_back();
        ++evictions;
      }
    }
    auto held = cache.find(key_number(model.empty() ? 0 : model.front()));
    ASSERT_TRUE(cache.store(key_number(number), entry(key_number(number))));
    ASSERT_LE(cache.stats().bytes, limit);
    ASSERT_EQ(cache.stats().evictions, evictions);
    model.push_front(number);
  }
  EXPECT_GT(evictions, 50u);
  figure(8,
         "%d uses of 1000 entries at most: %llu evictions, all as in the model; never above the limit, down to 90 %%",
         operations, evictions);
}

TEST_F(BarDisk, Statement08AnEntryBeingReadOutlivesItsEviction) {
  auto cache = make(10 * entry(key_number(0)).size());
  cache.open();
  ASSERT_TRUE(cache.store(key_number(0), entry(key_number(0))));
  auto held = cache.find(key_number(0));
  ASSERT_TRUE(held);
  for (uint64_t i = 1; i < 30; ++i) ASSERT_TRUE(cache.store(key_number(i), entry(key_number(i))));
  ASSERT_FALSE(cache.find(key_number(0)));
  std::vector<std::byte> bytes(held->bytes.size());
  ASSERT_EQ(::pread(held->fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(bytes, entry(key_number(0)));
}

}  // namespace
}  // namespace kiln::server

// Statements 1, 4, 5 and 7: the store through the daemon, killed, swapped, full and shared.
#include <signal.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <mutex>
#include <set>
#include <thread>

#include "bar.h"
#include "kiln/wire/entry.h"

namespace kiln::service_test {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kSize = 20'000;

// Sixteen clients ask for old and new entries, some of them durably, until the daemon dies under them.
struct Load {
  std::mutex mutex;
  std::set<int> durable;
  std::atomic<int> wrong{0}, right{0}, promised{0};

  void client(const ConnectOptions& options, int seed) {
    auto daemon = Connection::open(options);
    std::mt19937_64 random(seed);
    while (daemon) {
      const int number = static_cast<int>(random() % 400);
      const std::string salt = std::to_string(number);
      const bool durable_wanted = random() % 4 == 0;
      auto artifact = (*daemon)->fetch(order("bytes", kSize, salt), {.durable = durable_wanted});
      if (!artifact) return;
      ++(artifact->code == fake_bytes(salt, kSize) ? right : wrong);
      if (!durable_wanted || !artifact->metadata.durable.value_or(false)) continue;
      std::lock_guard lock(mutex);
      durable.insert(number);
      ++promised;
    }
  }
};

TEST_F(Bar, Statement01KilledDaemonsServeNothingWrongAndLoseNothingDurable) {
  const int kills = count(25, 1000);
  Load load;
  std::mt19937_64 random(1);
  std::vector<double> restarts;
  for (int round = 0; round < kills; ++round) {
    Stopwatch restart;
    start();
    auto daemon = connect();
    ASSERT_TRUE(daemon);
    for (int sample = 0; sample < 10 && !load.durable.empty(); ++sample) {
      const int number = *std::next(load.durable.begin(), static_cast<ptrdiff_t>(random() % load.durable.size()));
      auto kept = daemon->get(daemon->key_of(order("bytes", kSize, std::to_string(number))));
      ASSERT_EQ(judge(kept, std::to_string(number), kSize), Answer::kRight) << "durable entry " << number << " is lost";
      if (sample == 0) restarts.push_back(restart.ms());
    }
    ConnectOptions impatient = options();
    impatient.start_timeout = 1s;  // for so long one waits for another daemon that was idle when this one was killed
    std::vector<std::jthread> clients;
    const int promised = load.promised;
    for (int i = 0; i < 16; ++i) clients.emplace_back([&, i] { load.client(impatient, round * 16 + i); });
    // Every second daemon dies when it has promised to keep something, however slow the machine is; the others whenever
    // it may be.
    if (round % 2 == 0) {
      EXPECT_TRUE(eventually([&] { return load.promised > promised; }));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 40'000));
    kill_daemon();
  }
  EXPECT_EQ(load.wrong, 0);
  start();
  auto daemon = connect();
  for (int number : load.durable) {
    ASSERT_EQ(judge(daemon->get(daemon->key_of(order("bytes", kSize, std::to_string(number)))), std::to_string(number),
                    kSize),
              Answer::kRight);
  }
  EXPECT_EQ(stats()["cache_corrupt_total"], 0);
  EXPECT_TRUE(fs::is_empty(cache() + "/tmp"));
  figure(1,
         "%d kills under 16 clients: %d right answers, 0 wrong, %zu durable entries all kept, no torn file left; "
         "restart to hit p50 %.1f ms, max %.1f ms",
         kills, load.right.load(), load.durable.size(), percentile(restarts, 0.5), percentile(restarts, 1));
}

// Any number of entries of another builder, which the daemon must count and evict but never reads.
void fill_cache(const std::string& cache, int entries) {
  for (int i = 0; i < entries; ++i) {
    char name[80];
    std::snprintf(name, sizeof name, "%02x", i % 256);
    const fs::path dir = cache + "/v1/0123456789abcdef/" + name;
    if (i < 256) fs::create_directories(dir);
    std::snprintf(name, sizeof name, "%062x", i);
    std::ofstream(dir / name) << "entry";
  }
}

TEST_F(Bar, Statement01And34RestartWithAFullCacheServesAtOnce) {
  start();
  ASSERT_TRUE(connect()->fetch(order("bytes", kSize, "kept"), {.durable = true}));
  kill_daemon();
  const int entries = count(3000, 1'000'000);
  fill_cache(cache(), entries);
  Stopwatch restart;
  start();
  auto daemon = connect();
  ASSERT_EQ(judge(daemon->get(daemon->key_of(order("bytes", kSize, "kept"))), "kept", kSize), Answer::kRight);
  const double hit_ms = restart.ms();
  std::vector<double> lookups;
  ASSERT_TRUE(eventually([&] {
    Stopwatch took;
    auto missing = daemon->get(daemon->key_of(order("bytes", kSize, std::to_string(lookups.size()))));
    EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
    lookups.push_back(took.ms());
    return stats()["disk_bytes"].get<int64_t>() >= int64_t{5} * entries;
  }));
  const double scan_ms = restart.ms();
  judge_time("ms from restart to first hit", hit_ms, 500);
  judge_time("ms for a lookup during the scan (p99)", percentile(lookups, 0.99), 2);
  figure(1,
         "restart to first hit with %d entries on disk: %.1f ms; the scan behind it: %.0f ms, lookups meanwhile p50 "
         "%.2f ms, max %.1f ms",
         entries, hit_ms, scan_ms, percentile(lookups, 0.5), percentile(lookups, 1));
}

TEST_F(Bar, Statement04AnEntryUnderAnotherNameIsRefused) {
  const int pairs = count(5, 100);
  start();
  std::vector<std::string> names;
  for (int i = 0; i < pairs; ++i) {
    auto daemon = connect();
    ASSERT_TRUE(daemon->fetch(order("bytes", 500, "mine" + std::to_string(i)), {.durable = true}));
    names.push_back(to_hex(daemon->key_of(order("bytes", 500, "other" + std::to_string(i)))));
  }
  kill_daemon();
  auto files = entry_files(cache());
  ASSERT_EQ(files.size(), names.size());
  for (size_t i = 0; i < files.size(); ++i) {
    const fs::path swapped =
        fs::path(files[i]).parent_path().parent_path() / names[i].substr(0, 2) / names[i].substr(2);
    fs::create_directories(swapped.parent_path());
    fs::copy_file(files[i], swapped);
  }
  start();
  for (int i = 0; i < pairs; ++i) {
    const std::string salt = "other" + std::to_string(i);
    EXPECT_EQ(judge(connect()->fetch(order("bytes", 500, salt)), salt, 500), Answer::kRight);
  }
  EXPECT_EQ(stats()["cache_corrupt_total"], pairs);
  figure(4, "%d entries under another key's name: all refused and compiled again", pairs);
}

TEST_F(Bar, Statement05AFullDiskCostsNoAnswer) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount";
  fs::create_directory(cache());
  if (::mount("none", cache().c_str(), "tmpfs", 0, "size=8m,mode=0700") != 0)
    GTEST_SKIP() << "mounting is not permitted";
  start({"--memory-size", "1000"});
  auto daemon = connect();
  const int compiles = count(300, 10'000);
  int right = 0;
  for (int i = 0; i < compiles; ++i) {
    const std::string salt = std::to_string(i);
    right += judge(daemon->fetch(order("bytes", 50'000, salt)), salt, 50'000) == Answer::kRight;
  }
  EXPECT_EQ(right, compiles);
  // Somebody else has everything, and nothing of ours is left to free.
  fs::remove_all(cache() + "/v1");
  fs::remove(cache() + "/reserve");
  int request = 0;
  ASSERT_TRUE(eventually([&] {
    std::ofstream hog(cache() + "/hog", std::ios::binary | std::ios::app);
    while (hog.write(std::string(4096, 'h').data(), 4096).flush()) {
    }
    EXPECT_TRUE(daemon->fetch(order("bytes", 50'000, "full" + std::to_string(request++))));
    return stats()["store_degraded"] == 1;
  }));
  fs::remove(cache() + "/hog");
  Stopwatch recovery;  // without anything to store
  ASSERT_TRUE(eventually([&] { return stats()["store_degraded"] == 0; }));
  if (times_are_judged()) {
    EXPECT_LT(recovery.ms(), 5000);
  }
  figure(5, "%d compiles on 8 MiB: %d right, %d evictions; degraded when full, recovered %.0f ms after space came back",
         compiles, right, stats()["evictions_total"].get<int>(), recovery.ms());
  daemon_.kill_now();
  ::umount2(cache().c_str(), MNT_DETACH);
}

// A disk with space and no inodes says the same; what frees some is an entry, for a directory of entries stays.
TEST_F(Bar, Statement05ADiskWithoutInodesCostsNoAnswer) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount";
  fs::create_directory(cache());
  // Entries lie in 256 directories, and there is room for a hundred of them.
  if (::mount("none", cache().c_str(), "tmpfs", 0, "size=64m,nr_inodes=380,mode=0700") != 0)
    GTEST_SKIP() << "mounting is not permitted";
  start({"--memory-size", "1000"});
  auto daemon = connect();
  const int compiles = count(700, 10'000);
  int right = 0;
  for (int i = 0; i < compiles; ++i) {
    const std::string salt = std::to_string(i);
    right += judge(daemon->fetch(order("bytes", 100, salt)), salt, 100) == Answer::kRight;
  }
  EXPECT_EQ(right, compiles);
  EXPECT_TRUE(eventually([&] { return stats()["evictions_total"].get<int>() > 0; }));
  const auto hit = daemon->compile(order("bytes", 100, "last"), {.durable = true});
  ASSERT_TRUE(hit) << hit.error().message;
  EXPECT_TRUE(eventually([&] { return stats()["store_degraded"] == 0; })) << "no entry can be stored any more";
  figure(5, "%d compiles on 380 inodes: %d right, %d evictions", compiles, right,
         stats()["evictions_total"].get<int>());
  daemon_.kill_now();
  ::umount2(cache().c_str(), MNT_DETACH);
}

// One process of many that read and write through one of two daemons. The exit code says what went wrong.
[[noreturn]] void mixed_client(const ConnectOptions& options, int seed, std::chrono::milliseconds time) {
  std::mt19937_64 random(seed);
  const auto end = std::chrono::steady_clock::now() + time;
  auto daemon = Connection::open(options);
  if (!daemon) ::_exit(2);
  while (std::chrono::steady_clock::now() < end) {
    const std::string salt = std::to_string(random() % 500);
    auto artifact = (*daemon)->fetch(order("bytes", kSize, salt));
    if (!artifact) ::_exit(3);
    if (artifact->code != fake_bytes(salt, kSize)) ::_exit(4);
  }
  ::_exit(0);
}

TEST_F(Bar, Statement07TwoDaemonsOnOneDirectoryTearNothing) {
  // Small memory and a small disk limit: reads, evictions and writes meet all the time.
  start({"--memory-size", "200KiB", "--cache-size", "4MiB"});
  DaemonProcess second;
  auto arguments = daemon_arguments();
  arguments.insert(arguments.end(), {"--memory-size", "200KiB"});
  ASSERT_EQ(second.start(temp_ / "run2", arguments), "ready");
  ConnectOptions there = options();
  there.runtime_dir = temp_ / "run2";
  const int processes = count(8, 32);
  const auto time = duration(1000ms, 60'000ms);
  std::vector<pid_t> children;
  for (int i = 0; i < processes; ++i) {
    const pid_t pid = ::fork();
    if (pid == 0) mixed_client(i % 2 ? there : options(), i, time);
    children.push_back(pid);
  }
  for (pid_t pid : children) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  }
  auto reader = Connection::open(there);
  ASSERT_TRUE(reader);
  const auto figures = figures_of(**reader);
  EXPECT_EQ(stats()["cache_corrupt_total"], 0);
  EXPECT_EQ(figures.at("cache_corrupt_total"), 0);
  EXPECT_EQ(figures.at("store_read_only"), 1);
  figure(7,
         "%d processes for %.0f s through a writing and a reading daemon: 0 torn reads (%d and %d disk hits, %d "
         "evictions)",
         processes, static_cast<double>(time.count()) / 1000, stats()["hits_total"]["disk"].get<int>(),
         figures.at("hits_total")["disk"].get<int>(), stats()["evictions_total"].get<int>());
}

}  // namespace
}  // namespace kiln::service_test

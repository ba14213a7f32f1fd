// Statements 9, 10 and 11: what is in a key, that the same key gives the same bytes, and clocks that jump.
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "bar.h"
#include "golden_kernel.h"
#include "kiln/wire/entry.h"

namespace kiln::service_test {
namespace {

namespace fs = std::filesystem;

// tests/dsl/binary/binary_test.cpp (RequestKey.*) changes each field of the kernel; here is what the service adds to
// it.
TEST_F(Bar, Statement09KeysHaveTheBuilderAndEveryByteAndNothingElse) {
  const RequestBytes request = order("bytes", 64, "key", "names and lines");
  const std::string builder = "builder 1 LLVM 19.1.7 build-id 00";
  const RequestKey key = request_key(builder, request.canonical);
  int changes = 0;
  for (size_t i = 0; i < builder.size(); ++i, ++changes) {
    std::string other = builder;
    other[i] = static_cast<char>(other[i] ^ 1);
    EXPECT_NE(request_key(other, request.canonical), key);
  }
  for (size_t i = 0; i < request.canonical.size(); ++i, ++changes) {
    auto other = request.canonical;
    other[i] ^= std::byte{1};
    EXPECT_NE(request_key(builder, other), key);
  }
  // A byte that moves from one part to the other is another key.
  auto shorter = request.canonical;
  const auto first = static_cast<char>(shorter.front());
  shorter.erase(shorter.begin());
  EXPECT_NE(request_key(builder + first, shorter), key);
  start();
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(request));
  auto minimal = order("bytes", 64, "key", "other names and lines");
  for (const client::CompileOptions& other :
       {client::CompileOptions{.deadline_ms = 77}, client::CompileOptions{.priority = client::Priority::kBackground},
        client::CompileOptions{.trace_id = "other"}, client::CompileOptions{.durable = true}}) {
    EXPECT_EQ(daemon->compile(minimal, other)->metadata.served_from, "memory");
  }
  ConnectOptions named = options();
  named.client_name = "another";
  EXPECT_EQ((*Connection::open(named))->compile(minimal)->metadata.served_from, "memory");
  EXPECT_EQ(stats()["compiles_total"], 1);
  figure(9,
         "%d changes of builder and request: as many other keys; deadline, priority, trace, client, names, durability: "
         "the same key",
         changes);
}

// A key that changes without a reason empties every cache there is.
TEST_F(Bar, Statement09GoldenKeys) {
  std::ifstream golden(std::string(KILN_SOURCE_DIR) + "/tests/golden/keys");
  int kernels = 0;
  for (std::string name, wanted; golden >> name >> wanted; ++kernels) {
    auto request = golden_request(name, "cpu:x86-64-v3");
    ASSERT_TRUE(request) << request.error().message;
    EXPECT_EQ(to_hex(request_key("golden builder", request->canonical)), wanted) << name;
  }
  EXPECT_GE(kernels, 3);
}

TEST_F(Bar, Statement10TheSameRequestGivesTheSameBytes) {
#ifndef KILN_TEST_REAL_WORKER
  GTEST_SKIP() << "built without a compiler";
#else
  constexpr int kEach = 5;
  const int compiles = count(2 * kEach, 100);
  // Where numbers have commas; made here, because few machines have it.
  const std::string german = "localedef -i de_DE -f UTF-8 " + (temp_ / "de_DE.UTF-8") + " 2>&1";
  ASSERT_EQ(std::system(german.c_str()), 0) << german;
  ::setenv("LOCPATH", temp_.path().c_str(), 1);
  std::optional<Artifact> first;
  const std::string here = std::filesystem::current_path();
  for (int done = 0; done < compiles;) {
    // Another environment and directory each time; no tier that could answer instead, and a worker for each compile.
    const int round = done / kEach;
    ::setenv("LC_ALL", round % 2 ? "de_DE.UTF-8" : "C", 1);
    ::setenv("TZ", round % 3 ? "Pacific/Kiritimati" : "America/St_Johns", 1);
    std::filesystem::current_path(round % 2 ? "/" : here);
    start({"--worker", KILN_TEST_REAL_WORKER, "--cache-dir", "", "--memory-size", "0", "--worker-jobs", "1"});
    auto request = golden_request("literals", connect()->server().native_target);
    ASSERT_TRUE(request) << request.error().message;
    for (int i = 0; i < kEach; ++i, ++done) {
      auto artifact = connect()->compile(*request);
      ASSERT_TRUE(artifact) << artifact.error().message;
      ASSERT_EQ(artifact->metadata.served_from, "compile");
      if (!first) first = *artifact;
      ASSERT_EQ(artifact->code, first->code);
      ASSERT_EQ(artifact->metadata.entry, first->metadata.entry);
    }
    daemon_.kill_now();
  }
  ::unsetenv("LC_ALL");
  ::unsetenv("LOCPATH");
  ::unsetenv("TZ");
  std::filesystem::current_path(here);
  figure(10,
         "%d compiles in as many workers, by daemons with two locales, time zones and directories: %zu bytes, the same "
         "each time",
         compiles, first->code.size());
#endif
}

TEST_F(Bar, Statement10TheShareOfHitsThatIsVerifiedIsTheOneAskedFor) {
  start({"--verify", "25"});
  auto daemon = connect();
  constexpr int kRounds = 50, kHits = 8;  // fewer at a time than may wait
  for (int round = 0; round < kRounds; ++round) {
    for (int i = 0; i < kHits; ++i) ASSERT_TRUE(daemon->fetch(order("bytes")));
    ASSERT_TRUE(eventually([&] { return stats()["workers_busy"] == 0; }));
  }
  const int verified = stats()["verified_total"];
  EXPECT_GT(verified, kRounds * kHits / 8);
  EXPECT_LT(verified, kRounds * kHits / 2);
  figure(10, "--verify 25: %d of %d hits", verified, kRounds * kHits);
}

TEST_F(Bar, Statement10HitsAreVerifiedBehindTheirAnswers) {
  start({"--verify", "100", "--worker-jobs", "1"});
  auto daemon = connect();
  for (const char* what : {"bytes", "varies"}) ASSERT_TRUE(daemon->fetch(order(what)));
  const int hits = count(20, 1000);
  for (int i = 0; i < hits; ++i) ASSERT_TRUE(daemon->fetch(order("bytes")));
  ASSERT_TRUE(eventually([&] { return stats()["verified_total"] > 0 && stats()["workers_busy"] == 0; }));
  EXPECT_EQ(stats()["verify_mismatches_total"], 0);
  ASSERT_TRUE(daemon->get(daemon->key_of(order("varies"))));
  EXPECT_TRUE(eventually([&] { return stats()["verify_mismatches_total"] == 1; }));
  // By compiles that nobody asked for, and which are no hits, misses or compiles of anybody's.
  EXPECT_EQ(stats()["compiles_total"], 2);
  figure(10, "--verify 100: %d of %d hits compiled once more, the one that varies found",
         stats()["verified_total"].get<int>(), hits + 1);
}

TEST_F(Bar, Statement11ClocksThatJumpLoseNothing) {
  const int entries = 20;
  constexpr int64_t kYear = 365 * 86'400;
  auto fetch_all = [&](const char* tier) {
    auto daemon = connect();
    for (int i = 0; i < entries; ++i) {
      auto artifact = daemon->fetch(order("bytes", 1000, std::to_string(i)));
      ASSERT_TRUE(artifact) << artifact.error().message;
      EXPECT_EQ(artifact->metadata.served_from, tier);
    }
  };
  auto created_s = [&](const RequestKey& key) -> int64_t {
    for (const auto& file : entry_files(cache())) {
      std::ifstream in(file, std::ios::binary);
      const std::string bytes((std::istreambuf_iterator<char>(in)), {});
      auto entry = wire::decode_entry(std::as_bytes(std::span(bytes)));
      if (entry && std::ranges::equal(entry->key, key)) return static_cast<int64_t>(entry->created_ms / 1000);
    }
    ADD_FAILURE() << "no entry";
    return 0;
  };
  start();
  fetch_all("compile");
  ::setenv("LD_PRELOAD", KILN_TEST_SHIFTED_CLOCK, 1);
  allow_preloading();
  ::setenv("KILN_TEST_CLOCK_FILE", (temp_ / "shift").c_str(), 1);
  auto set_clock = [&](int64_t shift) { std::ofstream(temp_ / "shift") << shift; };
  for (int64_t shift : {kYear, -kYear, int64_t{0}, 10 * kYear}) {
    daemon_.signal(SIGTERM);
    ASSERT_EQ(daemon_.wait(), 0);
    // The files' times jump too, each another way than the clock.
    timespec times[2] = {{::time(nullptr) - shift, 0}, {::time(nullptr) - shift, 0}};
    for (const auto& file : entry_files(cache())) ASSERT_EQ(::utimensat(AT_FDCWD, file.c_str(), times, 0), 0);
    set_clock(shift);
    start({"--cache-size", "1MiB"});
    fetch_all("disk");
    auto figures = stats();
    EXPECT_EQ(figures["cache_corrupt_total"], 0);
    EXPECT_EQ(figures["evictions_total"], 0);
    EXPECT_LT(figures["uptime_ms"], 600'000) << "counts a jump";
    // Deadlines are of the other clock.
    EXPECT_EQ(connect()->compile(order("hang"), {.deadline_ms = 50}).error().code, ErrorCode::kDeadlineExceeded);
    // Under the daemon, back and forth, while a compile runs and its deadline is waited for.
    std::atomic<bool> late{false};
    std::jthread waiting([&] {
      late = connect()->compile(order("hang", 1), {.deadline_ms = 300}).error().code == ErrorCode::kDeadlineExceeded;
    });
    for (int64_t jump : {shift - kYear, shift + kYear, shift - 10, shift}) {
      set_clock(jump);
      fetch_all("memory");
      ASSERT_TRUE(connect()->fetch(order("bytes", 1000, std::to_string(shift) + "/" + std::to_string(jump))));
    }
    waiting.join();
    EXPECT_TRUE(late);
    // The daemon did see them: what it compiled under each says so.
    for (int64_t jump : {shift - kYear, shift + kYear, shift - 10, shift}) {
      const auto request = order("bytes", 1000, std::to_string(shift) + "/" + std::to_string(jump));
      ASSERT_TRUE(connect()->compile(request, {.durable = true}));
      const int64_t off = created_s(connect()->key_of(request)) - ::time(nullptr) - jump;
      EXPECT_LT(std::abs(off), 3600) << shift << " " << jump;
    }
    figures = stats();
    EXPECT_EQ(figures["cache_corrupt_total"], 0);
    EXPECT_EQ(figures["evictions_total"], 0);
    EXPECT_LT(figures["uptime_ms"], 600'000) << "counts a jump";
  }
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("KILN_TEST_CLOCK_FILE");
  figure(11,
         "clocks a year and ten years off, both ways, and 16 jumps under running daemons: %d of %d entries hit, 0 "
         "corrupt, 0 evicted",
         20 * entries, 20 * entries);
}

}  // namespace
}  // namespace kiln::service_test

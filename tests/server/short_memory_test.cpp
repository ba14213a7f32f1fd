// A daemon whose address space runs out while it serves.
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <fstream>
#include <ostream>
#include <thread>

#include "service_fixture.h"

namespace kiln::service_test {
namespace {

struct Answers {
  std::atomic<int> served{0}, refused{0};
};

// How much is left to the daemon, and whether it knows of a limit from its start.
struct Space {
  std::string name;
  uint64_t left = 0;
  bool is_limited_before = true;
};
void PrintTo(const Space& space, std::ostream* out) { *out << space.name; }

class ShortMemoryTest : public ServiceTest, public ::testing::WithParamInterface<Space> {
 protected:
  void SetUp() override {
    if (kSanitized) GTEST_SKIP() << "a sanitizer needs its address space";
  }
  // What this process has to the daemon's start is inherited.
  void start_with_limit() {
    rlimit before{};
    ::getrlimit(RLIMIT_AS, &before);
    const rlimit large{rlim_t{8} << 30, before.rlim_max};
    if (GetParam().is_limited_before) ::setrlimit(RLIMIT_AS, &large);
    start();
    ::setrlimit(RLIMIT_AS, &before);
  }
  uint64_t address_space() const {
    uint64_t pages = 0;
    std::ifstream("/proc/" + std::to_string(daemon_.pid()) + "/statm") >> pages;
    return pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  }
  // Of the daemon alone: its workers have the zygote's limit.
  void limit_address_space(rlim_t bytes) const {
    rlimit limit{};
    ASSERT_EQ(::prlimit(daemon_.pid(), RLIMIT_AS, nullptr, &limit), 0);
    limit.rlim_cur = std::min(bytes, limit.rlim_max);
    ASSERT_EQ(::prlimit(daemon_.pid(), RLIMIT_AS, &limit, nullptr), 0);
  }
  // Compiles of small artifacts; between them large ones, figures, traces and new connections. Ends with the first that
  // does not end as it should.
  void ask(const std::string& client, uint64_t requests, Answers& answers) const {
    std::unique_ptr<Connection> daemon;
    for (uint64_t i = 0; i < requests; ++i) {
      if (i % 100 == 0) {
        auto opened = Connection::open(options());
        ASSERT_TRUE(opened) << opened.error().message;
        daemon = std::move(*opened);
      }
      const uint64_t size = i % 100 == 99 ? 300'000 : 64 + 1500 * (i % 5);
      const auto compiled = daemon->compile(order("bytes", size, client + std::to_string(i)), {.deadline_ms = 30'000});
      ASSERT_NO_FATAL_FAILURE(count(compiled, answers));
      if (i % 50 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(count(daemon->stats(i % 100 == 0 ? "json" : "trace"), answers));
    }
  }
  template <class T>
  static void count(const Result<T>& answer, Answers& answers) {
    ++(answer ? answers.served : answers.refused);
    if (answer) return;
    ASSERT_EQ(to_string(answer.error().code), "RESOURCE_EXHAUSTED") << answer.error().message;
    ASSERT_TRUE(answer.error().retryable) << answer.error().message;
  }
};

// So much is left to it, and it is asked for more than that has room for.
TEST_P(ShortMemoryTest, AddressSpaceThatRunsOutIsAnAnswer) {
  start_with_limit();
  ASSERT_TRUE(connect()->compile(order("bytes", 64, "before")));
  limit_address_space(address_space() + GetParam().left);
  Answers answers;
  std::vector<std::jthread> clients;
  for (const char* name : {"a", "b"}) clients.emplace_back([&, name] { ask(name, 750, answers); });
  clients.clear();
  ASSERT_TRUE(alive(daemon_.pid()));
  EXPECT_TRUE(answers.served > 0 || GetParam().left == 0);
  limit_address_space(RLIM_INFINITY);
  ASSERT_TRUE(eventually([&] { return Connection::open(options()).ok() && connect()->compile(order("bytes")).ok(); }));
  Answers after;
  ask("after", 200, after);
  EXPECT_EQ(after.refused, 0);
  const auto figures = stats();
  EXPECT_GT(figures["memory_shortages_total"], 0) << "there was no shortage to be survived";
  std::printf("[ FIGURE ] %d served, %d refused, %s shortages, %s bytes of the reserve used at the end\n",
              answers.served.load(), answers.refused.load(), figures["memory_shortages_total"].dump().c_str(),
              figures["reserve_used_bytes"].dump().c_str());
  EXPECT_EQ(figures["reserve_refused_total"], 0);
  EXPECT_TRUE(connect()->shutdown());
  EXPECT_EQ(daemon_.wait(), 0);
  EXPECT_FALSE(std::filesystem::exists(runtime() + "/kilnd.crash"));
}
// More than the reserve has is wanted: by frames that are begun and not ended, whose connections end for it.
TEST_P(ShortMemoryTest, WhatUsesUpTheReserveEndsItself) {
  constexpr uint32_t kLong = 60'000;
  start_with_limit();
  std::vector<std::unique_ptr<RawPeer>> peers;
  for (int i = 0; i < 300; ++i) {
    peers.push_back(std::make_unique<RawPeer>(runtime()));
    ASSERT_TRUE(peers.back()->read());
    peers.back()->hello();
  }
  auto daemon = connect();
  ASSERT_TRUE(daemon->compile(order("bytes", 64, "before")));
  limit_address_space(address_space() + GetParam().left);
  const auto header = wire::encode_header({.type = wire::Type::kCompile, .json_size = kLong, .request_id = 1});
  std::string begun(reinterpret_cast<const char*>(header.data()), header.size());
  begun.resize(kLong, '[');
  Answers answers;
  for (size_t i = 0; i < peers.size(); ++i) {
    peers[i]->send_bytes(begun);
    if (i % 10 != 0) continue;
    ASSERT_NO_FATAL_FAILURE(count(daemon->compile(order("bytes", 64, std::to_string(i))), answers));
  }
  ASSERT_NO_FATAL_FAILURE(count(daemon->stats("trace"), answers));
  ASSERT_TRUE(alive(daemon_.pid()));
  peers.clear();
  limit_address_space(RLIM_INFINITY);
  EXPECT_TRUE(eventually([&] { return connect()->compile(order("bytes")).ok(); }));
  EXPECT_TRUE(eventually([&] { return stats()["connections"] < 10; }));
  const auto figures = stats();
  EXPECT_GT(figures["reserve_refused_total"], 0) << "it was not used up";
  std::printf("[ FIGURE ] %d served, %d refused, %s allocations failed\n", answers.served.load(),
              answers.refused.load(), figures["reserve_refused_total"].dump().c_str());
  EXPECT_TRUE(connect()->shutdown());
  EXPECT_EQ(daemon_.wait(), 0);
}

INSTANTIATE_TEST_SUITE_P(With, ShortMemoryTest,
                         ::testing::Values(Space{"Nothing", 0}, Space{"512KiB", 512 << 10}, Space{"1MiB", 1 << 20},
                                           Space{"2MiB", 2 << 20}, Space{"1MiBAndHeapsOfThreads", 1 << 20, false}),
                         [](const auto& about) { return about.param.name; });

}  // namespace
}  // namespace kiln::service_test

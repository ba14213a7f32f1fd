// The remote tier with Debian's redis-server.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include "fake_bytes.h"
#include "redis/redis_process.h"
#include "remote_fixture.h"

namespace kiln::service_test {
namespace {

using redis_test::redis_installed;
using redis_test::RedisProcess;
using redis_test::shell;

class RedisTest : public RemoteServiceTest {
 protected:
  void SetUp() override {
    if (!redis_installed()) GTEST_SKIP() << "redis-server is not installed (tests/run.sh installs it)";
  }
  // What one daemon has compiled, another on a machine of its own does not compile.
  static void expect_shared(Host& first, Host& second) {
    constexpr int kEntries = 30;
    auto from = first.connection(), to = second.connection();
    for (int i = 0; i < kEntries; ++i) ASSERT_TRUE(from->fetch(order("bytes", 5000, std::to_string(i))));
    ASSERT_TRUE(eventually([&] { return first.stats()["remote_stored_total"] == kEntries; }));
    std::vector<double> took;
    for (int i = 0; i < kEntries; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      auto artifact = to->compile(order("bytes", 5000, std::to_string(i)));
      took.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
      ASSERT_TRUE(artifact) << artifact.error().message;
      EXPECT_EQ(artifact->metadata.served_from, "remote");
      EXPECT_EQ(artifact->code, fake_bytes(std::to_string(i), 5000));
    }
    const auto figures = second.stats();
    EXPECT_EQ(figures["compiles_total"], 0);
    EXPECT_EQ(figures["hits_total"]["remote"], kEntries);
    EXPECT_EQ(figures["workers_spawned_total"], 0);
    std::sort(took.begin(), took.end());
    std::printf("[ FIGURE ] a hit in the remote tier: %.0f us (median), %.0f us at worst\n", took[kEntries / 2],
                took.back());
  }
};

TEST_F(RedisTest, TheSecondDaemonCompilesNothing) {
  RedisProcess redis(temp_.path());
  const std::vector<std::string> key = {"--remote-key", secret("key", std::string(40, 'k'))};
  Host first(temp_ / "1", redis.url(), "readwrite", key), second(temp_ / "2", redis.url(), "read", key);
  expect_shared(first, second);
}

TEST_F(RedisTest, LargeEntries) {
  RedisProcess redis(temp_.path());
  Host first(temp_ / "1", redis.url(), "readwrite", {"--remote-trust"});
  Host second(temp_ / "2", redis.url(), "read", {"--remote-trust"});
  const auto request = order("bytes", 5u << 20, "large");
  ASSERT_TRUE(first.connection()->compile(request));
  ASSERT_TRUE(eventually([&] { return first.stats()["remote_stored_total"] == 1; }));
  auto artifact = second.connection()->compile(request);
  ASSERT_TRUE(artifact) << artifact.error().message;
  EXPECT_EQ(artifact->metadata.served_from, "remote");
  EXPECT_EQ(artifact->code, fake_bytes("large", 5u << 20));
}

TEST_F(RedisTest, Password) {
  RedisProcess redis(temp_.path(), {"--requirepass", "open sesame"});
  const std::string right = secret("right", "open sesame"), wrong = secret("wrong", "sesame");
  Host locked_out(temp_ / "1", redis.url(), "readwrite", {"--remote-trust", "--remote-password-file", wrong});
  ASSERT_TRUE(locked_out.connection()->compile(order("bytes")));
  EXPECT_EQ(locked_out.stats()["remote_errors_total"].value("server", 0) >= 1, true);
  Host writer(temp_ / "2", redis.url(), "readwrite", {"--remote-trust", "--remote-password-file", right});
  ASSERT_TRUE(writer.connection()->compile(order("bytes")));
  EXPECT_TRUE(eventually([&] { return writer.stats()["remote_stored_total"] == 1; }));
  ::setenv("KILN_REMOTE_PASSWORD", "open sesame", 1);
  Host reader(temp_ / "3", redis.url(), "read", {"--remote-trust"});
  ::unsetenv("KILN_REMOTE_PASSWORD");
  EXPECT_EQ(reader.connection()->compile(order("bytes"))->metadata.served_from, "remote");
  EXPECT_EQ(reader.connection()->stats("json")->find("sesame"), std::string::npos);
}

TEST_F(RedisTest, KilledMidwayNoRequestFails) {
  RedisProcess redis(temp_.path());
  Host host(temp_ / "1", redis.url(), "readwrite", {"--remote-trust"});
  std::atomic<int> done{0}, failed{0};
  constexpr int kThreads = 4, kEach = 100;
  std::vector<std::jthread> clients;
  for (int thread = 0; thread < kThreads; ++thread) {
    clients.emplace_back([&, thread] {
      auto connection = host.connection();
      for (int i = 0; i < kEach; ++i) {
        const std::string salt = std::to_string(thread) + "." + std::to_string(i);
        auto artifact = connection->fetch(order("bytes", 64, salt));
        if (!artifact || artifact->code != fake_bytes(salt, 64)) ++failed;
        ++done;
      }
    });
  }
  EXPECT_TRUE(eventually([&] { return done > kThreads * kEach / 4; }));
  redis.kill_now();
  clients.clear();
  EXPECT_EQ(done, kThreads * kEach);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(host.stats()["compiles_total"], kThreads * kEach);
}

// Two network namespaces with a cable between them; this thread, and what it starts, may be in one of them.
class TwoNamespaces {
 public:
  TwoNamespaces() : here_(::open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC)) {
    const std::string id = std::to_string(::getpid());
    for (int i = 0; i < 2; ++i) names_[i] = "kiln-" + id + "-" + std::to_string(i);
    made_ = shell("ip netns add " + names_[0]) == 0 && shell("ip netns add " + names_[1]) == 0 &&
            shell("ip link add cable0 netns " + names_[0] + " type veth peer name cable1 netns " + names_[1]) == 0;
    for (int i = 0; made_ && i < 2; ++i) {
      const std::string end = "cable" + std::to_string(i), ip = "ip -n " + names_[i] + " ";
      made_ = shell(ip + "addr add 198.18.77." + std::to_string(i + 1) + "/30 dev " + end) == 0 &&
              shell(ip + "link set " + end + " up") == 0 && shell(ip + "link set lo up") == 0;
    }
  }
  ~TwoNamespaces() {
    leave();
    for (const auto& name : names_) shell("ip netns del " + name);
  }
  bool made() const { return made_; }
  void enter(int which) const {
    wire::UniqueFd space(::open(("/run/netns/" + names_[which]).c_str(), O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(::setns(space.get(), CLONE_NEWNET), 0);
  }
  void leave() const { EXPECT_EQ(::setns(here_.get(), CLONE_NEWNET), 0); }

 private:
  wire::UniqueFd here_;
  std::string names_[2];
  bool made_ = false;
};

TEST_F(RedisTest, TwoNetworkNamespacesShareOne) {
  if (::geteuid() != 0) GTEST_SKIP() << "network namespaces need root";
  TwoNamespaces spaces;
  if (!spaces.made()) GTEST_SKIP() << "`ip netns` and `ip link add … type veth` are not permitted here";
  const std::vector<std::string> key = {"--remote-key", secret("key", std::string(32, 'k'))};
  const std::string url = "redis://198.18.77.1:7379/2";
  spaces.enter(0);
  RedisProcess redis(temp_.path(), {"--port", "7379", "--bind", "198.18.77.1", "--protected-mode", "no"});
  Host first(temp_ / "1", url, "readwrite", key);
  spaces.enter(1);
  Host second(temp_ / "2", url, "read", key);
  spaces.leave();
  expect_shared(first, second);
}

}  // namespace
}  // namespace kiln::service_test

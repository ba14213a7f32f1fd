// Planning workers that are killed, and plans that no disk has room for: as of kernels.
#include <gmock/gmock.h>
#include <signal.h>
#include <sys/mount.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "graph_service.h"

namespace kiln {
namespace {

using graph::Tensor;
using testing::HasSubstr;

// `name` says what the worker of these tests does with it.
graph::GraphDef program(const char* name, double factor = 2) {
  return graph::graph(name, {graph::input("x", graph::f32, {4})}, [=](Tensor x) { return x * factor + 1.0; });
}

void expect_right(const CompiledGraph& fn, float factor = 2) {
  const std::vector<float> x = {1, 2, 3, 4};
  const auto results = fn({array(x, {4})});
  ASSERT_TRUE(results) << results.error().message;
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ((*results)[0].as<float>()[i], x[i] * factor + 1);
}

std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> out;
  std::error_code gone;  // it may end while it is looked at
  std::filesystem::directory_iterator threads("/proc/" + std::to_string(parent) + "/task", gone);
  for (; threads != std::filesystem::directory_iterator(); threads.increment(gone)) {
    std::ifstream children(threads->path() / "children");
    for (pid_t pid; children >> pid;) out.push_back(pid);
  }
  return out;
}

// The daemon has a process that forks workers.
std::vector<pid_t> workers_of(pid_t daemon) {
  std::vector<pid_t> out;
  for (const pid_t zygote : children_of(daemon)) {
    const std::vector<pid_t> workers = children_of(zygote);
    out.insert(out.end(), workers.begin(), workers.end());
  }
  return out;
}

class PlanFaults : public test::GraphService {
 protected:
  ClientOptions faulty() const {
    ClientOptions out = options();
    out.connect.worker_path = FAULTY_WORKER;
    return out;
  }
  std::unique_ptr<client::Connection> daemon() const {
    auto opened = client::Connection::open(faulty().connect);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? std::move(*opened) : nullptr;
  }
  template <class Condition>
  static bool eventually(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + test::kPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return true;
  }
};

// The graph is at fault: it is tried twice, then refused without a worker.
TEST_F(PlanFaults, AGraphThatKillsItsPlannerIsAnError) {
  Client client(faulty());
  for (int i = 0; i < 4; ++i) {
    const auto fn = client.compile(program("kills"));
    ASSERT_FALSE(fn);
    EXPECT_EQ(fn.error().code, i == 0 ? ErrorCode::kWorkerCrashed : ErrorCode::kPoisoned) << fn.error().message;
    EXPECT_THAT(fn.error().message, HasSubstr("graph `kills`: "));
  }
  EXPECT_EQ(test::figures_of(*daemon())["poison"].size(), 1u);
  auto other = client.compile(program("fine"));
  ASSERT_TRUE(other) << other.error().message;
  expect_right(*other);
}

// Killed from outside in the middle of it, as by an administrator or for memory.
TEST_F(PlanFaults, AKilledPlannerIsReplacedAndItsGraphPlannedAgain) {
  Client client(faulty());
  auto before = client.compile(program("before"));
  ASSERT_TRUE(before) << before.error().message;
  const auto watched = daemon();
  const auto pid = static_cast<pid_t>(watched->server().pid);
  Result<CompiledGraph> first = error(ErrorCode::kInternal, "");
  {
    std::jthread asker([&] { first = client.compile(program("waits")); });
    ASSERT_TRUE(eventually([&] { return test::figures_of(*watched)["workers_busy"] == 1; }));
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    const std::vector<pid_t> workers = workers_of(pid);
    ASSERT_FALSE(workers.empty()) << "below " << pid;
    for (const pid_t worker : workers) EXPECT_EQ(::kill(worker, SIGKILL), 0);
  }
  ASSERT_TRUE(first) << first.error().message;
  expect_right(*first);
  EXPECT_EQ(test::figures_of(*watched)["retries_total"], 1);
  auto other = client.compile(program("after", 3));
  ASSERT_TRUE(other) << other.error().message;
  expect_right(*other, 3);
  auto again = client.compile(program("waits"));
  ASSERT_TRUE(again) << again.error().message;
  expect_right(*again);
  EXPECT_TRUE(test::figures_of(*watched)["poison"].empty());
  expect_right(*before);
}

// Nothing can be kept, and all is compiled and runs; when there is room, plans are kept again.
TEST_F(PlanFaults, PlansOnAFullDiskAreMadeAllTheSame) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can mount";
  const std::filesystem::path cache = directory_ / "cache";
  std::filesystem::create_directory(cache);
  if (::mount("none", cache.c_str(), "tmpfs", 0, "size=4m,mode=0700") != 0) {
    GTEST_SKIP() << "mounting is not permitted";
  }
  ClientOptions small = options();
  small.connect.daemon_args = {"--memory-size", "1000"};
  {
    Client client(small);
    auto begun = client.compile(program("begun"));
    ASSERT_TRUE(begun) << begun.error().message;
    std::error_code gone;
    const auto fill = [&] {
      std::filesystem::remove_all(cache / "v1", gone);
      std::filesystem::remove(cache / "reserve", gone);
      std::ofstream hog(cache / "hog", std::ios::binary | std::ios::app);
      while (hog.write(std::string(4096, 'h').data(), 4096).flush()) {
      }
    };
    int request = 0;
    EXPECT_TRUE(eventually([&] {
      fill();
      const double factor = 10 + request++;
      auto fn = client.compile(program("full", factor), {.target = "interp"});  // a plan alone
      EXPECT_TRUE(fn) << fn.error().message;
      if (fn) expect_right(*fn, static_cast<float>(factor));
      return test::figures_of(*GraphService::daemon())["store_degraded"] == 1;
    }));
    std::filesystem::remove(cache / "hog", gone);
    auto room = client.compile(program("room"));
    ASSERT_TRUE(room) << room.error().message;
    EXPECT_TRUE(eventually([&] { return test::figures_of(*GraphService::daemon())["store_degraded"] == 0; }));
    expect_right(*room);
    expect_right(*begun);
  }
  stop_daemon();
  // What was half written when the disk was full is no entry: another daemon reads the cache.
  Client next(options());
  for (const char* name : {"begun", "full", "room"}) {
    auto fn = next.compile(program(name));
    EXPECT_TRUE(fn) << fn.error().message;
    if (fn) expect_right(*fn);
  }
  stop_daemon();
  ::umount2(cache.c_str(), MNT_DETACH);
}

}  // namespace
}  // namespace kiln

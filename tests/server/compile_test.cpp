// Hits, misses, tiers and errors of well-behaved requests.
#include <thread>

#include "service_fixture.h"

namespace kiln::service_test {
namespace {

using CompileTest = ServiceTest;

TEST_F(CompileTest, GreetingNamesBuilderTargetAndFiles) {
  start();
  auto daemon = connect();
  ASSERT_TRUE(daemon);
  EXPECT_EQ(daemon->server().builder_id, "fake-builder-1");
  EXPECT_EQ(daemon->server().native_target, "cpu:fake");
  EXPECT_EQ(daemon->server().pid, daemon_.pid());
  EXPECT_EQ(daemon->server().daemon_build_id.size(), 40u);
  EXPECT_EQ(daemon->server().worker_build_id.size(), 40u);
}

TEST_F(CompileTest, MissCompilesThenHitsMemory) {
  start();
  auto daemon = connect();
  ASSERT_TRUE(daemon);
  RequestBytes request = order("bytes", 1000);
  auto missing = daemon->get(daemon->key_of(request));
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kNotFound);
  auto first = daemon->fetch(request);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->code.size(), 1000u);
  EXPECT_EQ(first->metadata.served_from, "compile");
  EXPECT_EQ(first->metadata.target, "cpu:fake");
  auto second = daemon->get(daemon->key_of(request));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(second->metadata.served_from, "memory");
  EXPECT_EQ(second->code, first->code);
  EXPECT_EQ(stats()["compiles_total"], 1);
}

TEST_F(CompileTest, DiskHitAfterRestart) {
  start();
  auto code = connect()->fetch(order("bytes", 1000));
  ASSERT_TRUE(code);
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  start();
  auto again = connect()->fetch(order("bytes", 1000));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->metadata.served_from, "disk");
  EXPECT_EQ(again->code, code->code);
  auto figures = stats();
  EXPECT_EQ(figures["compiles_total"], 0);
  EXPECT_EQ(figures["hits_total"]["disk"], 1);
}

TEST_F(CompileTest, LargeArtifactsTravelAsDescriptors) {
  start();
  auto request = order("bytes", 3u << 20);
  auto compiled = connect()->fetch(request);
  ASSERT_TRUE(compiled) << compiled.error().message;
  EXPECT_EQ(compiled->code.size(), 3u << 20);
  auto memory = connect()->fetch(request);
  ASSERT_TRUE(memory) << memory.error().message;
  EXPECT_EQ(memory->metadata.served_from, "memory");
  EXPECT_EQ(memory->code, compiled->code);
  daemon_.signal(SIGTERM);
  ASSERT_EQ(daemon_.wait(), 0);
  start();
  auto disk = connect()->fetch(request);
  ASSERT_TRUE(disk) << disk.error().message;
  EXPECT_EQ(disk->metadata.served_from, "disk");
  EXPECT_EQ(disk->code, compiled->code);
}

TEST_F(CompileTest, LargeReplyIsAReadOnlyDescriptor) {
  start();
  auto request = order("bytes", 200'000);
  auto daemon = connect();
  ASSERT_TRUE(daemon->fetch(request));
  RequestKey key = daemon->key_of(request);
  RawPeer peer(runtime());
  ASSERT_TRUE(peer.read());
  peer.hello();
  peer.send({.type = wire::Type::kGet, .request_id = 7, .body = {std::as_bytes(std::span(key))}});
  auto reply = peer.read();
  ASSERT_TRUE(reply);
  EXPECT_TRUE(reply->has(wire::flag::kHasFd));
  ASSERT_TRUE(reply->fd);
  EXPECT_TRUE(reply->body.empty());
  EXPECT_LT(::write(reply->fd.get(), "x", 1), 0);
}

TEST_F(CompileTest, GetMany) {
  start();
  auto daemon = connect();
  std::vector<RequestKey> keys;
  for (int i = 0; i < 300; ++i) {
    auto request = order("bytes", 10 + i, std::to_string(i));
    keys.push_back(daemon->key_of(request));
    if (i % 3 == 0) {
      ASSERT_TRUE(daemon->compile(request));
    }
  }
  auto found = daemon->get_many(keys);
  ASSERT_EQ(found.size(), keys.size());
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(found[i].ok(), i % 3 == 0) << i;
    if (found[i]) {
      EXPECT_EQ(found[i]->code.size(), 10u + i);
    } else {
      EXPECT_EQ(found[i].error().code, ErrorCode::kNotFound);
    }
  }
}

TEST_F(CompileTest, CompileErrorsAreStructuredAndRemembered) {
  start({"--negative-ttl", "0.3"});
  auto daemon = connect();
  auto failed = daemon->compile(order("fail", 0, "frobnicate"), {.trace_id = "trace-7"});
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, ErrorCode::kCompileFailed);
  EXPECT_EQ(failed.error().message, "no such op: frobnicate");
  EXPECT_EQ(failed.error().trace_id, "trace-7");
  ASSERT_FALSE(daemon->compile(order("fail", 0, "frobnicate")));
  EXPECT_EQ(stats()["compiles_total"], 1);
  EXPECT_EQ(stats()["negative_hits_total"], 1);
  // Messages name lines of the debug section, so another one is another failure.
  ASSERT_FALSE(daemon->compile(order("fail", 0, "frobnicate", "other lines")));
  EXPECT_EQ(stats()["compiles_total"], 2);
  EXPECT_TRUE(eventually([&] {
    (void)daemon->compile(order("fail", 0, "frobnicate", "other lines"));
    return stats()["compiles_total"] == 3;
  }));
}

TEST_F(CompileTest, OddWorkersAreErrorsNotCrashes) {
  start();
  auto daemon = connect();
  EXPECT_EQ(daemon->compile(order("throw")).error().code, ErrorCode::kInternal);
  EXPECT_EQ(daemon->compile(order("empty")).error().code, ErrorCode::kInternal);
  EXPECT_EQ(daemon->compile(order("nonsense")).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(daemon->compile(order("bytes")));
}

TEST_F(CompileTest, ManyThreadsShareOneConnection) {
  start();
  auto daemon = connect();
  std::vector<std::jthread> threads;
  std::atomic<int> good{0};
  for (int t = 0; t < 16; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 20; ++i) {
        uint64_t size = 100 + (t * 20 + i) % 37;
        auto artifact = daemon->fetch(order("bytes", size, std::to_string(size)));
        if (artifact && artifact->code.size() == size) ++good;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(good, 320);
  EXPECT_EQ(stats()["compiles_total"], 37);
}

TEST_F(CompileTest, PingAndStats) {
  start();
  auto daemon = connect();
  EXPECT_TRUE(daemon->ping());
  auto figures = stats();
  for (const char* name :
       {"compiles_total", "hits_total", "misses_total", "workers", "rss_bytes", "joins_total", "queue_depth",
        "worker_deaths_total", "cache_corrupt_total", "cache_quarantined_total", "evictions_total",
        "store_errors_total", "store_degraded", "connections", "pid", "uptime_ms", "config"}) {
    EXPECT_TRUE(figures.contains(name)) << name;
  }
  EXPECT_EQ(figures["pid"], daemon_.pid());
  EXPECT_GT(figures["rss_bytes"], 1000);
  EXPECT_EQ(figures["config"]["workers"], 4);
}

}  // namespace
}  // namespace kiln::service_test

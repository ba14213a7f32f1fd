// Compiles through a daemon, ahead of who needs them.
#include "kiln/dsl/kernels.h"
#include "runner_case.h"

namespace kiln::autotune {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

using DaemonCompiler = RunnerCase;
const dsl::Kernel& vector_add() { return *kernels::vector_add<>().ir(); }

TEST_F(DaemonCompiler, CompletesConfigsAndTellsErrorsOfEachCandidate) {
  TestCompiler compiler(path("run"));
  EXPECT_FALSE(compiler->builder_id().empty());
  auto target = compiler->resolve_target("cpu");
  ASSERT_TRUE(target);
  EXPECT_THAT(*target, StartsWith("cpu:"));
  EXPECT_EQ(compiler->resolve_target("cuda:sm_90a").value(), "cuda:sm_90a");
  std::vector<std::future<Result<Artifact>>> all;
  for (int64_t block : {256, 0, 512, 1024, 2048})
    all.push_back(compiler->compile(vector_add(), "cpu", {{"BLOCK", block}}, {}));
  all.push_back(compiler->compile(vector_add(), *target, {}, {}));
  all.push_back(compiler->compile(vector_add(), *target, {{"BLCK", 1}}, {}));
  for (size_t i = 0; i < all.size(); ++i) {
    auto artifact = all[i].get();
    if (i == 1 || i == 6) {
      EXPECT_FALSE(artifact) << i;
      continue;
    }
    ASSERT_TRUE(artifact) << artifact.error().message;
    EXPECT_EQ(artifact->metadata.target, *target);
    EXPECT_TRUE(artifact->metadata.constexprs.contains("BLOCK"));
  }
}

TEST_F(DaemonCompiler, HoldsStill) {
  TestCompiler compiler(path("run"));
  compiler->hold();
  auto waiting = compiler->compile(vector_add(), "cpu", {{"BLOCK", 64}}, {});
  EXPECT_EQ(waiting.wait_for(std::chrono::milliseconds(300)), std::future_status::timeout);
  compiler->release();
  EXPECT_TRUE(waiting.get());
  // Returns when what is in flight is done, one way or the other.
  auto first = compiler->compile(vector_add(), "cpu", {{"BLOCK", 128}}, {});
  EXPECT_TRUE(first.get());
  compiler->hold();
  compiler->release();
}

TEST_F(DaemonCompiler, WhatIsLeftIsCancelledWithIt) {
  std::vector<std::future<Result<Artifact>>> left;
  {
    TestCompiler compiler(path("run"));
    compiler->hold();
    for (int64_t block : {32, 64}) left.push_back(compiler->compile(vector_add(), "cpu", {{"BLOCK", block}}, {}));
  }
  for (auto& future : left) EXPECT_EQ(future.get().error().code, ErrorCode::kCancelled);
}

TEST_F(DaemonCompiler, WithoutADaemonIsAnError) {
  client::ConnectOptions nowhere;
  nowhere.runtime_dir = path("nowhere");
  nowhere.autostart = nowhere.allow_pipe = false;
  EXPECT_FALSE(daemon_compiler(nowhere));
}

}  // namespace
}  // namespace kiln::autotune

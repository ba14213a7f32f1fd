// Children of the daemon that die just before it writes to them: the failing send must not take away what the caller
// is looking at.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <fstream>

#include "child_owner.h"
#include "processes/tuner_process.h"
#include "processes/worker_pool.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

using server::Bytes;

// The only child of this process, dead but not waited for: its end of the channel is closed.
void kill_only_child() {
  const auto children = descendants(::getpid());
  ASSERT_EQ(children.size(), 1u);
  ::kill(children[0], SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(children[0]), &info, WEXITED | WNOWAIT), 0);
}

TEST(DyingChildren, AJobForAZygoteThatHasJustDiedIsAnswered) {
  ChildOwner owner;
  owner.config.worker_path = KILN_TEST_WORKER;
  owner.config.workers = 1;
  server::WorkerPool pool(owner.io, owner.config, owner.scratch, owner.log, owner.metrics);
  bool ready = false;
  ASSERT_TRUE(pool.start({.ready = [&](const std::string&, const std::string&) { ready = true; },
                          .slot_free = [] {},
                          .start_failed = [](const std::string&) {}}));
  ASSERT_TRUE(owner.run_until([&] { return ready; }));
  kill_only_child();
  std::optional<server::JobOutcome> outcome;
  pool.run(1, "{}", std::make_shared<const Bytes>(8), 0,
           [&](server::JobOutcome result) { outcome = std::move(result); });
  EXPECT_FALSE(outcome);  // not before run() has returned
  ASSERT_TRUE(owner.run_until([&] { return outcome.has_value(); }));
  EXPECT_EQ(outcome->kind, server::JobOutcome::kWorkerDied);
  EXPECT_TRUE(outcome->never_ran);
  EXPECT_NE(outcome->cause.find("zygote died: signal 9"), std::string::npos) << outcome->cause;
  EXPECT_EQ(pool.stats()["workers"], 0);
}

// A tuner that reads nothing, with requests of two clients.
struct TunerWithRequests : ChildOwner {
  server::History history{"test"};
  std::unique_ptr<server::TunerProcess> tuner;
  std::map<uint64_t, std::string> answers;  // by client

  TunerWithRequests() {
    config.tuner_path = temp / "tuner";
    std::ofstream(config.tuner_path) << "#!/bin/sh\nexec sleep 1000\n";
    std::filesystem::permissions(config.tuner_path, std::filesystem::perms::owner_all);
    tuner = std::make_unique<server::TunerProcess>(io, config, scratch, log, metrics, history);
    for (uint64_t client : {1u, 1u, 2u, 1u}) {
      tuner->submit(
          {.requester = {client, ++requests}, .trace_id = "t", .json = "{}", .body = std::make_shared<const Bytes>(8)},
          [this, client](const Result<std::string>& answer) {
            answers[client] = answer ? "tuned" : answer.error().message;
          });
    }
  }
  uint64_t requests = 0;
};

TEST(DyingChildren, ATunerThatDiesAsItsClientGoesFailsTheOthersRequests) {
  TunerWithRequests with;
  kill_only_child();
  with.tuner->forget_client(1);
  EXPECT_EQ(with.tuner->stats()["tune_waiters"], 1);
  ASSERT_TRUE(with.run_until([&] { return !with.answers.empty(); }));
  EXPECT_EQ(with.answers, (std::map<uint64_t, std::string>{{2, "the tuner died: signal 9"}}));
}

TEST(DyingChildren, ATunerThatDiesAsARequestIsCancelled) {
  TunerWithRequests with;
  kill_only_child();
  with.tuner->cancel({1, 2});
  EXPECT_EQ(with.answers[1], "cancelled");
  EXPECT_EQ(with.tuner->stats()["tune_waiters"], 3);
  ASSERT_TRUE(with.run_until([&] { return with.answers.contains(2); }));
  EXPECT_EQ(with.answers[1], "the tuner died: signal 9");
}

}  // namespace
}  // namespace kiln::service_test

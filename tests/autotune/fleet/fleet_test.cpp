// Batches that several workers tune together, over a real redis-server: processes with fake devices that die, are cut
// off, and lose their Redis.
#include <gmock/gmock.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include <csignal>

#include "batch_fakes.h"
#include "fleet/fleet_lines.h"
#include "fleet/fleet_store.h"
#include "kiln/autotune/runner_protocol.h"
#include "records/records_lines.h"
#include "redis/redis_process.h"
#include "waiting.h"

namespace kiln::autotune {
namespace {

using redis_test::RedisProcess;
using redis_test::Wire;
using std::chrono_literals::operator""ms;
using ::testing::HasSubstr;

const std::string kSecret(redis::kMinKey, 's');

FleetOptions fleet_at(const std::string& url) {
  FleetOptions out;
  out.access.url = url;
  out.access.key = kSecret;
  out.builder = "builder-1";
  out.poll = Seconds(0.05);
  out.lease = Seconds(4);  // of a machine that is busy with other tests
  return out;
}

// A process of its own with records of its own, as on another machine.
class WorkerProcess {
 public:
  // Call it before this process has threads. It begins when there is the file `gate`, where one is named.
  WorkerProcess(const ScratchDirectory& directory, const std::string& name, FleetOptions fleet, FakeDevice device,
                const std::string& gate)
      : log_(directory.file(name + ".log")), said_(directory.file(name + ".said")) {
    fleet.worker = name;
    device.log = log_;
    device.jitter = 0;  // a measurement that is gone on with elsewhere finds the same times
    const std::string database = directory.file(name + ".sqlite");
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    fleet.notice = [this](const std::string& line) { std::ofstream(said_, std::ios::app) << line << std::endl; };
    auto wait_a_moment = [] { std::this_thread::sleep_for(10ms); };
    while (!gate.empty() && ::access(gate.c_str(), F_OK) != 0) wait_a_moment();
    auto records = fake_records(database);
    FakeCompiler compiler;
    for (;; wait_a_moment()) (void)work_for_fleet(compiler, fakes_of(device), *records, fleet, {});
  }
  ~WorkerProcess() { kill_now(); }
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  void kill_now() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  size_t measurements() const { return lines_of(log_).size(); }
  std::string said() const { return read_text(said_); }

 private:
  const std::string log_, said_;
  pid_t pid_ = -1;
};

class Fleet : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!redis_test::redis_installed()) GTEST_SKIP() << "redis-server is not installed (tests/run.sh installs it)";
  }

  std::unique_ptr<WorkerProcess> worker(const std::string& name, const FleetOptions& fleet, FakeDevice device = {},
                                        const std::string& gate = "") {
    return std::make_unique<WorkerProcess>(directory_, name, fleet, std::move(device), gate);
  }

  // What a batch leaves in the records of who asks, but for the time of day, and for how many launches it took: a
  // search that goes on elsewhere launches what it compares with once more.
  std::string lines_of_records(Records& records) const {
    const std::string path = directory_.file("exported");
    expect_ok(records.export_lines(path));
    std::string out;
    for (const std::string& line : lines_of(path)) {
      auto object = nlohmann::json::parse(line);
      for (const char* field : {"created_ms", "samples"}) object.erase(field);
      out += object.dump() + "\n";
    }
    return out;
  }

  ScratchDirectory directory_;
};

const std::vector<std::string> kKernels = {"row_sum", "cumsum_rows", "log_softmax", "softmax_long"};

void expect_all_done(const BatchResult& result) {
  EXPECT_EQ(result.jobs.size(), kKernels.size());
  size_t measured = 0;
  for (const JobOutcome& job : result.jobs) {
    ASSERT_EQ(job.state, JobState::kDone) << job.name << ": " << job.error;
    EXPECT_EQ(to_string(job.result->best), "BLOCK=1024") << job.name;
    EXPECT_TRUE(job.result->finished);
    for (const Candidate& candidate : job.result->candidates) EXPECT_EQ(candidate.record.config, candidate.config);
    measured += job.result->measured;
  }
  EXPECT_EQ(result.measured, measured);
}

class FleetSearch : public Fleet, public ::testing::WithParamInterface<Search> {
 protected:
  void SetUp() override {
    Fleet::SetUp();
    options_.tune.search = GetParam();
  }
  BatchOptions options_;
};

// The same records from one worker, and from four of which one is killed and one is cut off midway.
TEST_P(FleetSearch, OneAndFourWorkersGiveTheSameRecords) {
  std::string of_one, of_four;
  {
    RedisProcess redis(directory_.path());
    auto only = worker("only", fleet_at(redis.url()));
    auto records = fake_records(directory_.file("one"));
    expect_all_done(expect_ok(run_fleet_batch(row_jobs(kKernels), *records, options_, fleet_at(redis.url()))));
    of_one = lines_of_records(*records);
  }
  {
    RedisProcess redis(directory_.path());
    const FleetOptions fleet = fleet_at(redis.url());
    const std::string wire_path = directory_.file("wire"), gate = directory_.file("gate");
    FakeDevice slow;
    slow.pause = 20ms;
    auto killed = worker("killed", fleet, slow), cut = worker("cut", fleet_at("redis+unix://" + wire_path), slow);
    auto third = worker("third", fleet, {}, gate), fourth = worker("fourth", fleet, {}, gate);
    auto records = fake_records(directory_.file("four"));
    Result<BatchResult> result = internal_error("nothing came back");
    Wire wire(wire_path, redis.socket());
    std::jthread asker([&] { result = run_fleet_batch(row_jobs(kKernels), *records, options_, fleet); });
    EXPECT_TRUE(eventually([&] { return killed->measurements() > 0; }));
    killed->kill_now();
    EXPECT_TRUE(eventually([&] { return cut->measurements() > 0; }));
    wire.cut();
    write_text(gate, "");
    asker.join();
    expect_all_done(expect_ok(std::move(result)));
    of_four = lines_of_records(*records);
    // Who was cut off finds out.
    wire.mend();
    EXPECT_TRUE(eventually([&] { return cut->said().find("another") != std::string::npos; })) << cut->said();
  }
  EXPECT_EQ(of_one, of_four);
  EXPECT_THAT(of_one, HasSubstr("softmax_long"));
}
INSTANTIATE_TEST_SUITE_P(Searches, FleetSearch, ::testing::Values(Search::kAuto, Search::kExhaustive));

TEST_F(Fleet, AJobThatKillsItsWorkersIsGivenUpAndNamed) {
  RedisProcess redis(directory_.path());
  FleetOptions fleet = fleet_at(redis.url());
  fleet.lease = Seconds(1.5);
  auto jobs = row_jobs({"row_sum", "cumsum_rows"});
  jobs[0].axes = {{"BLOCK", {512, 2048}}};
  FakeDevice deadly;
  deadly.status = [](const Config& config) {
    if (config.at("BLOCK") == 2048) ::raise(SIGKILL);
    return CandidateStatus();
  };
  jobs[1].axes = {{"BLOCK", {512, 1024}}};
  std::vector<std::unique_ptr<WorkerProcess>> workers;
  for (const char* name : {"a", "b", "c", "d"}) workers.push_back(worker(name, fleet, deadly));
  auto records = fake_records(directory_.file("asker"));
  BatchOptions options;
  options.tune.search = Search::kExhaustive;
  const BatchResult result = expect_ok(run_fleet_batch(jobs, *records, options, fleet));
  EXPECT_EQ(result.jobs[1].state, JobState::kDone) << result.jobs[1].error;
  EXPECT_EQ(result.jobs[0].state, JobState::kFailed);
  EXPECT_THAT(result.jobs[0].error, HasSubstr("given up: 3 workers had it and died or were cut off ("));
  size_t alive = 0;
  for (const char* name : {"a", "b", "c", "d"}) {
    alive += result.jobs[0].error.find(name + std::string(",")) == std::string::npos &&
             result.jobs[0].error.find(name + std::string(")")) == std::string::npos;
  }
  EXPECT_EQ(alive, 1u) << result.jobs[0].error;
  EXPECT_EQ(redis.ask("XLEN kiln:tune:1:dead"), "1");
  EXPECT_THAT(redis.ask("KEYS 'kiln:tune:1:batch:*'"), "") << "nothing of the batch is left behind";
}

// Redis comes back with nothing: who asks puts there what is outstanding, and workers answer when they can.
TEST_F(Fleet, ARedisThatIsAwayIsWaitedFor) {
  RedisProcess redis(directory_.path());
  FleetOptions fleet = fleet_at(redis.url());
  FakeDevice slow;
  slow.pause = 5ms;
  auto only = worker("only", fleet, slow);
  auto records = fake_records(directory_.file("asker"));
  std::mutex mutex;
  std::string said;
  fleet.notice = [&](const std::string& line) {
    std::lock_guard lock(mutex);
    said += line + "\n";
  };
  Result<BatchResult> result = internal_error("nothing came back");
  std::jthread asker([&] { result = run_fleet_batch(row_jobs(kKernels), *records, {}, fleet); });
  ASSERT_TRUE(eventually([&] { return only->measurements() > 0; }));
  redis.kill_now();
  auto has_said = [&](const std::string& words) {
    std::lock_guard lock(mutex);
    return said.find(words) != std::string::npos;
  };
  EXPECT_TRUE(eventually([&] { return has_said(redis.url() + ": connect: ") && has_said("; waiting for it"); }));
  redis.start();
  asker.join();
  expect_all_done(expect_ok(std::move(result)));
  EXPECT_TRUE(has_said(redis.url() + " is back")) << said;
}

TEST_F(Fleet, ARedisThatIsNotThereIsAnErrorAtOnce) {
  const FleetOptions fleet = fleet_at("redis+unix://" + directory_.file("none.sock"));
  auto records = fake_records(directory_.file("asker"));
  auto result = run_fleet_batch(row_jobs({"row_sum"}), *records, {}, fleet);
  ASSERT_FALSE(result);
  EXPECT_THAT(result.error().message, HasSubstr("none.sock: connect: "));
  FakeCompiler compiler;
  EXPECT_FALSE(work_for_fleet(compiler, fakes_of({}), *records, fleet, {}));
}

TEST_F(Fleet, ArraysOfFilesStayOnThisMachine) {
  auto records = fake_records(directory_.file("asker"));
  auto jobs = row_jobs({"row_sum"});
  jobs[0].place = "jobs.jsonl:1";
  jobs[0].target = "cpu";
  jobs[0].workload.arguments[0].file = "/etc/passwd";
  auto result = run_fleet_batch(jobs, *records, {}, fleet_at("redis+unix:///none.sock"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "jobs.jsonl:1: `arrays`: workers elsewhere do not have this machine's files");
  auto order = parse_order(to_text(FleetOrder{jobs[0], {}}));
  ASSERT_FALSE(order);
  EXPECT_EQ(order.error().message, "`workload` has the file of another machine");
}

TEST_F(Fleet, AStopWithdrawsTheBatchAndAWorkerGivesItsJobBack) {
  RedisProcess redis(directory_.path());
  FleetOptions fleet = fleet_at(redis.url());
  fleet.lease = Seconds(600);  // none ends here, however long the machine takes
  auto records = fake_records(directory_.file("asker"));
  std::stop_source stop;
  Result<BatchResult> result = internal_error("nothing came back");
  std::jthread asker(
      [&] { result = run_fleet_batch(row_jobs({"row_sum"}), *records, {}, fleet, {}, stop.get_token()); });
  FleetStore first(fleet), second(fleet);
  std::optional<FleetClaim> claim, again;
  ASSERT_TRUE(eventually([&] { return (claim = expect_ok(first.claim("cpu"))).has_value(); }));
  EXPECT_EQ(claim->delivery, 1);
  EXPECT_TRUE(expect_ok(first.renew(*claim)));
  EXPECT_FALSE(expect_ok(second.claim("cpu")).has_value()) << "it is taken";
  expect_ok(first.give_back(*claim));
  ASSERT_TRUE((again = expect_ok(second.claim("cpu"))).has_value());
  EXPECT_EQ(again->delivery, 1) << "giving back is no death";
  EXPECT_FALSE(expect_ok(first.renew(*claim)));
  stop.request_stop();
  asker.join();
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_TRUE(result->stopped);
  EXPECT_EQ(result->jobs[0].state, JobState::kStopped);
  EXPECT_FALSE(expect_ok(second.renew(*again))) << "it was withdrawn";
}

TEST_F(Fleet, OnlyWhatIsSealedByTheKeyIsTaken) {
  RedisProcess redis(directory_.path());
  FleetOptions fleet = fleet_at(redis.url());
  fleet.lease = Seconds(600);
  FleetStore ours(fleet);
  const auto specs = row_jobs({"row_sum"}, "cpu");
  const FleetJob job{0, to_text(FleetOrder{specs[0], {}})};
  expect_ok(ours.open_batch("b-cpu", "cpu", {job}));
  FleetOptions strangers = fleet, others = fleet;
  strangers.access.key = std::string(redis::kMinKey, 't');
  others.builder = "builder-2";
  EXPECT_FALSE(expect_ok(FleetStore(strangers).claim("cpu")).has_value());
  EXPECT_FALSE(expect_ok(FleetStore(others).claim("cpu")).has_value());
  EXPECT_FALSE(expect_ok(ours.claim("cuda")).has_value());
  // Somebody without the key writes jobs, outcomes and measurements.
  redis.ask("XADD kiln:tune:1:batch:b-cpu '*' job 1 order evil");
  auto good = expect_ok(ours.claim("cpu")), bad = expect_ok(ours.claim("cpu"));
  ASSERT_TRUE(good && bad);
  EXPECT_TRUE(good->order);
  EXPECT_FALSE(bad->order);
  redis.ask("HSET kiln:tune:1:batch:b-cpu:done 0 evil");
  EXPECT_FALSE(ours.outcome("b-cpu", 0));
  EXPECT_FALSE(expect_ok(ours.finish(*good, "{}"))) << "the first that is there counts";
  const Record record = some_record(some_key(), 64, 10);
  expect_ok(ours.publish(record));
  const std::string name = redis.ask("KEYS 'kiln:tune:1:records:*'"), field = redis.ask("HKEYS " + name);
  EXPECT_EQ(expect_ok(ours.records(some_key())).size(), 1u);
  redis.ask("HSET " + name + " " + field + " evil");
  EXPECT_EQ(expect_ok(ours.records(some_key())).size(), 0u);
  EXPECT_EQ(expect_ok(ours.records(some_key("k2"))).size(), 0u);
}

TEST(FleetLines, OrdersOfTheLibraryKeepTheirKeys) {
  BatchOptions options;
  options.tune = {.search = Search::kHalving, .seed = 7, .share = 0.5, .cache = Cache::kHot, .bucket = Bucket::kPowers};
  options.resume = true;
  options.budget = Seconds(90);
  for (JobSpec spec : row_jobs(kKernels, "cuda")) {
    spec.workload.seed = 3;
    auto order = parse_order(to_text(FleetOrder{spec, options}));
    ASSERT_TRUE(order) << order.error().message;
    EXPECT_EQ(order->job.name, spec.name);
    EXPECT_EQ(order->job.target, "cuda");
    EXPECT_EQ(workload_to_json(order->job.workload), workload_to_json(spec.workload));
    EXPECT_EQ(order->options.tune.search, Search::kHalving);
    EXPECT_EQ(order->options.tune.seed, 7u);
    EXPECT_EQ(order->options.tune.share, 0.5);
    EXPECT_EQ(order->options.tune.cache, Cache::kHot);
    EXPECT_EQ(order->options.tune.bucket, Bucket::kPowers);
    EXPECT_EQ(order->options.budget, Seconds(90));
    EXPECT_TRUE(order->options.resume);
    auto key_of = [](const JobSpec& one) {
      const Job job{one.name, one.kernel, one.workload, "cuda:sm_90a", one.axes};
      return expect_ok(record_key(job, "hardware", "builder", {}));
    };
    EXPECT_EQ(key_of(order->job), key_of(spec));
  }
}

TEST(FleetLines, WhatIsWrongIsAnErrorAndNoCrash) {
  const std::string good = to_text(FleetOrder{row_jobs({"row_sum"}, "cpu")[0], {}});
  ASSERT_TRUE(parse_order(good));
  for (size_t size = 0; size < good.size(); size += 7) EXPECT_FALSE(parse_order(good.substr(0, size)));
  for (const char* field : {"target", "kernel", "workload", "axes", "tune"}) {
    auto object = nlohmann::json::parse(good);
    for (const nlohmann::json& wrong : {nlohmann::json(3), nlohmann::json("x"), nlohmann::json::array({1})}) {
      object[field] = wrong;
      if (std::string(field) == "target" && wrong == "x") continue;
      EXPECT_FALSE(parse_order(object.dump())) << field << " " << wrong;
    }
  }
  EXPECT_FALSE(parse_outcome("{\"state\":\"done\"}"));
  EXPECT_FALSE(parse_outcome("[]"));
  auto dead = parse_outcome(outcome_of_dead_job(3, "a, b, c"));
  ASSERT_TRUE(dead);
  EXPECT_EQ(dead->job.state, JobState::kFailed);
}

}  // namespace
}  // namespace kiln::autotune

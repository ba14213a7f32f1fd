// The processes behind a handle with a mode, when they die, when the disk is full, and when clients come and go.
#include <sys/mount.h>

#include <csignal>
#include <cstring>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/config.h"
#include "kiln/wire/channel.h"
#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"
#include "kiln/wire/paths.h"
#include "online_case.h"

namespace kiln::autotune {
namespace {

using testing::HasSubstr;

class OnlineProcesses : public OnlineCase {
 protected:
  // The runner that was started last.
  pid_t runner() const {
    std::ifstream file(file_of("count"));
    pid_t out = -1;
    for (std::string line; std::getline(file, line);) out = static_cast<pid_t>(std::stol(line.substr(8)));
    return out;
  }
  pid_t tuner() const { return state_of(runner()).parent; }
  pid_t daemon() const { return static_cast<pid_t>(stats()["pid"].get<int64_t>()); }
  // Searches stand still behind the default's measurement, until go_on().
  void hold_still() {
    set("KILN_FAKE_RUNNER_HOLD", file_of("hold"));
    write_text(file_of("hold"), "");
  }
  void go_on() const { std::filesystem::remove(file_of("hold")); }
  // Until it is in the records; calibration is over by then.
  void wait_for_records() const {
    EXPECT_TRUE(eventually([&] {
      auto records = lines("kernels") > 0 ? Records::open(database()) : error(ErrorCode::kNotFound, "");
      return records && (*records)->export_lines(file_of("exported")).value() > 0;
    }));
  }
  // Never a process group, or all there are.
  static void kill_process(pid_t pid, int signal = SIGKILL) {
    ASSERT_GT(pid, 1);
    EXPECT_EQ(::kill(pid, signal), 0) << std::strerror(errno);
  }
};

TEST_F(OnlineProcesses, AKilledDaemonTakesTunerAndRunnerAlongAndTheRecordsStay) {
  hold_still();
  float got = 0;
  std::jthread waiting([&] { got = tuned(options(), 8); });
  wait_for_records();
  const pid_t old_daemon = daemon(), old_tuner = tuner(), old_runner = runner();
  EXPECT_GT(old_tuner, 1);
  kill_process(old_daemon);
  EXPECT_TRUE(eventually([&] { return !state_of(old_tuner).is_alive && !state_of(old_runner).is_alive; }));
  go_on();
  waiting.join();
  EXPECT_THAT(got, testing::AnyOf(100, 40));  // the default, or asked again of the next daemon
  EXPECT_GT(expect_ok(expect_ok(Records::open(database()))->export_lines(file_of("exported"))), 0u);
  EXPECT_EQ(tuned(options(), 8), 40);
  EXPECT_NE(daemon(), old_daemon);
}

// Who waited asks once more. A crash leaves a report that names what was tuned.
TEST_F(OnlineProcesses, AKilledTunerIsStartedAgainForWhoWaits) {
  hold_still();
  {
    Client client(options());
    auto function = get(client, Mode::kMax);
    ASSERT_TRUE(function.ok()) << function.error().message;
    float got = 0;
    std::jthread waiting([&] { got = launched(*function, 8); });
    wait_for_records();
    const pid_t old_daemon = daemon(), old_tuner = tuner(), old_runner = runner();
    kill_process(old_tuner, SIGSEGV);
    go_on();
    waiting.join();
    EXPECT_EQ(got, 40);
    std::ifstream file(options().connect.runtime_dir + "/kiln-tune.crash");
    const std::string report((std::istreambuf_iterator<char>(file)), {});
    EXPECT_THAT(report, HasSubstr("kiln-tune " KILN_VERSION ", build-id "));
    EXPECT_THAT(report, HasSubstr("in flight: tuning of "));
    EXPECT_THAT(report, HasSubstr(", trace id "));
    EXPECT_TRUE(eventually([&] { return !state_of(old_runner).is_alive; }));
    EXPECT_EQ(daemon(), old_daemon);
  }
  EXPECT_EQ(stats()["tuner_starts_total"], 2);
  EXPECT_EQ(stats()["tuner_deaths_total"], 1);
}

// The default, if it was that one's turn; then nothing else is chosen.
TEST_F(OnlineProcesses, AKilledRunnerCostsOneCandidateAtMost) {
  hold_still();
  float got = 0;
  std::jthread waiting([&] { got = tuned(options(), 8); });
  wait_for_records();
  const pid_t old_runner = runner();
  kill_process(old_runner);
  go_on();
  waiting.join();
  EXPECT_THAT(got, testing::AnyOf(40, 70, 100));
  EXPECT_NE(runner(), old_runner);
  EXPECT_EQ(stats()["tuner_deaths_total"], 0);
}

// A disk of a megabyte, full from the first measurement on.
TEST_F(OnlineProcesses, AFullDiskCostsTheTuningAndNoLaunch) {
  const std::string disk = file_of("data");
  std::filesystem::create_directories(disk);
  if (::mount("kiln", disk.c_str(), "tmpfs", 0, "size=1m") != 0) GTEST_SKIP() << "mounting is not allowed here";
  auto free_space = [&] { return std::filesystem::space(disk).available; };
  expect_ok(Records::open(database()));
  for (std::ofstream ballast(disk + "/ballast"); free_space() > 0 && ballast;) {
    ballast << std::string(4096, 'x') << std::flush;
  }
  {
    Client client(options());
    auto function = get(client, Mode::kMax);
    ASSERT_TRUE(function.ok()) << function.error().message;
    EXPECT_EQ(launched(*function, 8), 100);
    const auto said = prepared(*function, 8);
    ASSERT_FALSE(said.ok());
    EXPECT_THAT(said.error().message, HasSubstr(database()));
  }
  EXPECT_EQ(stats()["tuner_deaths_total"], 0);
  std::filesystem::remove(disk + "/ballast");
  EXPECT_EQ(tuned(options(), 8), 40);
  stop_daemon();
  EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
}

TEST_F(OnlineProcesses, ClientsOfOneKernelShareOneSearch) {
  EXPECT_EQ(tuned(options(), 8), 40);
  const size_t kernels = lines("kernels");  // with those of calibration
  std::vector<std::jthread> clients;
  for (int i = 0; i < 4; ++i) clients.emplace_back([&] { EXPECT_EQ(tuned(options(), 9), 40); });
  clients.clear();
  EXPECT_EQ(lines("kernels"), kernels + 1);
}

// Asks for a tuned config, and hangs up when the tuner works on it.
void ask_and_leave(const std::string& runtime_dir, const std::function<void()>& meanwhile) {
  wire::Channel channel(expect_ok(wire::connect_socket(runtime_dir)));
  const wire::Frame greeting = expect_ok(channel.read());
  const std::string target = expect_ok(wire::parse_welcome(greeting.json)).native_target;
  const std::string hello = wire::to_text(wire::Hello{.client_name = "leaves", .build_id = ""});
  expect_ok(channel.write({.type = wire::Type::kHello, .json = hello}));
  const dsl::Kernel kernel = says_how_long();
  const auto request =
      expect_ok(dsl::encode_request({kernel, target, expect_ok(dsl::complete_constexprs(kernel, {}, target)), {}}));
  const std::string header = wire::to_text(wire::TuneHeader{.scalars = {{"n", 8}}, .wait = true, .trace_id = {}});
  const auto size = static_cast<uint32_t>(request.canonical.size());
  expect_ok(channel.write({.type = wire::Type::kTune,
                           .request_id = 1,
                           .json = header,
                           .body = {std::as_bytes(std::span(&size, 1)), request.canonical, request.debug}}));
  meanwhile();
}

TEST_F(OnlineProcesses, AClientThatLeavesLeavesNothingBehindAndItsSearchGoesOn) {
  set("KILN_FAKE_RUNNER_LAUNCH", "2");
  (void)connect();
  for (int i = 0; i < 3; ++i) {
    ask_and_leave(options().connect.runtime_dir, [&] {
      EXPECT_TRUE(eventually([&] { return stats()["tune_requests_total"] == i + 1; }));
      if (i == 0) wait_for_records();
    });
    EXPECT_TRUE(eventually([&] { return stats()["tune_waiters"] == 0; }));
  }
  const size_t kernels = lines("kernels");
  EXPECT_EQ(tuned(options(), 8), 40);
  EXPECT_EQ(lines("kernels"), kernels) << "the search began once more";
  EXPECT_EQ(stats()["tuner_starts_total"], 1);
}

}  // namespace
}  // namespace kiln::autotune

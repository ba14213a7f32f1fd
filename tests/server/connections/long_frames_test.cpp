// Frames longer than frames may be, and those that have no end: each costs whoever makes it.
#include <unistd.h>

#include "kiln/dsl/binary.h"
#include "kiln/dsl/text.h"
#include "kiln/wire/json.h"
#include "service_fixture.h"

namespace kiln::service_test {
namespace {

#ifdef KILN_TEST_TUNER

// The real tuner, whose device nobody needs here.
class LongFrames : public ServiceTest {
 protected:
  void SetUp() override {
    ::setenv("KILN_TUNE_DB", (temp_ / "tune.sqlite").c_str(), 1);
    start({"--tuner", KILN_TEST_TUNER});
    peer_ = std::make_unique<RawPeer>(runtime());
    ASSERT_TRUE(peer_->read());
    peer_->hello();
  }
  void TearDown() override { ::unsetenv("KILN_TUNE_DB"); }

  Result<wire::Frame> tune(const std::string& json, const RequestBytes& request) {
    std::vector<std::byte> body(4);
    const auto size = static_cast<uint32_t>(request.canonical.size());
    std::memcpy(body.data(), &size, sizeof size);
    body.insert(body.end(), request.canonical.begin(), request.canonical.end());
    body.insert(body.end(), request.debug.begin(), request.debug.end());
    peer_->send({.type = wire::Type::kTune, .request_id = ++requests_, .json = json, .body = {body}});
    return peer_->read();
  }
  // The tuner's own words, of a request that is none.
  void expect_alive() {
    auto answer = tune(R"({"trace_id":"honest"})", {std::vector<std::byte>(4), {}});
    ASSERT_TRUE(answer) << answer.error().message;
    const Error said = wire::parse_error(answer->json);
    EXPECT_EQ(said.code, ErrorCode::kInvalidArgument) << said.message;
    EXPECT_EQ(stats()["tuner_deaths_total"], 0);
    EXPECT_EQ(stats()["tuner_starts_total"], 1);
  }

  std::unique_ptr<RawPeer> peer_;
  uint64_t requests_ = 0;
};

// A header of 64 KiB has room for no trace id, which the daemon adds.
TEST_F(LongFrames, AHeaderThatGrowsIsItsOwnRequestsError) {
  expect_alive();
  std::string json = R"({"fixed":[""]})";
  json.insert(json.size() - 3, wire::kMaxJsonSize - json.size(), 'a');
  for (int i = 0; i < 4; ++i) {
    auto answer = tune(json, order("bytes"));
    ASSERT_TRUE(answer) << answer.error().message;
    const Error said = wire::parse_error(answer->json);
    EXPECT_EQ(said.code, ErrorCode::kInvalidArgument);
    EXPECT_NE(said.message.find("over the limit of 65536"), std::string::npos) << said.message;
  }
  expect_alive();
}

// A kernel's config is as long as its author likes.
TEST_F(LongFrames, AnAnswerOfTheTunersThatIsTooLongIsAnError) {
  std::string text = "kernel k(%p: ptr<f32>, %n: i32) {\n";
  for (int i = 0; i < 2000; ++i) text += "  constexpr " + std::string(60, 'X') + std::to_string(i) + " = 2\n";
  text += "  array p = n\n  grid [n, 1, 1]\n  %0 = program_id {axis = 0} : i32\n}\n";
  auto kernel = dsl::parse(text, "k");
  ASSERT_TRUE(kernel) << kernel.error().message;
  dsl::CompileRequest request;
  request.kernel = *kernel;
  request.target = connect()->server().native_target;
  auto bytes = dsl::encode_request(request);
  ASSERT_TRUE(bytes) << bytes.error().message;
  auto answer = tune(R"({"wait":false,"scalars":{"n":16},"trace_id":"long"})", *bytes);
  ASSERT_TRUE(answer) << answer.error().message;
  ASSERT_EQ(answer->type(), wire::Type::kError) << answer->json.substr(0, 200);
  const Error said = wire::parse_error(answer->json);
  EXPECT_NE(said.message.find("an answer has room for 65536"), std::string::npos) << said.message;
  expect_alive();
}

#endif

using EndlessFrames = ServiceTest;

// A worker's words have no body, and an idle worker has nothing to say at all: neither is read to its end.
TEST_F(EndlessFrames, AWorkerThatAnnouncesABodyWhereNoneBelongsIsEnded) {
  start({"--workers", "1"});
  auto daemon = connect();
  auto phase = daemon->compile(order("long_phase"), {.deadline_ms = 60'000});
  ASSERT_FALSE(phase);
  EXPECT_EQ(phase.error().code, ErrorCode::kWorkerCrashed) << phase.error().message;
  EXPECT_NE(phase.error().message.find("over the limit of 0"), std::string::npos) << phase.error().message;
  ASSERT_TRUE(daemon->compile(order("long_afterwards")));
  // At once, and not when it has sent too little of that body for 30 s.
  EXPECT_TRUE(eventually([&] { return stats()["workers"] == 0; }, 20s));
  EXPECT_TRUE(daemon->compile(order("bytes")));
}

}  // namespace
}  // namespace kiln::service_test

// A daemon that answers with other things than it should: each command says so and ends, and none is ended by it.
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <chrono>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli_helpers.h"
#include "kiln/wire/channel.h"
#include "kiln/wire/entry.h"
#include "kiln/wire/json.h"
#include "kiln/wire/messages.h"
#include "kiln/wire/paths.h"
#include "sampled.h"

namespace kiln::cli::testing {
namespace {

using nlohmann::json;
using std::chrono_literals::operator""ms;

// What it says to each request, and as what.
struct Answers {
  std::string welcome;
  std::function<void(wire::Channel&, const wire::Frame&)> to;
};

// Listens where a command looks for the daemon, and serves one connection after the other.
class FakeDaemon {
 public:
  FakeDaemon(const std::string& runtime_dir, Answers answers) : answers_(std::move(answers)) {
    ::mkdir(runtime_dir.c_str(), 0700);
    path_ = runtime_dir + "/" + wire::kSocketName;
    ::unlink(path_.c_str());
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path_.copy(address.sun_path, sizeof address.sun_path - 1);
    listener_ = wire::UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listener_.get(), 16), 0);
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
  ~FakeDaemon() {
    thread_.request_stop();
    ::shutdown(listener_.get(), SHUT_RDWR);
    thread_.join();
    ::unlink(path_.c_str());
  }

 private:
  void serve(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      wire::UniqueFd peer(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (!peer) return;
      wire::Channel channel(std::move(peer));
      (void)channel.write({.type = wire::Type::kWelcome, .json = answers_.welcome});
      while (auto frame = channel.read()) {
        if (frame->type() != wire::Type::kHello) answers_.to(channel, *frame);
      }
    }
  }

  Answers answers_;
  std::string path_;
  wire::UniqueFd listener_;
  std::jthread thread_;
};

std::string welcome() {
  wire::Welcome out;
  out.builder_id = "a builder";
  out.native_target = "cpu:x86-64-v3";
  out.pid = 1;
  return wire::to_text(out);
}

void reply(wire::Channel& to, const wire::Frame& request, wire::Type type, const std::string& header,
           std::span<const std::byte> body = {}) {
  (void)to.write(
      {.type = type, .request_id = request.id(), .json = header, .body = {body}, .flags = wire::flag::kLast});
}

class HostileAnswers : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    kilnd_ = KILND_EXECUTABLE;
    write("axpy.kiln", kAxpy);
    write_floats("x.npy", std::vector<float>(8, 1));
  }
  FakeDaemon daemon(Answers answers) const { return {path("run"), std::move(answers)}; }

  // It may take what it does not look at; else it says in words what is wrong.
  void expect_an_end(const std::vector<std::string>& words, const std::string& answer) const {
    const Outcome outcome = kiln(words);
    EXPECT_TRUE(outcome.code == 0 || outcome.code == 1)
        << words[0] << " " << answer << " ended with " << outcome.code << "\n"
        << outcome.errors;
    if (outcome.code == 1) {
      EXPECT_TRUE(outcome.errors.starts_with("kiln: ")) << words[0] << " " << answer << "\n" << outcome.errors;
    }
  }

  const std::vector<std::vector<std::string>> commands_ = {
      {"ping"},
      {"stats"},
      {"stats", "--json"},
      {"stats", "--prometheus"},
      {"stats", "--poison"},
      {"stats", "--clear-poison"},
      {"trace"},
      {"top", "--count", "1"},
      {"stop"},
      {"compile", "axpy.kiln", "-o", "axpy.so"},
      {"compile", "axpy.kiln", "--emit", "asm"},
      {"compile", "axpy.kiln", "-o", "axpy.a"},
      {"run", "axpy.kiln", "x=@x.npy", "y=@x.npy", "z=@z.npy:f32[8]", "n=8", "a=0.5"},
      {"explain", "axpy.kiln", "--dir", "."},
      {"export", "bundle", "--dir", "."},
      {"import", "axpy.kiln", "--trust"},
  };
};

// Every command × every kind of frame.
TEST_F(HostileAnswers, NoFrameEndsACommand) {
  struct Kind {
    wire::Type type;
    std::string header, body;
  };
  const std::vector<Kind> kinds = {
      {wire::Type::kResult, "{}", ""},
      {wire::Type::kResult, "{}", "5"},
      {wire::Type::kResult, "{}", "[]"},
      {wire::Type::kResult, "{}", "{"},
      {wire::Type::kResult, "{}", "{\"a\":1,\"a\":2}"},
      {wire::Type::kResult, "{}", "{\"a\":\"\xff\"}"},
      {wire::Type::kResult, "{}", "{\"a\":" + std::string(10'000, '[') + std::string(10'000, ']') + "}"},
      {wire::Type::kResult, "[5]", "{}"},
      {wire::Type::kResult, "{\"served_from\":5,\"size\":\"x\",\"durable\":7}", "KILN"},
      {wire::Type::kError, "{\"code\":5,\"message\":{},\"retryable\":\"x\",\"trace_id\":[]}", ""},
      {wire::Type::kError, "nonsense", ""},
      {wire::Type::kError, "", ""},
      {wire::Type::kTuned, "{\"config\":[]}", ""},
      {wire::Type::kWelcome, "{}", ""},
      {static_cast<wire::Type>(4000), "{}", "{}"},
  };
  for (const Kind& kind : kinds) {
    auto running = daemon({welcome(), [&](wire::Channel& to, const wire::Frame& request) {
                             reply(to, request, kind.type, kind.header, std::as_bytes(std::span(kind.body)));
                             if (request.type() == wire::Type::kShutdown) to.release().reset();
                           }});
    for (const auto& words : commands_) expect_an_end(words, kind.header.substr(0, 40) + " " + kind.body.substr(0, 40));
  }
}

TEST_F(HostileAnswers, NoGreetingEndsACommand) {
  for (const char* greeting : {"[]", "5", "{", "{\"builder_id\":5}", "{\"pid\":\"x\"}", "{\"pid\":-1}",
                               "{\"native_target\":[]}", "{\"min_version\":{}}", "{\"worker_path\":true}"}) {
    auto running = daemon({greeting, [](wire::Channel&, const wire::Frame&) {}});
    for (const auto& words : commands_) {
      const Outcome outcome = kiln(words);
      EXPECT_EQ(outcome.code, 1) << words[0] << " " << greeting;
      EXPECT_TRUE(outcome.errors.starts_with("kiln: ")) << words[0] << " " << greeting << "\n" << outcome.errors;
    }
  }
}

// Every figure that a command shows, of every other type: named where that is not what it must be.
TEST_F(HostileAnswers, FiguresOfOtherTypesAreNamed) {
  const std::map<std::string, std::vector<std::string>> by_command = {
      {"--poison",
       {R"({"poison":5})", R"({"poison":{}})", R"({"poison":"x"})", R"({"poison":[5]})", R"({"poison":[[]]})",
        R"({"poison":[{"key":5}]})", R"({"poison":[{"kills":"x"}]})", R"({"poison":[{"kills":-1}]})",
        R"({"poison":[{"cause":{}}]})", R"({"poison":[{"left_ms":[]}]})", R"({"poison":[{"left_ms":1.5}]})"}},
      {"top",
       {R"({"pid":"x"})", R"({"uptime_ms":[]})", R"({"rss_bytes":{}})", R"({"hits_total":5})",
        R"({"hits_total":{"memory":"x"}})", R"({"queue_depth":[]})", R"({"queue_depth":{"background":true}})",
        R"({"job_list":5})", R"({"job_list":{}})", R"({"job_list":[5]})", R"({"job_list":[{"client":5}]})",
        R"({"job_list":[{"key":[]}]})", R"({"job_list":[{"ms":"x"}]})", R"({"worker_list":"x"})",
        R"({"worker_list":[null]})", R"({"worker_list":[{"state":5}]})", R"({"worker_list":[{"pid":{}}]})"}}};
  for (const auto& [command, answers] : by_command) {
    for (const std::string& answer : answers) {
      auto running = daemon({welcome(), [&](wire::Channel& to, const wire::Frame& request) {
                               reply(to, request, wire::Type::kResult, "{}", std::as_bytes(std::span(answer)));
                             }});
      const Outcome outcome = command == "top" ? kiln({"top", "--count", "1"}) : kiln({"stats", command});
      EXPECT_EQ(outcome.code, 1) << command << " " << answer << "\n" << outcome.output;
      EXPECT_NE(outcome.errors.find("kiln: the daemon's answer is of no form that is known here: JSON: field '"),
                std::string::npos)
          << command << " " << answer << "\n"
          << outcome.errors;
      for (const char* other : {"stats", "trace"}) expect_an_end({other}, answer);
    }
  }
  // And as they should be.
  const std::string right = R"({"poison":[{"key":"k","kills":2,"cause":"SIGSEGV","left_ms":5000}]})";
  auto running = daemon({welcome(), [&](wire::Channel& to, const wire::Frame& request) {
                           reply(to, request, wire::Type::kResult, "{}", std::as_bytes(std::span(right)));
                         }});
  EXPECT_EQ(kiln({"stats", "--poison"}).output, "k  killed 2 workers, last: SIGSEGV; refused for 5 s more\n");
}

// An entry with a sound checksum whose metadata are of other types, one field at a time.
TEST_F(HostileAnswers, MetadataOfOtherTypesAreNoSurprise) {
  ASSERT_EQ(kiln({"compile", "axpy.kiln", "-o", "axpy.so"}).code, 0);
  ASSERT_EQ(kiln({"stop"}).code, 0);
  json sound;
  std::vector<std::byte> code;
  for (const auto& file : std::filesystem::recursive_directory_iterator(path("cache") + "/v1")) {
    if (!file.is_regular_file() || file.file_size() < 1000) continue;
    std::ifstream in(file.path(), std::ios::binary);
    const std::string bytes{std::istreambuf_iterator<char>(in), {}};
    auto entry = wire::decode_entry(std::as_bytes(std::span(bytes)));
    if (!entry) continue;
    sound = json::parse(entry->metadata);
    code.assign(entry->code.begin(), entry->code.end());
  }
  ASSERT_TRUE(sound.is_object() && sound.contains("entry")) << sound;
  const std::vector<json> values = {"x", json::array(), json::object(), true, nullptr, {{1, "x"}}, {{"x", 1}}};
  std::vector<std::string> fields = {"device", "plan", "checks", "prints", "facts", "needs"};
  for (const auto& [name, value] : sound.items()) fields.push_back(name);
  for (const std::string& field : fields) {
    for (const json& value : kiln::test::sampled(values, 3)) {
      json metadata = sound;
      metadata[field] = value;
      const std::string text = metadata.dump();
      auto running =
          daemon({welcome(), [&](wire::Channel& to, const wire::Frame& request) {
                    RequestKey key{};
                    if (request.body.size() == key.size()) std::memcpy(key.data(), request.body.data(), key.size());
                    auto entry = wire::encode_entry(
                        {.key = key, .builder_id = "a builder", .target_kind = "cpu", .metadata = text, .code = code});
                    reply(to, request, wire::Type::kResult, "{}", *entry);
                  }});
      for (const auto& words : commands_) {
        if (words[0] == "compile" || words[0] == "run") expect_an_end(words, field + ": " + value.dump());
      }
    }
  }
}

}  // namespace
}  // namespace kiln::cli::testing

// JSON headers: bounds, defaults, wrong types, and errors that survive the trip.
#include "kiln/wire/messages.h"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <utility>

#include "kiln/wire/json.h"

namespace kiln::wire {
namespace {

TEST(Json, DepthIsBounded) {
  auto nested = [](int depth) { return "{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"; };
  EXPECT_TRUE(parse_object(nested(kMaxJsonDepth - 1)));
  EXPECT_FALSE(parse_object(nested(kMaxJsonDepth)));
  EXPECT_FALSE(parse_object(nested(100'000)));
  // Brackets in strings are no depth.
  EXPECT_TRUE(parse_object("{\"a\":\"" + std::string(100, '[') + "\\\"[[\"}"));
}

// However many members an array has, and however often the text says the same.
TEST(Json, ValuesAreBounded) {
  auto many = [](size_t count) {
    std::string out = R"({"a":[{})";
    for (size_t i = 1; i < count; ++i) out += ",{}";
    return out + "]}";
  };
  auto parsed = parse_object(many(200'000));
  ASSERT_TRUE(parsed) << parsed.error().message;
  EXPECT_EQ((*parsed)["a"].size(), 200'000u);
  auto refused = parse_object(many(300'000));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "JSON: more than 262144 values");
}

// What is built while it is looked at is what the library's parser would build.
TEST(Json, AllKindsOfValuesAreBuilt) {
  const std::string text = R"({"a":[1,-2,2.5,true,null,"x",[],{},[[{"b":{"c":[0]}}],1]],"":{"a":1},"d":"é\u00e9\n",)"
                           R"("e":18446744073709551615,"f":-9223372036854775808,"g":[{"a":1},{"a":2}]})";
  auto object = parse_object(text);
  ASSERT_TRUE(object) << object.error().message;
  EXPECT_EQ(*object, nlohmann::json::parse(text));
  for (const char* twice : {R"({"a":1,"a":1})", R"({"b":[{"a":1,"c":{},"a":2}]})", R"({"a":{"a":1},"a":1})"}) {
    auto refused = parse_object(twice);
    ASSERT_FALSE(refused) << twice;
    EXPECT_EQ(refused.error().message, "JSON: field 'a' is there twice");
  }
}

// An error travels whatever it says.
TEST(Messages, AnErrorsTextFitsAFrame) {
  const Error small = error(ErrorCode::kInternal, "small");
  EXPECT_EQ(parse_error(to_text(small)).message, "small");
  for (const char c : {'x', '\x01', '\xff', '"'}) {
    Error large = error(ErrorCode::kInternal, std::string(1 << 20, c));
    large.trace_id = std::string(1 << 20, c);
    const std::string text = to_text(large);
    EXPECT_LE(text.size(), kMaxJsonSize) << c;
    EXPECT_EQ(parse_error(text).code, ErrorCode::kInternal);
  }
}

TEST(Json, NotAnObject) {
  EXPECT_TRUE(parse_object(""));
  for (const char* text : {"[]", "1", "null", "{", "{\"a\":}", "{\"a\":\"\xff\"}", "{\"a\":1e999}", "{} {}", "\"x\""}) {
    EXPECT_FALSE(parse_object(text)) << text;
  }
}

TEST(Json, DumpNeverThrows) {
  EXPECT_NE(dump({{"path", "\xff\xfe"}}).find("path"), std::string::npos);
  EXPECT_EQ(dump_ascii({{"path", "\xff"}}), R"({"path":"\ufffd"})");
}

TEST(Json, FieldsRememberTheFirstWrongType) {
  auto object = parse_object(R"({"a":"text","b":-1,"c":2.5,"d":true,"e":null,"f":7})");
  ASSERT_TRUE(object);
  Fields good(*object);
  EXPECT_EQ(good.text("a"), "text");
  EXPECT_EQ(good.number("f"), 7u);
  EXPECT_TRUE(good.boolean("d"));
  EXPECT_EQ(good.text("e", "default"), "default");
  EXPECT_EQ(good.number("missing", 3), 3u);
  EXPECT_TRUE(good.ok());
  for (const char* name : {"a", "b", "c", "d"}) {
    Fields bad(*object);
    bad.number(name);
    ASSERT_FALSE(bad.ok()) << name;
    EXPECT_EQ(bad.error().code, ErrorCode::kInvalidArgument);
  }
  Fields limited(*object);
  limited.number("f", 0, 6);
  EXPECT_FALSE(limited.ok());
  Fields several(*object);
  several.number("b");
  several.text("c");
  ASSERT_FALSE(several.ok());
  EXPECT_NE(several.error().message.find("'b'"), std::string::npos) << several.error().message;
}

// Each kind of field says what it is not, and gives what it gives where there is none.
TEST(Json, FieldsOfWrongTypesAreRefused) {
  auto object = parse_object(R"({"a":"text","f":7,"list":[{},1],"mixed":["x",{}]})");
  ASSERT_TRUE(object);
  const std::pair<const char*, std::function<bool(Fields&)>> wrong[] = {
      {"'f' is not a string", [](Fields& in) { return in.text("f", "default") == "default"; }},
      {"'f' is not a boolean", [](Fields& in) { return in.boolean("f", true); }},
      {"'a' is not a number", [](Fields& in) { return in.real("a", 1.5) == 1.5; }},
      {"'a' is not a natural number in range", [](Fields& in) { return in.number("a", 3) == 3; }},
      {"'list' is not an object", [](Fields& in) { return in.object("list").empty(); }},
      {"'list' is not a list of objects", [](Fields& in) { return in.objects("list").empty(); }},
      {"'mixed' is not a list of strings", [](Fields& in) { return in.texts("mixed").empty(); }},
      {"'a' is not a list of strings", [](Fields& in) { return in.texts("a").empty(); }},
  };
  for (const auto& [why, gives_the_fallback] : wrong) {
    Fields in(*object);
    EXPECT_TRUE(gives_the_fallback(in)) << why;
    ASSERT_FALSE(in.ok()) << why;
    EXPECT_EQ(in.error().message, "JSON: field " + std::string(why));
  }
}

TEST(Messages, WelcomeRoundTrip) {
  Welcome welcome;
  welcome.builder_id = "b";
  welcome.native_target = "cpu:x";
  welcome.pid = 42;
  welcome.daemon_path = "/usr/bin/kilnd";
  welcome.worker_build_id = "abcd";
  auto parsed = parse_welcome(to_text(welcome));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->builder_id, "b");
  EXPECT_EQ(parsed->native_target, "cpu:x");
  EXPECT_EQ(parsed->pid, 42);
  EXPECT_EQ(parsed->daemon_path, "/usr/bin/kilnd");
  EXPECT_EQ(parsed->worker_build_id, "abcd");
  EXPECT_EQ(parsed->max_version, kVersion);
}

TEST(Messages, TuneAndTunedRoundTrip) {
  const TuneHeader header{
      .scalars = {{"M", 4096}, {"N", -1}, {"scale", 0.5}, {"one", 1.0}, {"big", UINT64_MAX}, {"on", true}},
      .fixed = {"D"},
      .wait = true,
      .budget_ms = 7,
      .device = 3,
      .trace_id = "t"};
  auto read = parse_tune_header(to_text(header));
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->scalars, header.scalars);
  EXPECT_EQ(read->fixed, header.fixed);
  EXPECT_TRUE(read->wait);
  EXPECT_FALSE(read->behind);
  EXPECT_EQ(read->budget_ms, 7u);
  EXPECT_EQ(read->device, 3u);
  EXPECT_FALSE(parse_tune_header(R"({"device": 64})").ok());
  EXPECT_EQ(read->trace_id, "t");
  auto tuned = parse_tuned(to_text(Tuned{{{"BM", 64}}, "tuned", false, 1.5, 2}));
  ASSERT_TRUE(tuned.ok()) << tuned.error().message;
  EXPECT_EQ(tuned->config, (std::map<std::string, int64_t>{{"BM", 64}}));
  EXPECT_EQ(tuned->source, "tuned");
  EXPECT_FALSE(tuned->final);
  EXPECT_EQ(tuned->median_us, 1.5);
  EXPECT_EQ(tuned->default_us, 2);
}

TEST(Messages, TuneNamesWhatIsWrong) {
  EXPECT_EQ(parse_tune_header(R"({"scalars": 3})").error().message, "TUNE: 'scalars' is not an object");
  EXPECT_EQ(parse_tune_header(R"({"scalars": {"M": "x"}})").error().message, "TUNE: 'M' is not a number");
  EXPECT_EQ(parse_tune_header(R"({"fixed": [3]})").error().message, "TUNE: 'fixed' has an entry that is no name");
  EXPECT_EQ(parse_tuned("{}").error().message, "TUNED: 'config' is not an object");
  EXPECT_EQ(parse_tuned(R"({"config": {"B": 1.5}})").error().message, "TUNED: 'B' is not an integer");
}

TEST(Messages, AQuestionForAChoiceKeepsWhatItSays) {
  const TuneHeader header{.scalars = {{"n", int64_t{5}}},
                          .trace_id = "t",
                          .choose = true,
                          .hardware = "NVIDIA H200",
                          .compiled = {{{"BM", 64}}, {{"BM", 128}, {"num_warps", 4}}},
                          .more = false};
  const auto back = parse_tune_header(to_text(header));
  ASSERT_TRUE(back.ok()) << back.error().message;
  EXPECT_TRUE(back->choose);
  EXPECT_EQ(back->hardware, "NVIDIA H200");
  EXPECT_EQ(back->compiled, header.compiled);
  EXPECT_FALSE(back->more);
  const auto plain = parse_tune_header("{}");
  EXPECT_FALSE(plain->choose);
  EXPECT_TRUE(plain->more);
  EXPECT_EQ(parse_tune_header(R"({"compiled": 3})").error().message, "TUNE: 'compiled' is not a list");
  EXPECT_EQ(parse_tune_header(R"({"compiled": [3]})").error().message, "TUNE: 'compiled' is not an object");
  EXPECT_EQ(parse_tune_header(R"({"compiled": [{"B": "x"}]})").error().message, "TUNE: 'B' is not an integer");
  const std::string longer(5000, 'x');
  EXPECT_EQ(parse_tune_header(R"({"hardware": ")" + longer + "\"}").error().message,
            "TUNE: 'hardware' is longer than 4096 bytes");
  const auto tuned = parse_tuned(to_text(Tuned{.config = {{"B", 1}}, .reasons = {"one", "two"}}));
  ASSERT_TRUE(tuned.ok());
  EXPECT_EQ(tuned->reasons, (std::vector<std::string>{"one", "two"}));
  EXPECT_EQ(parse_tuned(R"({"config": {}, "reasons": [1]})").error().message,
            "TUNED: 'reasons' has an entry that is no text");
}

TEST(Messages, HelloAndCompileRoundTrip) {
  auto hello = parse_hello(to_text(Hello{kVersion, "me", "id", true}));
  ASSERT_TRUE(hello);
  EXPECT_TRUE(hello->replace);
  EXPECT_EQ(hello->client_name, "me");
  EXPECT_FALSE(parse_hello(R"({"want":"everything"})"));
  auto compile = parse_compile_header(to_text(CompileHeader{250, Priority::kBackground, "t", true}));
  ASSERT_TRUE(compile);
  EXPECT_EQ(compile->deadline_ms, 250u);
  EXPECT_EQ(compile->priority, Priority::kBackground);
  EXPECT_EQ(compile->trace_id, "t");
  EXPECT_TRUE(compile->durable);
  auto defaults = parse_compile_header(R"({"unknown":[1,2]})");
  ASSERT_TRUE(defaults);
  EXPECT_EQ(defaults->priority, Priority::kInteractive);
  EXPECT_FALSE(defaults->durable);
  EXPECT_FALSE(parse_compile_header(R"({"priority":"urgent"})"));
  EXPECT_FALSE(parse_compile_header(R"({"deadline_ms":"soon"})"));
  EXPECT_FALSE(parse_compile_header("{\"trace_id\":\"" + std::string(129, 't') + "\"}"));
}

TEST(Messages, CompileBody) {
  std::string body("\x02\0\0\0ABdebug", 11);
  auto parts = split_compile_body(std::as_bytes(std::span(body)));
  ASSERT_TRUE(parts);
  EXPECT_EQ(parts->canonical.size(), 2u);
  EXPECT_EQ(parts->debug.size(), 5u);
  body[0] = 8;
  EXPECT_FALSE(split_compile_body(std::as_bytes(std::span(body))));
  EXPECT_FALSE(split_compile_body(std::as_bytes(std::span(body)).first(3)));
}

TEST(Messages, EveryErrorCodeSurvives) {
  for (int code = 0; code <= static_cast<int>(ErrorCode::kInternal); ++code) {
    Error failure{static_cast<ErrorCode>(code), "why \xc3\xa4", true, 12, "t"};
    Error back = parse_error(to_text(failure));
    EXPECT_EQ(back.code, failure.code);
    EXPECT_EQ(back.message, failure.message);
    EXPECT_TRUE(back.retryable);
    EXPECT_EQ(back.retry_after_ms, 12u);
    EXPECT_EQ(back.trace_id, "t");
  }
  EXPECT_EQ(parse_error("not JSON").code, ErrorCode::kInternal);
}

}  // namespace
}  // namespace kiln::wire

// `kiln profile`, and what KILN_PROFILE asks of any program: here of `kiln run`.
#include <gmock/gmock.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;

class ProfileCommand : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    write("axpy.kiln", kAxpy);
    write_floats("x.npy", {1, 2, 3, 4});
  }
  // `kiln profile WORDS… -- kiln run …`, with three launches.
  Outcome profiled(std::vector<std::string> words) {
    words.insert(words.begin(), "profile");
    for (const char* word : {"--", KILN_EXECUTABLE, "run", "axpy.kiln", "--target", "interp", "--repeat", "2",
                             "x=@x.npy", "y=@x.npy", "z=@x.npy>@z.npy", "n=4", "a=2"}) {
      words.emplace_back(word);
    }
    return kiln(words);
  }
  json trace_of(const std::string& name) { return json::parse(read(name)); }
};

TEST_F(ProfileCommand, PrintsATableAndWritesATrace) {
  const Outcome outcome = profiled({"--trace", "t.json"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(read_floats("z.npy"), (std::vector<float>{3, 6, 9, 12}));
  EXPECT_THAT(outcome.errors, HasSubstr(" launch interp axpy\n"));
  EXPECT_THAT(outcome.errors, HasSubstr(" get axpy\n"));
  std::map<std::string, int> events;
  const json trace = trace_of("t.json");
  for (const json& event : trace.at("traceEvents")) {
    if (event.at("ph") == "X") ++events[event.at("cat").get<std::string>() + " " + event.at("name").get<std::string>()];
  }
  EXPECT_EQ(events["get axpy"], 1);
  EXPECT_GE(events["launch axpy"], 3);
}

TEST_F(ProfileCommand, PrintsNothingWhereNobodyAsks) {
  const Outcome outcome = profiled({"--trace", "t.json", "--no-summary"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  EXPECT_FALSE(trace_of("t.json").at("traceEvents").empty());
}

// The program runs, whatever becomes of its profile.
TEST_F(ProfileCommand, SaysWhatItCannotWrite) {
  const Outcome outcome = profiled({"--trace", "nowhere/t.json", "--no-summary"});
  EXPECT_EQ(outcome.code, 0);
  EXPECT_THAT(outcome.errors, HasSubstr("kiln: KILN_PROFILE: "));
  EXPECT_THAT(outcome.errors, HasSubstr("/nowhere/t.json: cannot be written: No such file or directory"));
}

TEST_F(ProfileCommand, EndsAsTheProgramDoes) { EXPECT_EQ(kiln({"profile", "--", "sh", "-c", "exit 7"}).code, 7); }

TEST_F(ProfileCommand, RefusesWhatShowsNothing) {
  EXPECT_THAT(kiln({"profile"}).errors, HasSubstr("program is required"));
  EXPECT_THAT(kiln({"profile", "--no-summary", "--", "true"}).errors, HasSubstr("nothing would be shown"));
  EXPECT_THAT(kiln({"profile", "--trace", "a,b", "--", "true"}).errors, HasSubstr("without a comma"));
  EXPECT_THAT(kiln({"profile", "--", "no-such-program"}).errors, HasSubstr("no-such-program cannot be started"));
}

TEST_F(ProfileCommand, WordsOfTheEnvironmentThatAreNoneAreSaid) {
  for (const auto& [words, part] : std::map<std::string, std::string>{
           {"sumary", "KILN_PROFILE: `sumary` is no part of it; there are `summary`, `trace=FILE` and `device`"},
           {"trace=", "KILN_PROFILE: `trace=` is no part of it"},
           {"device", "KILN_PROFILE: neither `summary` nor `trace=FILE`"}}) {
    const Outcome outcome = kiln({"profile", "--", "env", "KILN_PROFILE=" + words, KILN_EXECUTABLE, "run", "axpy.kiln",
                                  "--target", "interp", "x=@x.npy", "y=@x.npy", "z=@x.npy>@z.npy", "n=4", "a=2"});
    EXPECT_EQ(outcome.code, 0) << words;
    EXPECT_THAT(outcome.errors, HasSubstr(part));
    EXPECT_THAT(outcome.errors, Not(HasSubstr("launch interp"))) << words;
  }
}

}  // namespace
}  // namespace kiln::cli::testing

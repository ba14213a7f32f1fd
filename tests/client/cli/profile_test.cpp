// `kiln profile`, and what KILN_PROFILE asks of any program: here of `kiln run`.
#include <fcntl.h>
#include <gmock/gmock.h>

#include <csignal>
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

// Of the interpreter there is none, and so no column; Profiles.SayHowNearToTheRoofLaunchesCome has the others.
TEST_F(ProfileCommand, LooksForRoofsWhereAsked) {
  const Outcome outcome = profiled({"--roofline"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_THAT(outcome.errors, HasSubstr(" bytes  what\n"));
  EXPECT_THAT(outcome.errors, HasSubstr(" launch interp axpy\n"));
  EXPECT_THAT(profiled({"--roofline", "--no-summary"}).errors, HasSubstr("--roofline is of the summary"));
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
           {"sumary",
            "KILN_PROFILE: `sumary` is no part of it; there are `summary`, `roofline`, `trace=FILE` and `device`"},
           {"trace=", "KILN_PROFILE: `trace=` is no part of it"},
           {"device", "KILN_PROFILE: neither `summary` nor `trace=FILE`"}}) {
    const Outcome outcome = kiln({"profile", "--", "env", "KILN_PROFILE=" + words, KILN_EXECUTABLE, "run", "axpy.kiln",
                                  "--target", "interp", "x=@x.npy", "y=@x.npy", "z=@x.npy>@z.npy", "n=4", "a=2"});
    EXPECT_EQ(outcome.code, 0) << words;
    EXPECT_THAT(outcome.errors, HasSubstr(part));
    EXPECT_THAT(outcome.errors, Not(HasSubstr("launch interp"))) << words;
  }
}

// A program that runs while the test talks to it: its input is written, its standard error read.
class Running {
 public:
  explicit Running(std::vector<std::string> words, const std::map<std::string, std::string>& environment = {}) {
    int in[2], err[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(err, O_CLOEXEC) != 0) std::abort();
    pid_ = ::fork();
    if (pid_ == 0) {
      ::dup2(in[0], STDIN_FILENO);
      ::dup2(err[1], STDERR_FILENO);
      for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
      ::alarm(100);  // it waits for the test, and the test for it
      std::vector<char*> argv;
      for (std::string& word : words) argv.push_back(word.data());
      argv.push_back(nullptr);
      ::execv(argv[0], argv.data());
      ::_exit(127);
    }
    input_ = in[1];
    errors_ = err[0];
    ::close(in[0]);
    ::close(err[1]);
  }
  ~Running() {
    ::close(input_);
    ::close(errors_);
  }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

  // What it has written until `text` was there, or until it ended.
  std::string errors_until(const std::string& text) {
    std::string out;
    for (char c = 0; out.find(text) == std::string::npos && ::read(errors_, &c, 1) == 1;) out += c;
    return out;
  }
  void show() const { ::kill(pid_, SIGUSR2); }
  void go_on() const { EXPECT_EQ(::write(input_, "\n", 1), 1); }
  int end() const {
    int status = -1;
    ::waitpid(pid_, &status, 0);
    return status;
  }

 private:
  pid_t pid_ = -1;
  int input_ = -1, errors_ = -1;
};

constexpr const char* kEnd = "until the end";
const std::string kHead = "longest us    share        bytes  what\n";

// Each time all that has happened, and the program goes on.
TEST(ProfileSignal, ShowsTheTableSoFar) {
  Running program({KILN_EXECUTABLE, "profile", "--", PROFILE_PROGRAM, "plain"});
  program.errors_until("ready\n");
  for (int i = 0; i < 2; ++i) {
    program.show();
    EXPECT_THAT(program.errors_until(" compile one\n"), HasSubstr("kiln: 5 spans in "));
  }
  program.go_on();
  const std::string rest = program.errors_until(kEnd);
  EXPECT_THAT(rest, HasSubstr("kiln: 7 spans in "));
  EXPECT_THAT(rest, HasSubstr(kHead));
  EXPECT_EQ(program.end(), 0);
}

TEST(ProfileSignal, IsTheProgramsThatHasAHandler) {
  Running program({KILN_EXECUTABLE, "profile", "--", PROFILE_PROGRAM, "has_a_handler"});
  program.errors_until("ready\n");
  program.show();
  EXPECT_EQ(program.errors_until("\n"), "its own handler\n");
  program.go_on();
  EXPECT_THAT(program.errors_until(kEnd), HasSubstr("kiln: 7 spans in "));
  EXPECT_EQ(program.end(), 0);
}

// Also of `--no-summary` and of a program that nobody profiles.
TEST(ProfileSignal, EndsAProgramThatHasNoTable) {
  for (const char* how : {"--no-summary", ""}) {
    std::vector<std::string> words = {PROFILE_PROGRAM, "plain"};
    if (*how != 0) {
      words.insert(words.begin(), {KILN_EXECUTABLE, "profile", how, "--trace", "/dev/null", "--"});
    }
    Running program(words);
    program.errors_until("ready\n");
    program.show();
    EXPECT_EQ(program.errors_until(kEnd), "");
    EXPECT_EQ(program.end(), SIGUSR2) << how;
  }
}

TEST(ProfileSignal, EndsTheChildOfAFork) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the thread sanitizer holds signals back until the next call that waits";
#endif
  Running program({KILN_EXECUTABLE, "profile", "--", PROFILE_PROGRAM, "forks"});
  EXPECT_EQ(program.errors_until("ready\n"), "the child ended by the signal\nready\n");
  program.go_on();
  program.errors_until(kEnd);
  EXPECT_EQ(program.end(), 0);
}

TEST(ProfileSignal, SaysThatTheProgramHasStoppedItsProfile) {
  Running program({KILN_EXECUTABLE, "profile", "--", PROFILE_PROGRAM, "has_stopped"});
  program.errors_until("ready\n");
  program.show();
  EXPECT_EQ(program.errors_until("\n"), "kiln: profile::so_far(): no profile is on\n");
  program.go_on();
  EXPECT_EQ(program.errors_until(kEnd), "");
  EXPECT_EQ(program.end(), 0);
}

// Each span of the host is a range of the tool's.
std::string ranges_of(const std::string& tool) {
  const std::string pop = tool + " pop\n", launch = tool + " push launch one\n" + pop;
  return tool + " push get one\n" + tool + " push compile one\n" + pop + pop + tool + " push part\n" + launch + launch +
         launch + "ready\n" + launch + launch + pop;
}

std::string with_a_tool(const std::map<std::string, std::string>& environment) {
  Running program({PROFILE_PROGRAM, "has_a_scope"}, environment);
  program.go_on();
  const std::string out = program.errors_until(kEnd);
  EXPECT_EQ(program.end(), 0);
  return out;
}

TEST(ProfileRanges, AreGivenToAToolOfNvidias) {
  EXPECT_EQ(with_a_tool({{"NVTX_INJECTION64_PATH", FAKE_RANGE_TOOL}}), ranges_of("nvtx"));
}

class RoctxRanges : public CliTest {
 protected:
  // The stand-in by the name that AMD's library has.
  void install(const std::string& name) { std::filesystem::create_symlink(FAKE_RANGE_TOOL, path(name)); }
};

TEST_F(RoctxRanges, AreGivenToTheLibraryThatTheToolListensTo) {
  install("libroctx64.so.4");
  EXPECT_EQ(with_a_tool({{"HSA_TOOLS_LIB", "tool.so"}, {"LD_LIBRARY_PATH", path("")}}), ranges_of("roctx"));
  EXPECT_EQ(with_a_tool({{"ROCP_TOOL_LIBRARIES", "tool.so"}, {"LD_LIBRARY_PATH", path("")}}), "ready\n");
  install("librocprofiler-sdk-roctx.so.1");
  EXPECT_EQ(with_a_tool({{"ROCP_TOOL_LIBRARIES", "tool.so"}, {"LD_LIBRARY_PATH", path("")}}), ranges_of("roctx"));
  // Nobody watches.
  EXPECT_EQ(with_a_tool({{"LD_LIBRARY_PATH", path("")}}), "ready\n");
}

TEST(ProfileRanges, OfALibraryThatIsNoneAreNone) {
  EXPECT_EQ(with_a_tool({{"NVTX_INJECTION64_PATH", "/nonexistent.so"}}), "ready\n");
  EXPECT_EQ(with_a_tool({{"NVTX_INJECTION64_PATH", PROFILE_PROGRAM}}), "ready\n");
}

TEST(ProfileRanges, AndAProfileGoTogether) {
  const std::string out = with_a_tool({{"NVTX_INJECTION64_PATH", FAKE_RANGE_TOOL}, {"KILN_PROFILE", "summary"}});
  EXPECT_TRUE(out.starts_with(ranges_of("nvtx") + "kiln: 8 spans in ")) << out;
}

}  // namespace
}  // namespace kiln::cli::testing

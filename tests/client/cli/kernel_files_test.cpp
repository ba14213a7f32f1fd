// KILN_KERNEL_FILES: kernels as files with lines of source, for perf, gdb and their like. binutils and gdb read them
// here.
#include <gmock/gmock.h>

#include <array>
#include <regex>
#include <set>

#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;

std::string output_of(const std::string& command) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> pipe(::popen(command.c_str(), "r"), ::pclose);
  std::string out;
  std::array<char, 4096> part;
  while (const size_t size = std::fread(part.data(), 1, part.size(), pipe.get())) out.append(part.data(), size);
  return out;
}

// Of the table of lines in an object: those of a source.
std::set<int> lines_of(const std::string& object, const std::string& source) {
  const std::string table = output_of("objdump --dwarf=decodedline " + object);
  std::set<int> out;
  const std::regex row(source + "\\s+(\\d+)\\s+0x");
  for (std::sregex_iterator it(table.begin(), table.end(), row), end; it != end; ++it) out.insert(std::stoi((*it)[1]));
  return out;
}

int line_of(const std::string& text, const std::string& part) {
  return 1 +
         static_cast<int>(std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find(part)), '\n'));
}

class KernelFiles : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    kilnd_ = KILND_EXECUTABLE;
    ::setenv("KILN_KERNEL_FILES", path("kept").c_str(), 1);
    write("axpy.kiln", kAxpy);
    write_floats("x.npy", {1, 2, 3, 4});
  }
  void TearDown() override {
    ::unsetenv("KILN_KERNEL_FILES");
    (void)kiln({"stop"});
    CliTest::TearDown();
  }

  std::vector<std::string> run_axpy() const {
    return {"run", "axpy.kiln", "--target", "cpu", "x=@x.npy", "y=@x.npy", "z=@x.npy>@z.npy", "n=4", "a=2"};
  }
  Outcome debugged(const std::vector<std::string>& commands) const;
  // Their paths, by what the names end in.
  std::vector<std::string> kept(const std::string& suffix) const {
    std::vector<std::string> out;
    if (!exists("kept")) return out;
    for (const auto& file : std::filesystem::directory_iterator(path("kept"))) {
      if (file.path().string().ends_with(suffix)) out.push_back(file.path().string());
    }
    return out;
  }
};

TEST_F(KernelFiles, HaveTheNameAndTheLinesOfAKernel) {
  for (int i = 0; i < 2; ++i) {  // the second run has the same code, and so the same file
    const Outcome outcome = kiln(run_axpy());
    ASSERT_EQ(outcome.code, 0) << outcome.errors;
    EXPECT_EQ(outcome.errors, "");
    EXPECT_EQ(read_floats("z.npy"), (std::vector<float>{3, 6, 9, 12}));
  }
  const std::vector<std::string> objects = kept("");
  ASSERT_EQ(objects.size(), 1u);
  EXPECT_THAT(objects[0], ::testing::MatchesRegex(".*/kept/axpy-[0-9a-f]{12}\\.so"));
  EXPECT_THAT(output_of("nm -D " + objects[0]), HasSubstr(" T kiln_axpy\n"));
  const std::string text = kAxpy;
  EXPECT_THAT(lines_of(objects[0], "axpy\\.kiln"),
              IsSupersetOf({line_of(text, "%xv = load"), line_of(text, "%v = fma"), line_of(text, "store")}));
}

// A graph's kernels are nobody's source: their text is.
TEST_F(KernelFiles, HaveTheTextOfAGraphsKernels) {
  write("double.kg", "graph double(%x: f32[4]) {\n  %y = add %x, %x : f32[4]\n  output y = %y\n}\n");
  const Outcome outcome = kiln({"graph", "run", "double.kg", "--target", "cpu", "--input", "x=@x.npy"});
  ASSERT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "y: f32[4]\n[2, 4, 6, 8]\n");
  const std::vector<std::string> objects = kept(".so"), texts = kept(".kiln");
  ASSERT_EQ(objects.size(), 1u);
  ASSERT_EQ(texts.size(), 1u);
  const std::string name = std::filesystem::path(texts[0]).filename().string();
  const std::string text = read("kept/" + name);
  EXPECT_TRUE(text.starts_with("kernel ")) << text;
  EXPECT_TRUE(lines_of(objects[0], name).contains(line_of(text, " store "))) << text;
}

TEST_F(KernelFiles, AreNoneWhereNobodyAsks) {
  ::unsetenv("KILN_KERNEL_FILES");
  EXPECT_EQ(kiln(run_axpy()).code, 0);
  EXPECT_THAT(kept(""), IsEmpty());
}

TEST_F(KernelFiles, ThatCannotBeAreSaidAndDoneWithout) {
  ::setenv("KILN_KERNEL_FILES", "/proc/nowhere", 1);
  const Outcome outcome = kiln(run_axpy());
  EXPECT_EQ(outcome.code, 0);
  EXPECT_EQ(outcome.errors, "kiln: KILN_KERNEL_FILES: /proc/nowhere: No such file or directory\n");
  EXPECT_EQ(read_floats("z.npy"), (std::vector<float>{3, 6, 9, 12}));
}

// `kiln run` under gdb, with these commands.
Outcome KernelFiles::debugged(const std::vector<std::string>& commands) const {
  std::vector<std::string> words = {"profile", "--", "env", "-u", "KILN_PROFILE", "timeout", "120"};
  for (const char* word : {"gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off"}) words.emplace_back(word);
  for (const std::string& command : commands) words.insert(words.end(), {"-ex", command});
  words.insert(words.end(), {"--args", KILN_EXECUTABLE});
  for (const std::string& word : run_axpy()) words.push_back(word);
  return kiln(words);
}

std::string why_no_debugger() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return "sanitizers mind debuggers";
#endif
  if (output_of("command -v gdb").empty()) return "no gdb is installed";
  return output_of("gdb -nx -batch -ex run --args true 2>&1").find("exited normally") == std::string::npos
             ? "gdb may run nothing here"
             : "";
}

// It stops at a line, in the kernel by its name, and steps to others.
TEST_F(KernelFiles, AreWhatADebuggerStepsThrough) {
  if (const std::string why = why_no_debugger(); !why.empty()) GTEST_SKIP() << why;
  const std::string place = "axpy.kiln:" + std::to_string(line_of(kAxpy, "%v = fma"));
  const Outcome outcome = debugged({"set breakpoint pending on", "break " + place, "run", "info symbol $pc", "delete",
                                    "next", "info line", "continue"});
  EXPECT_THAT(outcome.output, HasSubstr("kiln_axpy () at " + place)) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr("kiln_axpy + "));
  EXPECT_THAT(outcome.output, ::testing::ContainsRegex("Line [0-9]+ of \"[^\"]*axpy.kiln\" starts at address"));
  EXPECT_THAT(outcome.output, HasSubstr("exited normally"));
}

// A debugger opens what the dynamic linker has, and must not open a pipe of its own for it.
TEST_F(KernelFiles, AreNotNeededToDebugAProgram) {
  if (const std::string why = why_no_debugger(); !why.empty()) GTEST_SKIP() << why;
  ::unsetenv("KILN_KERNEL_FILES");
  const Outcome outcome = debugged({"set breakpoint pending on", "break kiln_entry", "run", "delete", "continue"});
  EXPECT_THAT(outcome.output, HasSubstr("Breakpoint 1, 0x")) << outcome.errors;
  EXPECT_THAT(outcome.output, HasSubstr(" in kiln_entry ()"));
  EXPECT_THAT(outcome.output, HasSubstr("exited normally"));
}

}  // namespace
}  // namespace kiln::cli::testing

// `kiln graph run --target`, `explain` and `bench`, with a daemon.
#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

constexpr const char* kRows = R"(dim n: 1..64

graph rows(%x: f32[n], %a: f32[]) {
  %b = broadcast %a {shape = [n]} : f32[n]
  %y = mul %x, %b : f32[n]
  %s = reduce %y {kind = sum, axes = [0]} : f32[]
  output y = %y
  output s = %s
}
)";

class GraphCompiled : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    kilnd_ = KILND_EXECUTABLE;
    write("rows.kg", kRows);
    write_floats("x.npy", {1, 2.5, -3});
  }
  void TearDown() override {
    (void)kiln({"stop"});
    CliTest::TearDown();
  }
  Outcome run(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"graph", "run", "rows.kg", "--input", "x=@x.npy", "--input", "a=2"};
    words.insert(words.end(), more.begin(), more.end());
    return kiln(words);
  }
};

TEST_F(GraphCompiled, RunsAsTheEvaluatorDoes) {
  const Outcome evaluated = run({});
  EXPECT_EQ(evaluated.output, "y: f32[3]\n[2, 5, -6]\ns: f32[]\n1\n") << evaluated.errors;
  for (const std::vector<std::string>& target : std::vector<std::vector<std::string>>{
           {"--target", "cpu"}, {"--target", "cpu", "--no-fuse", "--threads", "1"}, {"--target", "interp"}}) {
    const Outcome compiled = run(target);
    EXPECT_EQ(compiled.code, 0) << compiled.errors;
    EXPECT_EQ(compiled.output, evaluated.output);
  }
  const Outcome to_file = run({"--target", "cpu", "--output", "y=@y.npy"});
  EXPECT_EQ(to_file.code, 0) << to_file.errors;
  EXPECT_EQ(read_floats("y.npy"), (std::vector<float>{2, 5, -6}));
}

TEST_F(GraphCompiled, RefusesWhatDoesNotFit) {
  Outcome outcome = run({"--target", "cpu", "--wide"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.errors.find("--wide: compiled graphs compute in the types that they have"), std::string::npos)
      << outcome.errors;
  outcome = run({"--target", "interp", "--memory", "1"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.errors.find("the limit is 1"), std::string::npos) << outcome.errors;
  write_floats("x.npy", std::vector<float>(65, 1));
  outcome = run({"--target", "interp"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.errors.find("n is 65 by axis 0 of input `x`; the graph is for 1 … 64"), std::string::npos)
      << outcome.errors;
  outcome = run({"--target", "abacus"});
  EXPECT_NE(outcome.code, 0);
  EXPECT_NE(outcome.errors.find("unknown target `abacus`"), std::string::npos) << outcome.errors;
}

TEST_F(GraphCompiled, ExplainsLaunchesAndBytes) {
  const Outcome formulas = kiln({"graph", "explain", "rows.kg"});
  EXPECT_EQ(formulas.code, 0) << formulas.errors;
  EXPECT_EQ(formulas.output.find("graph rows for cpu:"), 0u) << formulas.output;
  EXPECT_NE(formulas.output.find("rows.kg:"), std::string::npos) << formulas.output;
  EXPECT_NE(formulas.output.find("n"), std::string::npos);
  const Outcome numbers = kiln({"graph", "explain", "rows.kg", "--target", "interp", "--size", "n=16", "--no-fuse"});
  EXPECT_EQ(numbers.code, 0) << numbers.errors;
  EXPECT_EQ(numbers.output.find("*n"), std::string::npos) << numbers.output;
  EXPECT_NE(numbers.output.find(" bytes"), std::string::npos) << numbers.output;
  const Outcome wrong = kiln({"graph", "explain", "rows.kg", "--size", "m=16"});
  EXPECT_NE(wrong.code, 0);
  EXPECT_NE(wrong.errors.find("graph `rows` has no dim `m`"), std::string::npos) << wrong.errors;
}

TEST_F(GraphCompiled, BenchTimesRuns) {
  const Outcome outcome = kiln({"graph", "bench", "rows.kg", "--size", "n=64", "--repeat", "3"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output.find("rows: ready in "), 0u) << outcome.output;
  EXPECT_NE(outcome.output.find("of 3 runs of "), std::string::npos) << outcome.output;
  const Outcome without = kiln({"graph", "bench", "rows.kg"});
  EXPECT_NE(without.code, 0);
  EXPECT_NE(without.errors.find("input `x` is f32[n]: say the sizes of its dims by --size"), std::string::npos)
      << without.errors;
}

// Who lies in the arena when; a run that a limit refuses names the same.
TEST_F(GraphCompiled, DrawsTheArena) {
  write("chain.kg", R"(dim n: 1..64

graph chain(%x: f32[n]) {
  %a = exp %x : f32[n]
  %b = sin %a : f32[n]
  %y = cos %b : f32[n]
  output y = %y
}
)");
  const Outcome drawn = kiln({"graph", "memory", "chain.kg", "--target", "interp", "--no-fuse", "--size", "n=16"});
  EXPECT_EQ(drawn.code, 0) << drawn.errors;
  EXPECT_EQ(drawn.output.find("graph chain: arena of 128 bytes for 2 values; 64 bytes of results\n"
                              "most at launch 1, `sin` (chain.kg:5:3): 128 bytes live\n"
                              "  64 bytes of launch 0, `exp` (chain.kg:4:3)\n"
                              "  64 bytes of launch 1, `sin` (chain.kg:5:3)\n"),
            0u)
      << drawn.output;
  EXPECT_NE(drawn.output.find("  ##.  launch 0, `exp` (chain.kg:4:3)\n"), std::string::npos) << drawn.output;
  EXPECT_NE(drawn.output.find("  .##  launch 1, `sin` (chain.kg:5:3)\n"), std::string::npos) << drawn.output;
  const Outcome unknown = kiln({"graph", "memory", "chain.kg", "--target", "interp"});
  EXPECT_NE(unknown.code, 0);
  EXPECT_NE(unknown.errors.find("the sizes of its dims are not all given"), std::string::npos) << unknown.errors;
  const Outcome refused =
      kiln({"graph", "run", "chain.kg", "--input", "x=@x.npy", "--target", "interp", "--no-fuse", "--memory", "100"});
  EXPECT_NE(refused.code, 0);
  EXPECT_NE(refused.errors.find("the arena is fullest at launch 1, `sin` (chain.kg:5:3), by 12 bytes of launch 0, "
                                "`exp` (chain.kg:4:3); 12 bytes of launch 1, `sin` (chain.kg:5:3)"),
            std::string::npos)
      << refused.errors;
}

// %s is a launch of %w alone: bound, it is left out.
TEST_F(GraphCompiled, BindsInputs) {
  write("scan.kg", R"(graph g(%x: f32[3], %w: f32[3]) {
  %s = scan %w {kind = sum, axis = 0, reverse = 0, exclusive = 0} : f32[3]
  %y = mul %x, %s : f32[3]
  output y = %y
}
)");
  write_floats("w.npy", {1, 2, 3});
  const auto scan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"graph", "run", "scan.kg", "--input", "x=@x.npy", "--input", "w=@w.npy"};
    words.insert(words.end(), more.begin(), more.end());
    return kiln(words);
  };
  const Outcome evaluated = scan({});
  EXPECT_EQ(evaluated.output, "y: f32[3]\n[1, 7.5, -18]\n") << evaluated.errors;
  for (const char* names : {"w", "x", "x,w"}) {
    const Outcome outcome = scan({"--target", "interp", "--bind", names});
    EXPECT_EQ(outcome.output, evaluated.output) << names << outcome.errors;
  }
  const auto refused = [&](const std::vector<std::string>& more, const std::string& why) {
    const Outcome outcome = scan(more);
    EXPECT_NE(outcome.code, 0);
    EXPECT_NE(outcome.errors.find(why), std::string::npos) << outcome.errors;
  };
  refused({"--target", "interp", "--bind", "w,v"}, "--bind: the graph has no input `v`");
  refused({"--target", "interp", "--bind", "w", "--bind", "w"}, "--bind: `w` is given twice");
  refused({"--bind", "w"}, "--bind: inputs are bound of a compiled graph, by --target");
  const Outcome timed = kiln({"graph", "bench", "scan.kg", "--target", "interp", "--bind", "w", "--repeat", "1"});
  EXPECT_EQ(timed.code, 0) << timed.errors;
  EXPECT_NE(timed.output.find(" of 1 runs of 1 launches\nbound 1 of 2 inputs in "), std::string::npos) << timed.output;
  EXPECT_NE(timed.output.find(" ms: 1 launches ran once\n"), std::string::npos) << timed.output;
}

// Plans are entries of the cache as kernels are.
TEST_F(GraphCompiled, EntriesOfPlansAreExplainedAndReproduced) {
  ASSERT_EQ(run({"--target", "interp"}).code, 0);
  std::string key;
  for (int tries = 0; key.empty() && tries < 100; ++tries) {  // it is written behind the answer
    const std::string listed = kiln({"cache", "ls"}).output;
    if (const size_t at = listed.find("  rows  interp"); at != std::string::npos) key = listed.substr(at - 64, 64);
    if (key.empty()) ::usleep(50'000);
  }
  ASSERT_EQ(key.size(), 64u);
  const Outcome explained = kiln({"explain", key});
  EXPECT_EQ(explained.code, 0) << explained.errors;
  EXPECT_NE(explained.output.find("graph        rows, 3 nodes\ntarget       interp\n"), std::string::npos)
      << explained.output;
  const Outcome again = kiln({"reproduce", key, "-o", path("plan")});
  EXPECT_EQ(again.code, 0) << again.errors;
  EXPECT_NE((again.output + again.errors).find("the same "), std::string::npos) << again.output << again.errors;
}

// The page has both graphs; times only where they are asked for.
TEST_F(GraphCompiled, DrawShowsTheLaunches) {
  Outcome outcome = kiln({"graph", "draw", "rows.kg", "-o", "rows.html", "--target", "cpu", "--size", "n=50"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  const std::string page = read("rows.html");
  EXPECT_NE(page.find("%y = mul %x, %b"), std::string::npos);
  EXPECT_NE(page.find("class=\"launch\" data-node=\"l0\""), std::string::npos);
  EXPECT_NE(page.find("<span>404 B</span>"), std::string::npos) << page;
  EXPECT_NE(page.find("rows.kg:5:3"), std::string::npos);
  EXPECT_NE(page.find("const kernels = [\"kernel "), std::string::npos);
  outcome = kiln({"graph", "draw", "rows.kg", "-o", "timed.html", "--target", "cpu", "--size", "n=50", "--time"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_NE(read("timed.html").find("<span>404 B · "), std::string::npos);
  outcome = kiln({"graph", "draw", "rows.kg", "-o", "rows.dot", "--target", "cpu"});
  EXPECT_NE(outcome.errors.find("a .html file alone shows what a graph is compiled to"), std::string::npos);
  outcome = kiln({"graph", "draw", "rows.kg", "-o", "rows.html", "--time"});
  EXPECT_NE(outcome.errors.find("a --target is missing"), std::string::npos) << outcome.errors;
}

}  // namespace
}  // namespace kiln::cli::testing

// `kiln graph run`: .npy files in, by the evaluator, .npy files or text out.
#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

constexpr const char* kScale = R"(dim n: 1..8
dim k

graph scale(%x: f32[n], %a: f32[]) {
  %b = broadcast %a {shape = [n]} : f32[n]
  %y = mul %x, %b : f32[n]
  %i = iota {type = i32, shape = [n], axis = 0} : i32[n]
  output y = %y
  output i = %i
}
)";

class GraphRun : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    write("scale.kg", kScale);
    write_floats("x.npy", {1, 2.5, -3});
  }
};

TEST_F(GraphRun, PrintsOutputsWithoutAFile) {
  const Outcome outcome = kiln({"graph", "run", "scale.kg", "--input", "x=@x.npy", "--input", "a=0.1"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "y: f32[3]\n[0.1, 0.25, -0.3]\ni: i32[3]\n[0, 1, 2]\n");
}

TEST_F(GraphRun, WritesFiles) {
  const Outcome outcome =
      kiln({"graph", "run", "scale.kg", "--input", "x=@x.npy", "--input", "a=2", "--output", "y=@y.npy"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "i: i32[3]\n[0, 1, 2]\n");
  EXPECT_EQ(read_floats("y.npy"), (std::vector<float>{2, 5, -6}));
}

TEST_F(GraphRun, WideKeepsF64) {
  const Outcome outcome = kiln({"graph", "run", "scale.kg", "--input", "x=@x.npy", "--input", "a=0.1", "--wide"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output.substr(0, 44), "y: f64[3]\n[0.10000000149011612, 0.2500000037");
}

TEST_F(GraphRun, ShowsLargeArraysAndManyAxesAsNumPyDoes) {
  write("show.kg",
        "dim m\n\ngraph show() {\n  %a = iota {type = i64, shape = [2, 2, 1], axis = 1} : i64[2, 2, 1]\n"
        "  %b = iota {type = u8, shape = [m], axis = 0} : u8[m]\n"
        "  %c = full {type = i1, shape = [0, 2], value = 1} : i1[0, 2]\n"
        "  %d = full {type = bf16, shape = [], value = -0.0} : bf16[]\n"
        "  output a = %a\n  output b = %b\n  output c = %c\n  output d = %d\n}\n");
  const Outcome outcome = kiln({"graph", "run", "show.kg", "--size", "m=1001"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output,
            "a: i64[2, 2, 1]\n[[[0],\n  [1]],\n\n [[0],\n  [1]]]\nb: u8[1001]\n[0, 1, 2, …, 230, 231, 232]\n"
            "c: i1[0, 2]\n[]\nd: bf16[]\n-0\n");
}

TEST_F(GraphRun, BadInputIsNamed) {
  const std::vector<std::string> start = {"graph", "run", "scale.kg"};
  const auto expect = [&](const std::vector<std::string>& more, const std::string& text) {
    std::vector<std::string> words = start;
    words.insert(words.end(), more.begin(), more.end());
    expect_error(words, text);
  };
  expect({}, "graph `scale`: missing inputs: x (f32[n]), a (f32[])");
  expect({"--input", "x"}, "--input x: write NAME=VALUE");
  expect({"--input", "z=1"}, "--input z=1: the graph has no input `z`; it has x, a");
  expect({"--input", "x=1"}, "--input x=1: `x` is f32[n]; write x=@FILE.npy");
  expect({"--input", "a=one"}, "--input a=one: no number, and no @FILE.npy");
  expect({"--input", "a=1", "--input", "a=2"}, "--input a=2: `a` is given twice");
  expect({"--input", "x=@none.npy"}, "none.npy");
  const std::vector<std::string> all = {"--input", "x=@x.npy", "--input", "a=2"};
  const auto with_all = [&](std::vector<std::string> more, const std::string& text) {
    more.insert(more.begin(), all.begin(), all.end());
    expect(more, text);
  };
  with_all({"--size", "n=4"},
           "input `x` is f32[3]; the graph declares f32[n]: axis 0 is 3, not 4, where n is 4 by what was given");
  with_all({"--size", "m=4"}, "graph `scale` has no dim `m`");
  with_all({"--size", "n=four"}, "--size n=four: write NAME=NUMBER");
  with_all({"--output", "q=@q.npy"}, "--output q=@q.npy: the graph has no output `q`; it has y, i");
  with_all({"--output", "y=q.npy"}, "--output y=q.npy: write y=@FILE.npy");
  with_all({"--output", "y=@none/q.npy"}, "none/q.npy");
  with_all({"--memory", "10"}, "graph `scale` needs 72 bytes to be evaluated, the limit is 10");
  auto doubles = client::NpyArray::make({3}, dsl::ElementType::kF64);
  ASSERT_TRUE(doubles.ok());
  ASSERT_TRUE(client::write_npy(path("d.npy"), *doubles).ok());
  expect({"--input", "x=@d.npy"}, "d.npy holds '<f8', but input `x` is f32 ('<f4')");
  write("bad.kg", "graph g(%x: f32[n]) {\n  output y = %x\n}\n");
  expect_error({"graph", "run", "bad.kg"}, "bad.kg:1:");
  expect_error({"graph", "run", "none.kg"}, "none.kg");
  EXPECT_FALSE(exists("y.npy"));
}

TEST_F(GraphRun, AnIndexOutsideNamesTheLine) {
  write("take.kg",
        "graph take(%x: f32[3], %i: i64[]) {\n  %r = reshape %i {shape = [1]} : i64[1]\n"
        "  %y = gather %x, %r {axis = 0} : f32[1]\n  output y = %y\n}\n");
  expect_error({"graph", "run", "take.kg", "--input", "x=@x.npy", "--input", "i=3"},
               "take.kg:3:3: gather: index 3 at [0] is outside axis 0 of extent 3");
  EXPECT_EQ(kiln({"graph", "run", "take.kg", "--input", "x=@x.npy", "--input", "i=-1"}).output, "y: f32[1]\n[-3]\n");
  EXPECT_EQ(kiln({"graph", "run", "take.kg", "--input", "x=@x.npy", "--input", "i=9", "--no-index-checks"}).code, 0);
}

}  // namespace
}  // namespace kiln::cli::testing

// `kiln graph print`, `verify`, `hash`, `draw` and `cut`.
#include "cli_helpers.h"

namespace kiln::cli::testing {
namespace {

constexpr const char* kGraph = R"(dim n

graph g(%x: f32[n, 4]) {
  %y = softmax %x {axis = 1} : f32[n, 4]
  output y = %y
}
)";

class GraphFile : public CliTest {
 protected:
  void SetUp() override {
    CliTest::SetUp();
    write("g.kg", kGraph);
  }
};

TEST_F(GraphFile, PrintGivesTheUsualForm) {
  write("loose.kg", "dim n graph g(%x:f32[n,4]){%y=softmax %x{axis=1} output y=%y}");
  EXPECT_EQ(kiln({"graph", "print", "loose.kg"}).output, kGraph);
  const Outcome located = kiln({"graph", "print", "--locations", "g.kg"});
  EXPECT_NE(located.output.find("f32[n, 4]  // g.kg:4:3\n"), std::string::npos) << located.output;
}

TEST_F(GraphFile, VerifySaysSo) {
  const Outcome outcome = kiln({"graph", "verify", "g.kg"});
  EXPECT_EQ(outcome.code, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, "g.kg: graph `g` of 1 node is valid\n");
}

TEST_F(GraphFile, MistakesHaveTheirPlace) {
  write("bad.kg", "graph g(%x: f32[4]) {\n  %y = softmax %z {axis = 0}\n  output y = %y\n}\n");
  for (const char* command : {"print", "verify", "hash"}) {
    const Outcome outcome = kiln({"graph", command, "bad.kg"});
    EXPECT_EQ(outcome.code, 1);
    EXPECT_TRUE(outcome.errors.starts_with("kiln: bad.kg:2:16: error: `%z` is not defined above")) << outcome.errors;
  }
}

TEST_F(GraphFile, HashDoesNotDependOnNames) {
  write("other.kg", "dim m graph g(%x: f32[m,4]) { %other = softmax %x {axis=1} output y = %other }");
  write("same.kg", "dim n graph g(%x: f32[n,4]) { %other = softmax %x {axis=1} output y = %other }");
  const std::string hash = kiln({"graph", "hash", "g.kg"}).output;
  EXPECT_EQ(hash.size(), 65u);
  EXPECT_EQ(kiln({"graph", "hash", "same.kg"}).output, hash);
  EXPECT_NE(kiln({"graph", "hash", "other.kg"}).output, hash);
}

TEST_F(GraphFile, CutSaysWhatIsKeptAndComputedAgain) {
  write("loss.kg",
        "dim n: 1..64\n\ngraph loss(%x: f32[n, 8], %w: f32[8, 8], %i: i32[n]) {\n"
        "  %0 = dot %x, %w {batch_a = [], batch_b = [], contract_a = [1], contract_b = [0], type = f32} : f32[n, 8]\n"
        "  %1 = sin %0 : f32[n, 8]\n  %2 = exp %1 : f32[n, 8]\n"
        "  %3 = reduce %2 {kind = sum, axes = [0, 1]} : f32[]\n  output y = %3\n}\n");
  const Outcome cut = kiln({"graph", "cut", "loss.kg", "--size", "n=4"});
  EXPECT_EQ(cut.code, 0) << cut.errors;
  EXPECT_TRUE(cut.output.starts_with("saved, 128 bytes beside inputs and outputs:\n")) << cut.output;
  EXPECT_NE(cut.output.find("f32[n, 8]  128 bytes  loss.kg:4:3\n"), std::string::npos) << cut.output;
  EXPECT_NE(cut.output.find("  sin at loss.kg:5:3\n"), std::string::npos) << cut.output;
  const Outcome little = kiln({"graph", "cut", "loss.kg", "--by", "x", "--size", "n=4", "--budget", "100"});
  EXPECT_EQ(little.code, 1);
  EXPECT_NE(little.errors.find("cut_vjp: a budget of 100 bytes; 128 must be kept"), std::string::npos) << little.errors;
  EXPECT_NE(kiln({"graph", "cut", "loss.kg", "--by", "i"}).errors.find("input i is i32[n], and only floats"),
            std::string::npos);
}

TEST_F(GraphFile, DrawWritesDotAndAPage) {
  EXPECT_EQ(kiln({"graph", "draw", "g.kg", "-o", "g.dot"}).code, 0);
  EXPECT_TRUE(read("g.dot").starts_with("digraph \"g\" {"));
  EXPECT_EQ(kiln({"graph", "draw", "g.kg", "-o", "g.html"}).code, 0);
  EXPECT_NE(read("g.html").find("%y = softmax %x"), std::string::npos);
}

TEST_F(GraphFile, DrawSaysWhatItCannot) {
  EXPECT_EQ(kiln({"graph", "draw", "g.kg", "-o", "g.png"}).errors,
            "kiln: g.png: a drawing is a .dot, .svg or .html file\n");
  const std::string path_before = std::getenv("PATH");
  ::setenv("PATH", "/nothing", 1);
  const Outcome outcome = kiln({"graph", "draw", "g.kg", "-o", "g.svg"});
  ::setenv("PATH", path_before.c_str(), 1);
  EXPECT_EQ(outcome.code, 1);
  EXPECT_EQ(outcome.errors,
            "kiln: g.svg: an SVG is drawn by Graphviz: dot is not in PATH; write a .dot or .html file\n");
  EXPECT_FALSE(exists("g.svg"));
}

// By a program in Graphviz' place, which says what it was given, and then fails.
TEST_F(GraphFile, DrawTakesWhatGraphvizMakesOfIt) {
  const std::string before = std::getenv("PATH");
  std::filesystem::create_directory(path("bin"));
  ::setenv("PATH", (path("bin") + ":/usr/bin:/bin").c_str(), 1);
  const auto draw_by = [&](const std::string& script, const std::string& out) {
    write("bin/dot", "#!/bin/sh\n" + script);
    std::filesystem::permissions(path("bin/dot"), std::filesystem::perms::owner_all);
    return kiln({"graph", "draw", "g.kg", "-o", out});
  };
  const std::string script = R"([ "$1 $2" = "-Tsvg -o" ] && { echo "<svg>"; cat "$4"; echo "</svg>"; } > "$3")";
  const Outcome svg = draw_by(script, "g.svg"), page = draw_by(script, "g.html"),
                failed = draw_by("echo half > \"$3\"; exit 3", "other.svg");
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_EQ(svg.code, 0) << svg.errors;
  EXPECT_TRUE(read("g.svg").starts_with("<svg>\ndigraph \"g\" {")) << read("g.svg");
  EXPECT_EQ(page.code, 0) << page.errors;
  EXPECT_NE(read("g.html").find("<svg>"), std::string::npos);
  EXPECT_EQ(failed.code, 1);
  EXPECT_NE(failed.errors.find("dot"), std::string::npos) << failed.errors;
  EXPECT_FALSE(exists("other.svg"));
}

// The program of a directory that others can write to is passed over, and said.
TEST_F(GraphFile, DrawStartsNobodyElsesProgram) {
  const std::string shared = path("shared"), before = std::getenv("PATH");
  std::filesystem::create_directory(shared);
  write("shared/dot", "#!/bin/sh\n: > mark\n");
  std::filesystem::permissions(path("shared/dot"), std::filesystem::perms::owner_all);
  std::filesystem::permissions(shared, std::filesystem::perms::all);
  ::setenv("PATH", shared.c_str(), 1);
  const Outcome svg = kiln({"graph", "draw", "g.kg", "-o", "g.svg"}),
                page = kiln({"graph", "draw", "g.kg", "-o", "g.html"});
  ::setenv("PATH", before.c_str(), 1);
  EXPECT_EQ(svg.code, 1);
  EXPECT_NE(svg.errors.find(shared + " can be written by everybody"), std::string::npos) << svg.errors;
  EXPECT_EQ(page.code, 0) << page.errors;
  EXPECT_FALSE(exists("mark"));
}

}  // namespace
}  // namespace kiln::cli::testing

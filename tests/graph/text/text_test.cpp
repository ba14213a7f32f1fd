// The text form: what is printed reads back as the same graph, and what is wrong is refused with its place.
#include "kiln/graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/op_examples.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/builder.h"
#include "kiln/graph/verify.h"

namespace kiln::graph {
namespace {

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

Graph parsed(const std::string& text) {
  auto graph = parse(text, "test.kg");
  EXPECT_TRUE(graph) << graph.error().message << "\n" << text;
  return graph ? *graph : Graph();
}

class OpText : public testing::TestWithParam<int> {};

TEST_P(OpText, ExampleReadsAndPrintsBack) {
  const auto op = static_cast<TensorOp>(GetParam());
  const std::string text = example_graph(op);
  ASSERT_FALSE(text.empty()) << info(op).name << " has no entry in op_examples.cpp";
  const Graph graph = parsed(text);
  ASSERT_FALSE(graph.bodies.empty());
  ASSERT_EQ(graph.main().nodes.size(), 1u);
  EXPECT_EQ(graph.main().nodes[0].op, op);
  const std::string printed = print(graph);
  const Graph again = parsed(printed);
  EXPECT_EQ(print(again), printed);
  EXPECT_EQ(key(again), key(graph));
}

INSTANTIATE_TEST_SUITE_P(All, OpText, testing::Range(0, kTensorOpCount),
                         [](const auto& test) { return graph::info(static_cast<TensorOp>(test.param)).name; });

TEST(GraphText, GoldenFilesPrintAsTheyAre) {
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(KILN_SOURCE_DIR "/tests/golden/graph")) {
    if (entry.path().extension() != ".kg") continue;
    const std::string text = read_file(entry.path());
    EXPECT_EQ(print(parsed(text)), text) << entry.path();
    ++count;
  }
  EXPECT_GE(count, 2);
}

TEST(GraphText, ReadsWhatPeopleWrite) {
  const Graph graph = parsed(R"(
    dim n // any extent
    graph g ( %x : f32 [ n + n , ] , ) { %y=neg %x   // no type
      %"z z" = add %y,%y output y = %"z z" })");
  ASSERT_EQ(graph.main().nodes.size(), 2u);
  EXPECT_EQ(print(graph), R"(dim n

graph g(%x: f32[2*n]) {
  %y = neg %x : f32[2*n]
  %"z z" = add %y, %y : f32[2*n]
  output y = %"z z"
}
)");
}

TEST(GraphText, DimsKeepTheirBounds) {
  const Graph graph = parsed("dim a: 0..\ndim b: 2..7\ndim c multiple 16\ndim d\ngraph g(%x: f32[]) { output x = %x }");
  EXPECT_EQ(
      graph.dims,
      (std::vector<DimInfo>{
          {"a", 0, DimInfo::kMost, 1}, {"b", 2, 7, 1}, {"c", 1, DimInfo::kMost, 16}, {"d", 1, DimInfo::kMost, 1}}));
}

TEST(GraphText, LocationsAreLinesOfTheText) {
  const Graph graph = parsed("graph g(%x: f32[4]) {\n  %y = neg %x\n  output y = %y\n}\n");
  EXPECT_EQ(graph.location_text(graph.main().nodes[0].loc), "test.kg:2:3");
  EXPECT_THAT(print(graph, {.locations = true}), testing::HasSubstr("%y = neg %x : f32[4]  // test.kg:2:3\n"));
}

TEST(GraphText, LeftOutOperands) {
  const Graph graph = parsed(
      "graph g(%x: f32[4], %b: f32[4]) {\n  %y = layer_norm %x, _, %b\n  %z = layer_norm %y, _, _\n  %w = layer_norm "
      "%z\n  output y = %w\n}\n");
  const Body& main = graph.main();
  ASSERT_EQ(main.nodes.size(), 3u);
  for (const Node& node : main.nodes) EXPECT_EQ(main.operands_of(node).size(), 3u);
  EXPECT_EQ(main.operands_of(main.nodes[0])[1], kNoValue);
  EXPECT_THAT(print(graph), testing::HasSubstr("%y = layer_norm %x, _, %b : f32[4]\n  %z = layer_norm %y : f32[4]\n"));
}

TEST(GraphText, EqualNodesAreOne) {
  const Graph graph = parsed(
      "graph g(%x: f32[4]) {\n  %a = neg %x\n  %b = neg %x\n  %c = add %a, %b\n  output c = %c\n  output b = %b\n}\n");
  ASSERT_EQ(graph.main().nodes.size(), 2u);
  EXPECT_THAT(print(graph), testing::HasSubstr("%c = add %a, %a"));
}

TEST(GraphText, NumbersAreRoundedOnce) {
  const Graph graph = parsed(
      "graph g() {\n  %a = full {value = 0.1, type = bf16, shape = []}\n  %b = constant {type = u8, data = [255, 0], "
      "shape = [2]}\n  %c = full {type = f32, shape = [], value = 0x7fc00001}\n  %d = full {type = i8, shape = [], "
      "value = -128}\n  output a = %a\n  output b = %b\n  output c = %c\n  output d = %d\n}\n");
  EXPECT_THAT(print(graph), testing::HasSubstr("value = 0.1}"));
  EXPECT_THAT(print(graph), testing::HasSubstr("data = [255, 0]"));
  EXPECT_THAT(print(graph), testing::HasSubstr("value = 0x7fc00001}"));
  EXPECT_THAT(print(graph), testing::HasSubstr("value = -128}"));
}

TEST(GraphText, CodeOfOnesOwnIsRefusedWithItsPlace) {
  const auto error_of = [](const std::string& code) {
    const auto graph = parse("kernel @k {\n  results f32[4]\n  arguments result 0\n  " + code +
                                 "\n  kernel k(%y: ptr<f32>) {\n    grid [4, 1, 1]\n  }\n}\n"
                                 "graph g() {\n  %y = kernel {kernel = @k}\n  output y = %y\n}\n",
                             "test.kg");
    return graph ? "reads" : graph.error().message.substr(0, graph.error().message.find('\n'));
  };
  EXPECT_EQ(error_of(R"(code "cuda" ptx { "one\n" "two" })"), "reads");
  EXPECT_EQ(error_of(R"(code cuda ptx { "" })"),
            "test.kg:4:8: error: expected a string in double quotes, found `cuda`");
  EXPECT_EQ(error_of(R"(code "cuda" cubin { "" })"),
            "test.kg:4:15: error: the form of code is `llvm`, `ptx` or `amd`, not `cubin`");
  EXPECT_EQ(error_of(R"(code "cuda" ptx warps 4 { "" })"),
            "test.kg:4:19: error: expected `entry`, `file`, `threads`, `shared`, or the code in `{ }`, found `warps`");
  EXPECT_EQ(error_of(R"(code "cuda" ptx { ret; })"),
            "test.kg:4:21: error: expected a string in double quotes, found `ret`");
  EXPECT_EQ(error_of(R"(code "cuda" ptx { })"), "test.kg:1:1: error: kernel @k: custom kernel `k` has no code");
}

// A value may be called like a number that printing gives to another.
TEST(GraphText, NamesOfAnyKind) {
  GraphBuilder builder("a/graph");
  const TensorType type{ElementType::kF32, {Expr(4)}};
  const ValueId x = *builder.add_input("0", type);
  const ValueId y = *builder.add_one(TensorOp::kNeg, std::vector{x});
  const ValueId z = *builder.add_one(TensorOp::kExp, std::vector{y});
  builder.set_name(z, "back\\slash \"quoted\"\n");
  EXPECT_TRUE(builder.add_output("1", z));
  const Graph graph = builder.take();
  const std::string text = print(graph);
  EXPECT_THAT(text, testing::HasSubstr("graph \"a/graph\"(%\"0\": f32[4])"));
  EXPECT_THAT(text, testing::HasSubstr("%0 = neg %\"0\""));
  const Graph again = parsed(text);
  EXPECT_EQ(print(again), text);
  EXPECT_EQ(again.main().names, graph.main().names);
  EXPECT_EQ(again.main().inputs[0].name, "0");
}

// Bodies come before what names them, in the order of their numbers where that is one.
TEST(GraphText, BodiesPrintBehindThoseThatTheyName) {
  GraphBuilder builder("g");
  const TensorType type{ElementType::kF32, {Expr(4)}};
  const ValueId x = *builder.add_input("x", type);
  builder.open_body("outer");
  const ValueId a = *builder.add_input("a", type);
  builder.open_body("inner");
  const ValueId b = *builder.add_input("b", type);
  EXPECT_TRUE(builder.add_output("y", *builder.add_one(TensorOp::kNeg, std::vector{b})));
  const BodyId inner = builder.close_body();
  const ValueId c = *builder.add_one(TensorOp::kCall, std::vector{a}, {int64_t{inner}});
  EXPECT_TRUE(builder.add_output("y", c));
  const BodyId outer = builder.close_body();
  EXPECT_LT(outer, inner);
  EXPECT_TRUE(builder.add_output("y", *builder.add_one(TensorOp::kCall, std::vector{x}, {int64_t{outer}})));
  const Graph graph = builder.take();
  const std::string text = print(graph);
  EXPECT_LT(text.find("body @inner"), text.find("body @outer"));
  EXPECT_EQ(print(parsed(text)), text);
  EXPECT_EQ(key(parsed(text)), key(graph));
}

// Neither reading nor printing nor encoding recurses over nodes, or looks at all of them for each.
TEST(GraphText, LongChains) {
  constexpr int kNodes = 200'000;
  std::string text = "graph g(%x: f32[4]) {\n  %0 = neg %x\n";
  for (int i = 1; i < kNodes; ++i) {
    text += "  %" + std::to_string(i) + " = exp %" + std::to_string(i - 1) + "\n";
  }
  text += "  output y = %" + std::to_string(kNodes - 1) + "\n}\n";
  const Graph graph = parsed(text);
  EXPECT_EQ(graph.main().nodes.size(), static_cast<size_t>(kNodes));
  EXPECT_EQ(canonical(graph).main().nodes.size(), static_cast<size_t>(kNodes));
}

// A file of a million ops is read, and refused at its last line.
TEST(GraphText, AMillionOpsAndAMistake) {
  constexpr int kNodes = 1'000'000;
  std::string text = "graph g(%x: f32[4]) {\n";
  for (int i = 0; i < kNodes; ++i) {
    text += "  %" + std::to_string(i) + " = neg %" + (i == 0 ? "x" : std::to_string(i - 1)) + "\n";
  }
  text += "  %y = add %x, %nothing\n}\n";
  const auto graph = parse(text, "f.kg");
  ASSERT_FALSE(graph);
  EXPECT_THAT(graph.error().message, testing::StartsWith("f.kg:1000002:16: error: `%nothing` is not defined above"));
}

struct Refused {
  const char* text;
  const char* message;
};

class GraphTextRefuses : public testing::TestWithParam<Refused> {};

TEST_P(GraphTextRefuses, WithItsPlace) {
  const auto graph = parse(GetParam().text, "f.kg");
  ASSERT_FALSE(graph) << print(*graph);
  EXPECT_THAT(graph.error().message, testing::StartsWith(GetParam().message));
  EXPECT_NE(graph.error().code, ErrorCode::kInternal);
}

INSTANTIATE_TEST_SUITE_P(
    Each, GraphTextRefuses,
    testing::Values(
        Refused{"", "f.kg:1:1: error: expected `dim`, `kernel`, `body` or `graph`, found the end of the file"},
        Refused{"dim n\n", "f.kg:2:1: error: expected `dim`, `kernel`, `body` or `graph`"},
        Refused{"graph g(%y: f32[]) { output y = %y }\nx",
                "f.kg:2:1: error: expected the end of the file after the graph, found `x`"},
        Refused{"dim n: 5\ngraph g() {}", "f.kg:1:8: error: expected a range like `1..4096` or `0..`, found `5`"},
        Refused{"dim n: 5..2\ngraph g() {}", "f.kg:1:5: error: the dim n needs 0 <= low <= high"},
        Refused{"dim n\ndim n\ngraph g() {}", "f.kg:2:5: error: `n` is already defined in line 1"},
        Refused{"graph g(%x: f32[m]) {}", "f.kg:1:17: error: there is no dim `m`"},
        Refused{"graph g(%x: f32) {}", "f.kg:1:16: error: expected `[`, found `)`"},
        Refused{"graph g(%x: f33[4]) {}", "f.kg:1:13: error: there is no element type `f33`"},
        Refused{"graph g(%x: f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]) {}", "f.kg:1:16: error: a tensor has at most 16"},
        Refused{"graph g(%x: f32[4], %x: f32[4]) {}", "f.kg:1:21: error: two inputs have the name x"},
        Refused{"graph g(%x: f32[4] donated to y) { output z = %x }", "f.kg:1:31: error: the output `y` is not there"},
        Refused{"graph g(%x: f32[4] donated to y, %z: f32[4] donated to y) {\n output y = %x }",
                "f.kg:1:56: error: output y: two inputs are donated to it: x and z"},
        Refused{"graph g(%x: f32[4], %z: f32[5] donated to y) {\n output y = %x }",
                "f.kg:1:43: error: input z of f32[5] cannot be donated to output y of f32[4]"},
        Refused{"graph g(%x: f32[4] donated to y donated to z) {\n output y = %x\n output z = %x }",
                "f.kg:1:33: error: expected `)`, found `donated`"},
        Refused{"graph g(%x: f32[4]) {\n  %a = neg %b\n  %b = neg %a\n  output y = %a }",
                "f.kg:2:12: error: `%b` is not defined above"},
        Refused{"graph g(%x: f32[4], %w: f32[1, 4]) {\n  %y = add %x, %w }",
                "f.kg:2:8: error: add: a and b have shapes [4] and [1, 4]"},
        Refused{"graph g(%x: f32[4], %w: f32[8]) {\n  %y = add %x, %w }",
                "f.kg:2:8: error: add: extents of axis 0 of a and b differ: 4 and 8"},
        Refused{"dim n\ndim m\ngraph g(%x: f32[n], %w: f32[m]) {\n  %y = add %x, %w }",
                "f.kg:4:8: error: add: extents of axis 0 of a and b are not known to be equal: n and m; use one dim "
                "for both"},
        Refused{"dim n\ngraph g(%x: f32[n, 4]) {\n  %y = reshape %x {shape = [n, 3]} }",
                "f.kg:3:8: error: reshape: f32[n, 4] has 4*n elements, [n, 3] has 3*n"},
        Refused{"dim n\ngraph g(%x: f32[n, 4]) {\n  %y = reshape %x {shape = [div(n, 2), 8]} }",
                "f.kg:3:8: error: reshape: f32[n, 4] has 4*n elements, [div(n, 2), 8] has 8*div(n, 2): not known to be "
                "equal"},
        Refused{"graph g(%x: f32[4]) {\n  %y = broadcast %x {shape = [4, 2]} }",
                "f.kg:2:8: error: broadcast: f32[4] does not broadcast to [4, 2]: axis 0 of 4 is neither 1 nor 2"},
        Refused{"graph g(%x: f32[4]) {\n  %y = permute %x {order = [1, 0]} }",
                "f.kg:2:8: error: permute: axis 1 in order of f32[4]; there are 0 to 0"},
        Refused{"body @b(%x: f32[4] donated to y) {}", "f.kg:1:20: error: only inputs of the graph are donated"},
        Refused{"graph g() { y }", "f.kg:1:13: error: expected a node like `%y = relu %x`, `output` or `}`"},
        Refused{"graph g() { %y = nothing }", "f.kg:1:18: error: there is no op `nothing`"},
        Refused{"graph g() { %y = neg %x }", "f.kg:1:22: error: `%x` is not defined above"},
        Refused{"graph g() { %y = neg }", "f.kg:1:18: error: neg: takes 1 operands, not 0"},
        Refused{"graph g(%x: f32[4]) {\n  %y = neg %x, %x }", "f.kg:2:8: error: neg: takes 1 operands, not 2"},
        Refused{"graph g(%x: f32[4]) {\n  %y = neg _ }", "f.kg:2:8: error: neg: operand x is missing"},
        Refused{"graph g(%x: f32[4]) {\n  %y, %z = neg %x }", "f.kg:2:3: error: neg gives 1 result, not 2"},
        Refused{"graph g(%x: f32[4]) {\n  %v = sort %x {axis = 0} }", "f.kg:2:3: error: sort gives 2 results, not 1"},
        Refused{"graph g(%x: f32[4]) {\n  %y = neg %x : f32[5] }", "f.kg:2:17: error: neg gives f32[4], not f32[5]"},
        Refused{"graph g(%x: f32[4]) {\n  %x = neg %x }", "f.kg:2:3: error: `%x` is already defined in line 1"},
        Refused{"graph g(%x: f32[4]) {\n  %y = softmax %x }", "f.kg:2:8: error: softmax lacks the attribute `axis`"},
        Refused{"graph g(%x: f32[4]) {\n  %y = softmax %x {axis = 7} }",
                "f.kg:2:8: error: softmax: axis 7 of f32[4]; there are 0 to 0"},
        Refused{"graph g(%x: f32[4]) {\n  %y = softmax %x {axes = 0} }",
                "f.kg:2:20: error: softmax has no attribute `axes`"},
        Refused{"graph g(%x: f32[4]) {\n  %y = softmax %x {axis = 0, axis = 0} }",
                "f.kg:2:30: error: the attribute `axis` is given twice"},
        Refused{"graph g(%x: f32[4]) {\n  %y = gelu %x {approximate = some} }",
                "f.kg:2:31: error: `approximate` is one of none, tanh, not `some`"},
        Refused{"graph g() {\n  %y = full {type = i8, shape = [], value = 300} }",
                "f.kg:2:45: error: 300 is not a value of i8"},
        Refused{"graph g() {\n  %y = full {type = i8, shape = [], value = x} }",
                "f.kg:2:45: error: expected a number, found `x`"},
        Refused{"graph g(%x: f32[4]) { %y = call %x {body = @f} }\nbody @f() {}",
                "f.kg:1:45: error: the body `@f` is not defined above"},
        Refused{"body @f(%x: f32[4]) {\n  %y = call %x {body = @f}\n output y = %y }\ngraph g() {}",
                "f.kg:2:25: error: the body `@f` is not defined above"},
        Refused{"graph g(%x: f32[4]) { %y = kernel %x {kernel = @f} }",
                "f.kg:1:49: error: the kernel `@f` is not defined above"},
        Refused{"graph g(%x: f32[4]) { output y = %x\n output y = %x }",
                "f.kg:2:9: error: the output `y` is already defined in line 1"},
        Refused{"kernel @k {\n  arguments 1\n  kernel k() {\n    %x = nothing\n  }\n}\ngraph g() {}",
                "f.kg:4:10: error: there is no op `nothing`"},
        Refused{"kernel @k {\n  arguments operand 9999\n}", "f.kg:2:21: error: the number is too large"},
        Refused{"kernel @k {\n  gradient @g\n  kernel k() {}\n}\ngraph g(%y: f32[]) { output y = %y }",
                "f.kg:2:13: error: the body `@g` is not defined"},
        Refused{"graph g(%x: f32[4]) { output y = %x ", "f.kg:1:37: error: expected a node like"},
        Refused{"graph g() {}", "f.kg:1:12: error: a body needs an output like `output y = %x`"},
        Refused{"graph \"g", "f.kg:1:7: error: the string has no closing quote"}));

}  // namespace
}  // namespace kiln::graph

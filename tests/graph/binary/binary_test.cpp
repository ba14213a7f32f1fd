// Graphs as bytes: the same graph back, an error for anything else, and one form for all orders of tracing.
#include "kiln/graph/binary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <sstream>

#include "graph/op_examples.h"
#include "kiln/dsl/canonical.h"
#include "kiln/graph/builder.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"

namespace kiln::graph {
namespace {

Graph parsed(const std::string& text) {
  auto graph = parse(text, "test.kg");
  EXPECT_TRUE(graph) << graph.error().message << "\n" << text;
  return graph ? *graph : Graph();
}

Graph golden(const std::string& name) {
  std::ifstream file(KILN_SOURCE_DIR "/tests/golden/graph/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return parsed(text.str());
}

// Tile kernels come back in the order of their ops that keys are made of.
Graph canonical_kernels(Graph graph) {
  for (TileKernel& kernel : graph.kernels) kernel.kernel = dsl::canonicalise(kernel.kernel);
  return graph;
}

class OpBinary : public testing::TestWithParam<int> {};

TEST_P(OpBinary, ExampleComesBack) {
  const Graph graph = parsed(example_graph(static_cast<TensorOp>(GetParam())));
  const std::vector<std::byte> bytes = encode(graph);
  const auto again = decode(bytes);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(print(*again, {.locations = true}), print(canonical_kernels(graph), {.locations = true}));
  EXPECT_EQ(encode(*again), bytes);
}

TEST_P(OpBinary, CanonicalFormIsSoundAndOne) {
  const Graph once = canonical(parsed(example_graph(static_cast<TensorOp>(GetParam()))));
  const auto sound = verify(once);
  ASSERT_TRUE(sound) << sound.error().message << "\n" << print(once);
  EXPECT_EQ(encode(canonical(once)), encode(once)) << print(canonical(once)) << print(once);
}

INSTANTIATE_TEST_SUITE_P(All, OpBinary, testing::Range(0, kTensorOpCount),
                         [](const auto& test) { return graph::info(static_cast<TensorOp>(test.param)).name; });

TEST(GraphBinary, GoldenGraphsComeBack) {
  for (const char* name : {"mlp.kg", "bodies.kg", "custom_code.kg"}) {
    const Graph graph = golden(name);
    const auto again = decode(encode(graph));
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(print(*again, {.locations = true}), print(canonical_kernels(graph), {.locations = true}));
    EXPECT_EQ(again->kernels.size(), graph.kernels.size());
  }
}

// Every prefix, and many graphs with some other bytes: an error of the input, or a sound graph.
TEST(GraphBinary, SurvivesAnyBytes) {
  std::mt19937 random(7);
  for (const char* name : {"mlp.kg", "bodies.kg"}) {
    const std::vector<std::byte> bytes = encode(golden(name));
    for (size_t size = 0; size < bytes.size(); ++size) {
      const auto graph = decode(std::span(bytes).first(size));
      ASSERT_FALSE(graph) << size;
      EXPECT_NE(graph.error().code, ErrorCode::kInternal) << graph.error().message;
      EXPECT_FALSE(graph.error().message.empty());
    }
    for (int round = 0; round < 3000; ++round) {
      std::vector<std::byte> changed = bytes;
      for (int i = 0; i < 1 + round % 3; ++i) changed[random() % changed.size()] = static_cast<std::byte>(random());
      const auto graph = decode(changed);
      if (graph) {
        EXPECT_EQ(encode(*graph), changed);  // there is one way to write each graph
      } else {
        EXPECT_NE(graph.error().code, ErrorCode::kInternal) << graph.error().message;
      }
    }
  }
}

// A chain of a million ops, of which the last is its own operand, or lacks its end.
TEST(GraphBinary, AMillionOpsAndAMistake) {
  constexpr int kNodes = 1'000'000;
  GraphBuilder builder("g");
  ValueId last = *builder.add_input("x", {ElementType::kF32, {}});
  for (int i = 0; i < kNodes; ++i) last = *builder.add_one(TensorOp::kNeg, std::vector{last});
  ASSERT_TRUE(builder.add_output("y", last));
  Graph graph = builder.take();
  std::vector<std::byte> bytes = encode(graph);
  EXPECT_TRUE(decode(bytes));
  bytes.pop_back();
  EXPECT_FALSE(decode(bytes));
  graph.bodies[0].operands.back() = last;
  const auto cycle = decode(encode(graph));
  ASSERT_FALSE(cycle);
  EXPECT_THAT(cycle.error().message, testing::HasSubstr("graph: body 0, node 999999: an operand is out of range"));
}

TEST(GraphBinary, RefusesLongerFormsOfNumbers) {
  std::vector<std::byte> bytes = encode(parsed("graph g(%x: f32[4]) {\n  %y = neg %x\n  output y = %y\n}\n"));
  // The array of 8 fields as one with its length in a byte of its own.
  bytes[0] = std::byte{0x98};
  bytes.insert(bytes.begin() + 1, std::byte{8});
  const auto graph = decode(bytes);
  ASSERT_FALSE(graph);
  EXPECT_EQ(graph.error().message, "graph: the graph is not in its shortest form");
}

// Found by the fuzzer: the printed graph had another dim, and so another key.
TEST(GraphBinary, RefusesDimsThatTextCannotName) {
  Graph graph = parsed("dim n\ngraph g(%x: f32[n]) {\n  %y = neg %x\n  output y = %y\n}\n");
  graph.dims[0].name = "n m";
  const auto again = decode(encode(graph));
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, testing::HasSubstr("needs a name of letters"));
}

// Found by the fuzzer: two forms of one node gave two keys.
TEST(GraphBinary, RefusesOperandsWithoutAPlace) {
  Graph graph = parsed("graph g(%x: f32[2, 4], %w: f32[8, 4]) {\n  %y = linear %x, %w\n  output y = %y\n}\n");
  graph.bodies[0].operands.pop_back();
  --graph.bodies[0].nodes[0].operand_count;
  const auto again = decode(encode(graph));
  ASSERT_FALSE(again);
  EXPECT_THAT(again.error().message, testing::HasSubstr("linear: operands that are left out at the end have no place"));
}

std::string key_of(const std::string& text) { return key(parsed(text)); }

TEST(GraphKey, DoesNotDependOnOrderOrNames) {
  const std::string one =
      "dim m\ndim n\ngraph g(%x: f32[m, n], %y: f32[m, n]) {\n  %a = exp %x\n  %b = sin %y\n  %c = sub %a, %b\n  %d = "
      "mul %c, %a\n  output z = %d\n}\n";
  const std::string other =
      "dim n\ndim unused: 3..5\ndim m\ndim a\ndim z\nbody @unused(%x: f32[n]) {\n  output x = %x\n}\ngraph g(%x: "
      "f32[m, n], %y: "
      "f32[m, n]) {\n  %dead = cos %y\n  %0 = sin %y\n  %1 = exp %x\n  %2 = sub %1, %0\n  %3 = mul %1, %2\n  output z "
      "= "
      "%3\n}\n";
  EXPECT_EQ(key_of(one), key_of(other)) << print(canonical(parsed(one))) << print(canonical(parsed(other)));
  EXPECT_THAT(print(canonical(parsed(other))), testing::HasSubstr("dim m\ndim n\n\ngraph g("));
}

TEST(GraphKey, SaysWhatAGraphComputes) {
  const std::string text =
      "dim n\ngraph g(%x: f32[n], %y: f32[n]) {\n  %a = sub %x, %y\n  %b = max %a, %x\n  output z = %b\n}\n";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    return key_of(changed);
  };
  EXPECT_EQ(with("max %a, %x", "max %x, %a"), key_of(text));
  EXPECT_NE(with("sub %x, %y", "sub %y, %x"), key_of(text));
  EXPECT_NE(with("max %a", "min %a"), key_of(text));
  EXPECT_NE(with("graph g", "graph h"), key_of(text));
  EXPECT_NE(with("output z", "output w"), key_of(text));
  EXPECT_NE(with("dim n", "dim n multiple 2"), key_of(text));
  EXPECT_NE(with("%y: f32[n]) {\n", "%y: f32[n] donated to z) {\n"), key_of(text));
}

// Equal bodies are one, whatever they are called; a body's own order leaves no mark either.
TEST(GraphKey, BodiesCountByWhatTheyCompute) {
  const std::string use =
      "graph g(%x: f32[4]) {\n  %a = call %x {body = @p}\n  %b = call %a {body = @q}\n  output b = "
      "%b\n}\n";
  const std::string twice =
      "body @p(%x: f32[4]) {\n  %a = exp %x\n  %b = sin %x\n  %c = add %a, %b\n  output y = %c\n}\n"
      "body @q(%other: f32[4]) {\n  %b = sin %other\n  %a = exp %other\n  %c = add %b, %a\n  output z = %c\n}\n";
  const Graph one = canonical(parsed(twice + use));
  EXPECT_EQ(one.bodies.size(), 2u) << print(one);
  const std::string both =
      "body @p(%x: f32[4]) {\n  %a = exp %x\n  %b = sin %x\n  %c = add %a, %b\n  output y = "
      "%c\n}\ngraph g(%x: f32[4]) {\n  %a = call %x {body = @p}\n  %b = call %a {body = @p}\n  "
      "output b = %b\n}\n";
  EXPECT_EQ(key_of(both), key(one));
  const std::string others =
      "body @p(%x: f32[4]) {\n  %a = exp %x\n  output y = %a\n}\nbody @q(%x: f32[4]) {\n  %a = "
      "sin %x\n  output y = %a\n}\n";
  const std::string changed =
      "body @q(%x: f32[4]) {\n  %a = exp %x\n  output y = %a\n}\nbody @p(%x: f32[4]) {\n  %a = "
      "sin %x\n  output y = %a\n}\n";
  EXPECT_NE(key_of(others + use), key_of(changed + use));
}

// What bodies capture comes in the order in which a host compiler evaluated them.
TEST(GraphKey, CapturesHaveNoOrder) {
  const auto loop = [](const std::string& inputs, const std::string& operands) {
    return "dim n\nbody @s(%h: f32[4], %x: f32[4], " + inputs +
           ") {\n  %a = sub %p, %q\n  %b = fma %a, %h, %x\n  output h = %b\n}\ngraph g(%h: f32[4], %xs: f32[n, 4], "
           "%p: f32[4], %q: f32[4], %r: f32[]) {\n  %y = loop %h, %xs, " +
           operands + " {body = @s, carried = 1, scanned = 1, length = n}\n  output y = %y\n}\n";
  };
  const std::string one = loop("%p: f32[4], %q: f32[4]", "%p, %q");
  EXPECT_EQ(key_of(loop("%q: f32[4], %p: f32[4]", "%q, %p")), key_of(one));
  EXPECT_EQ(key_of(loop("%r: f32[], %q: f32[4], %p: f32[4]", "%r, %q, %p")), key_of(one));
  EXPECT_NE(key_of(loop("%p: f32[4], %q: f32[4]", "%q, %p")), key_of(one));
  const auto cond = [](const std::string& inputs, const std::string& operands) {
    return "body @t(" + inputs + ") {\n  %a = sub %p, %q\n  output y = %a\n}\nbody @o(" + inputs +
           ") {\n  %a = sub %q, %r\n  output y = %a\n}\ngraph g(%c: i1[], %p: f32[4], %q: f32[4], %r: f32[4]) {\n  %y "
           "= "
           "cond %c, " +
           operands + " {then = @t, otherwise = @o}\n  output y = %y\n}\n";
  };
  const std::string other = cond("%p: f32[4], %q: f32[4], %r: f32[4]", "%p, %q, %r");
  EXPECT_EQ(key_of(cond("%r: f32[4], %p: f32[4], %q: f32[4]", "%r, %p, %q")), key_of(other));
  EXPECT_NE(key_of(cond("%r: f32[4], %p: f32[4], %q: f32[4]", "%p, %q, %r")), key_of(other));
  const Graph once = canonical(parsed(loop("%r: f32[], %q: f32[4], %p: f32[4]", "%r, %q, %p")));
  EXPECT_TRUE(verify(once));
  EXPECT_EQ(encode(canonical(once)), encode(once));
}

// The sum of a node's operands may be named in two ways that differ in which of two equal-looking inputs comes first.
TEST(GraphKey, InputsAreToldApart) {
  const auto text = [](const std::string& sum) {
    return "graph g(%x: f32[4], %y: f32[4]) {\n  %a = " + sum + "\n  %b = sub %a, %x\n  output b = %b\n}\n";
  };
  EXPECT_EQ(key_of(text("add %x, %y")), key_of(text("add %y, %x")));
}

// Of what bodies capture only places tell apart what has one type: sums of the same two are one, however written.
TEST(GraphKey, CommutingCapturesAreOneSum) {
  const auto call = [](const std::string& first, const std::string& second) {
    return "body @p(%v: f32[4], %w: f32[4]) {\n  %a = sub " + first + "\n  %b = sub " + second +
           "\n  %c = mul %a, %b\n  output y = %c\n}\ngraph g(%v: f32[4], %w: f32[4]) {\n  %y = call %v, %w {body = "
           "@p}\n  output y = %y\n}\n";
  };
  // The reader makes equal sums one, so sums begin as differences.
  const auto as_sums = [](Graph graph) {
    for (Body& body : graph.bodies) {
      for (Node& node : body.nodes) node.op = node.op == TensorOp::kSub ? TensorOp::kAdd : node.op;
    }
    return graph;
  };
  for (const auto& [first, second] : {std::pair("%v, %w", "%w, %v"), {"%w, %v", "%v, %w"}, {"%w, %v", "%w, %v"}}) {
    const Graph graph = as_sums(parsed(call(first, second)));
    EXPECT_EQ(key(graph), key(as_sums(parsed(call(first, first))))) << print(graph);
    EXPECT_EQ(key_of(print(canonical(graph))), key(graph)) << print(graph);
  }
  // The first body's order is that of the second: what it says about the op must not depend on how it is written.
  const auto cond = [](const std::string& sum) {
    return "body @t(%p: f32[4], %q: f32[4]) {\n  %a = sub %p, %q\n  output y = %a\n}\nbody @o(%p: f32[4], %q: f32[4]) "
           "{\n  %a = add " +
           sum +
           "\n  output y = %a\n}\ngraph g(%c: i1[], %p: f32[4], %q: f32[4]) {\n  %y = cond %c, %p, %q {then = @t, "
           "otherwise = @o}\n  %z = exp %p\n  %s = mul %y, %z\n  output s = %s\n}\n";
  };
  EXPECT_EQ(key_of(cond("%p, %q")), key_of(cond("%q, %p")));
}

TEST(GraphKey, KernelsCountByTheirCanonicalForm) {
  Graph graph = golden("bodies.kg");
  const std::string before = key(graph);
  graph.kernels[0].name = "other";
  graph.kernels[0].gradient = kNone;
  EXPECT_EQ(key(graph), before);
  graph.kernels[0].kernel.constexprs.push_back({"BLOCK", 4});
  EXPECT_NE(key(graph), before);
}

// Code of the user's own counts, but for where it is from.
TEST(GraphKey, CodeOfOnesOwnCounts) {
  const Graph graph = golden("custom_code.kg");
  const std::string before = key(graph);
  const auto with = [&](const std::function<void(TileKernel::Code&)>& change) {
    Graph other = graph;
    change(other.kernels[0].codes[0]);
    return key(other);
  };
  EXPECT_EQ(with([](auto& each) { each.code.file = "elsewhere.ptx"; }), before);
  EXPECT_NE(with([](auto& each) { each.code.text += ' '; }), before);
  EXPECT_NE(with([](auto& each) { each.code.threads = 128; }), before);
  EXPECT_NE(with([](auto& each) { each.target = "cuda"; }), before);
  Graph without = graph;
  without.kernels[1].codes.clear();
  EXPECT_NE(key(without), before);
  // Two that differ in nothing else stay two.
  Graph both = graph;
  both.kernels[1] = both.kernels[0];
  both.kernels[1].name = "other";
  EXPECT_EQ(canonical(both).kernels.size(), 1u);
  both.kernels[1].codes[0].code.text += ' ';
  EXPECT_EQ(canonical(both).kernels.size(), 2u);
}

// Keys are part of caches: these change on purpose or not at all.
TEST(GraphKey, GoldenKeysStay) {
  std::ifstream file(KILN_SOURCE_DIR "/tests/golden/graph/keys");
  std::string name, expected;
  int count = 0;
  std::string now;
  while (file >> name >> expected) {
    const std::string got = key(golden(name));
    EXPECT_EQ(got, expected) << name;
    now += name + " " + got + "\n";
    ++count;
  }
  EXPECT_GE(count, 2);
  if (std::getenv("KILN_UPDATE_GOLDEN") != nullptr) std::ofstream(KILN_SOURCE_DIR "/tests/golden/graph/keys") << now;
}

}  // namespace
}  // namespace kiln::graph

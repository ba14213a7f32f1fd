// Random graphs in all their forms: text, bytes, canonical, drawn.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "graph/random_graph.h"
#include "kiln/graph/binary.h"
#include "kiln/graph/draw.h"
#include "kiln/graph/text.h"
#include "kiln/graph/verify.h"

namespace kiln::graph {
namespace {

constexpr uint64_t kSeeds = 300;

Graph random_graph_of(uint64_t seed) {
  auto made = random_graph::make(seed, {.nodes = static_cast<int>(8 + seed % 24)});
  EXPECT_TRUE(made) << made.error().message;
  return made ? made->graph : Graph();
}

TEST(RandomForms, TextReadsBack) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Graph graph = random_graph_of(seed);
    const std::string text = print(graph);
    const auto again = parse(text, "random.kg");
    ASSERT_TRUE(again) << again.error().message << "\n" << text;
    EXPECT_EQ(print(*again), text) << seed;
    EXPECT_EQ(key(*again), key(graph)) << seed << "\n" << text;
  }
}

TEST(RandomForms, BytesReadBack) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Graph graph = random_graph_of(seed);
    const std::vector<std::byte> bytes = encode(graph);
    const auto again = decode(bytes);
    ASSERT_TRUE(again) << seed << ": " << again.error().message << "\n" << print(graph);
    EXPECT_EQ(encode(*again), bytes) << seed;
    EXPECT_EQ(key(*again), key(graph)) << seed;
  }
}

TEST(RandomForms, CanonicalIsSoundAndOne) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Graph graph = random_graph_of(seed);
    const Graph once = canonical(graph);
    const auto sound = verify(once);
    ASSERT_TRUE(sound) << seed << ": " << sound.error().message << "\n" << print(once);
    EXPECT_EQ(encode(canonical(once)), encode(once)) << seed << "\n" << print(once) << print(canonical(once));
    EXPECT_FALSE(draw_dot(graph, {.views = false}).empty());
  }
}

// The nodes of a body in a random order that keeps operands before users, with other numbers and without names.
class Shuffled {
 public:
  Shuffled(const Graph& from, uint64_t seed) : graph_(from), random_(seed) {
    for (Body& body : graph_.bodies) shuffle(body);
  }
  const Graph& graph() const { return graph_; }

 private:
  void shuffle(Body& body) {
    const Body old = body;
    std::vector<uint32_t> missing(old.nodes.size(), 0);
    std::vector<std::vector<NodeId>> users(old.nodes.size());
    for (NodeId id = 0; id < old.nodes.size(); ++id) {
      for (const ValueId operand : old.operands_of(old.nodes[id])) {
        if (operand == kNoValue || old.values[operand].node == kNone) continue;
        users[old.values[operand].node].push_back(id);
        ++missing[id];
      }
    }
    std::vector<NodeId> ready, order;
    for (NodeId id = 0; id < old.nodes.size(); ++id) {
      if (missing[id] == 0) ready.push_back(id);
    }
    while (!ready.empty()) {
      std::swap(ready[random_() % ready.size()], ready.back());
      order.push_back(ready.back());
      ready.pop_back();
      for (const NodeId user : users[order.back()]) {
        if (--missing[user] == 0) ready.push_back(user);
      }
    }
    place(old, order, body);
  }

  static void place(const Body& old, const std::vector<NodeId>& order, Body& body) {
    body.nodes.clear();
    body.operands.clear();
    body.values.clear();
    body.names.clear();
    std::vector<ValueId> now(old.values.size(), kNoValue);
    const auto define = [&](ValueId value, NodeId node) {
      now[value] = static_cast<ValueId>(body.values.size());
      body.values.push_back({old.values[value].type, node});
    };
    for (Input& input : body.inputs) {
      define(input.value, kNone);
      input.value = now[input.value];
    }
    for (const NodeId id : order) {
      Node node = old.nodes[id];
      const auto operands = old.operands_of(node);
      node.first_operand = static_cast<uint32_t>(body.operands.size());
      for (const ValueId operand : operands) body.operands.push_back(operand == kNoValue ? kNoValue : now[operand]);
      const auto place = static_cast<NodeId>(body.nodes.size());
      for (uint32_t i = 0; i < node.result_count; ++i) define(node.first_result + i, place);
      node.first_result = now[node.first_result];
      body.nodes.push_back(node);
    }
    for (Output& output : body.outputs) output.value = now[output.value];
  }

  Graph graph_;
  std::mt19937_64 random_;
};

TEST(RandomForms, OrderLeavesNoMark) {
  size_t moved = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Graph graph = random_graph_of(seed);
    const Shuffled other(graph, seed);
    const auto sound = verify(other.graph());
    ASSERT_TRUE(sound) << sound.error().message;
    EXPECT_EQ(key(other.graph()), key(graph)) << seed << "\n"
                                              << print(canonical(graph)) << print(canonical(other.graph()));
    moved += encode(other.graph()) != encode(graph) ? 1 : 0;
  }
  EXPECT_GT(moved, kSeeds / 2);
}

}  // namespace
}  // namespace kiln::graph

// decompose() as a rewrite: nothing but primitives comes out, of the same types, wherever composites stand.
#include "kiln/graph/decompose.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "decompose/decompositions.h"
#include "decompose/samples.h"
#include "kiln/graph/builder.h"
#include "kiln/graph/evaluate.h"

namespace kiln::graph::decomposing {
namespace {

std::map<TensorOp, int> ops_of(const Graph& graph) {
  std::map<TensorOp, int> out;
  for (const Body& body : graph.bodies) {
    for (const Node& node : body.nodes) ++out[node.op];
  }
  return out;
}

TEST(Decompose, EveryCompositeHasARuleAndASample) {
  std::set<TensorOp> seen;
  for (const Sample& sample : samples()) {
    ASSERT_TRUE(sample.graph.ir()) << sample.name << ": " << sample.graph.ir().error().message;
    for (const auto& [op, count] : ops_of(*sample.graph.ir())) seen.insert(op);
  }
  for (const OpInfo& op : op_table()) {
    EXPECT_EQ(decomposition_of(op.op) != nullptr, op.has(kComposite)) << op.name;
    EXPECT_TRUE(!op.has(kComposite) || seen.contains(op.op)) << "no sample has " << op.name;
  }
}

TEST(Decompose, GivesPrimitivesOfTheSameTypes) {
  for (const Sample& sample : samples()) {
    SCOPED_TRACE(sample.name);
    const Graph& before = *sample.graph.ir();
    auto after = decompose(before);
    ASSERT_TRUE(after) << after.error().message;
    for (const auto& [op, count] : ops_of(*after)) EXPECT_TRUE(info(op).has(kPrimitive)) << info(op).name;
    ASSERT_EQ(after->main().outputs.size(), before.main().outputs.size());
    for (size_t i = 0; i < before.main().outputs.size(); ++i) {
      EXPECT_EQ(to_string(after->type(after->main(), after->main().outputs[i].value), after->expr_names()),
                to_string(before.type(before.main(), before.main().outputs[i].value), before.expr_names()));
      EXPECT_EQ(after->main().outputs[i].name, before.main().outputs[i].name);
    }
  }
}

TEST(Decompose, NodesHaveTheLocationOfTheirComposite) {
  const auto def = graph("g", {input("x", f32, {4, dim("n")})}, [](Tensor x) { return softmax(x) + 1; });
  const Node softmax_node = def.ir()->main().nodes.front();
  ASSERT_EQ(softmax_node.op, TensorOp::kSoftmax);
  auto after = decompose(*def.ir());
  ASSERT_TRUE(after) << after.error().message;
  int inside = 0;
  for (const Node& node : after->main().nodes) {
    EXPECT_EQ(node.loc.line, softmax_node.loc.line);
    EXPECT_THAT(after->location_text(node.loc), testing::HasSubstr("decompose_test.cpp"));
    inside += node.loc.column == softmax_node.loc.column;
  }
  EXPECT_GE(inside, 6);
}

TEST(Decompose, KeepsWhatIsWantedWhole) {
  const auto def = graph("g", {input("q", f32, {1, 2, 4, 8}), input("w", f32, {8, 8})},
                         [](Tensor q, Tensor w) { return linear(gelu(attention(q, q, q)), w); });
  auto all = decompose(*def.ir(), [](const Graph&, const Body&, const Node&) { return true; });
  ASSERT_TRUE(all) << all.error().message;
  EXPECT_EQ(ops_of(*all), ops_of(*def.ir()));
  // What a decomposition itself uses is kept as well.
  auto some = decompose(*def.ir(), [](const Graph&, const Body&, const Node& node) {
    return node.op == TensorOp::kSoftmax || node.op == TensorOp::kGelu;
  });
  ASSERT_TRUE(some) << some.error().message;
  auto ops = ops_of(*some);
  EXPECT_EQ(ops[TensorOp::kSoftmax], 1);
  EXPECT_EQ(ops[TensorOp::kGelu], 1);
  EXPECT_EQ(ops[TensorOp::kDot], 3);
  EXPECT_EQ(ops[TensorOp::kAttention] + ops[TensorOp::kLinear] + ops[TensorOp::kReduce], 0);
}

TEST(Decompose, GoesIntoBodies) {
  const auto def = graph("g", {input("x", f32, {3, dim("n")}), input("p", i1, {})}, [](Tensor x, Tensor p) {
    const LoopStep out = loop(5, {x}, {}, [&](Tensors carried, Tensors) {
      return LoopStep{{cond(p, [&] { return gelu(carried[0]); }, [&] { return silu(carried[0]); })}, {}};
    });
    return call("tail", out.carried, [](Tensors in) { return Tensors{softmax(in[0])}; });
  });
  ASSERT_TRUE(def.ir()) << def.ir().error().message;
  auto after = decompose(*def.ir());
  ASSERT_TRUE(after) << after.error().message;
  auto ops = ops_of(*after);
  for (const auto& [op, count] : ops) EXPECT_TRUE(info(op).has(kPrimitive)) << info(op).name;
  EXPECT_EQ(ops[TensorOp::kLoop], 1);
  EXPECT_EQ(ops[TensorOp::kCond], 1);
  EXPECT_EQ(ops[TensorOp::kErf], 1);
  EXPECT_EQ(after->bodies.size(), def.ir()->bodies.size());
}

TEST(Decompose, KeepsNamesAndDonations) {
  GraphBuilder builder("step");
  const Dim n = dim("n");
  ASSERT_TRUE(builder.add_dim(n.symbols()[0]));
  const TensorType type{f32, {n.expr()}}, scalar{f32, {}};
  const ValueId p = *builder.add_input("p", type), g = *builder.add_input("g", type),
                lr = *builder.add_input("lr", scalar);
  const ValueId scaled = *builder.add_one(TensorOp::kGelu, std::vector{g});
  builder.set_name(scaled, "activated");
  const ValueId next = *builder.add_one(TensorOp::kSgdStep, std::vector{p, scaled, lr});
  ASSERT_TRUE(builder.add_output("p2", next));
  ASSERT_TRUE(builder.donate(0, 0));
  auto after = decompose(builder.take());
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_EQ(after->main().inputs[0].donated_to, 0u);
  std::vector<std::string> names;
  for (const auto& [value, name] : after->main().names) {
    names.push_back(name);
    EXPECT_EQ(after->main().nodes[after->main().values[value].node].op, TensorOp::kMul);  // the product of gelu
  }
  EXPECT_EQ(names, std::vector<std::string>{"activated"});
}

// A window does not reduce batch and channels: there may be none.
TEST(Decompose, PoolsOfEmptyBatches) {
  const auto def =
      graph("g", {input("x", f32, {dim("n", 0, 8), 2, 3}), input("w", f32, {4, 2, 1})}, [](Tensor x, Tensor w) {
        return Outputs{
            {"most", max_pool(x, {.size = {2}})}, {"mean", avg_pool(x, {.size = {2}})}, {"conv", conv(x, w)}};
      });
  ASSERT_TRUE(def.ir()) << def.ir().error().message;
  const auto after = decompose(*def.ir());
  ASSERT_TRUE(after) << after.error().message;
  const auto got = evaluate(*after, std::vector{own(f32, {0, 2, 3}), own(f32, {4, 2, 1})});
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ((*got)[0].shape, (std::vector<int64_t>{0, 2, 1}));
  EXPECT_EQ((*got)[2].shape, (std::vector<int64_t>{0, 4, 3}));
}

}  // namespace
}  // namespace kiln::graph::decomposing

// Random graphs on this machine's CPU, through a daemon, beside the evaluator. KILN_RANDOM_GRAPHS says how many.
#include <gtest/gtest.h>

#include <cstring>

#include "graph/compare.h"
#include "graph/random_graph.h"
#include "graph_service.h"
#include "kiln/graph/text.h"

namespace kiln {
namespace {

using graph::TensorOp;

graph::Array copy_of(const OwnedArray& array) {
  graph::Array out = graph::own(array.element(), array.shape());
  std::memcpy(out.storage->data(), array.data(), array.bytes());
  return out;
}

class RandomGraphs : public test::GraphService {
 protected:
  // "" where the compiled graph gives what the evaluator does.
  static std::string check(Client& client, const random_graph::Case& made, uint64_t seed) {
    const auto inputs = random_graph::inputs(made, seed);
    const auto expected = graph::evaluate(made.graph, inputs, made.sizes, {.check_indices = false});
    const auto wide = graph::evaluate(made.graph, inputs, made.sizes, {.check_indices = false, .wide = true});
    if (!expected || !wide) return "";  // an index that is nowhere
    const auto fn = client.compile(made.graph, {.target = "cpu"});
    if (!fn) return fn.error().message;
    std::vector<ArrayView> views;
    for (const graph::Array& input : inputs) views.push_back({input.element, input.shape, input.strides, input.data});
    const auto results = (*fn)(views, {.sizes = made.sizes});
    if (!results) return results.error().message;
    std::vector<graph::Array> actual;
    for (const OwnedArray& result : *results) actual.push_back(copy_of(result));
    return test::difference(actual, *expected, {.coarsest = test::coarsest_float(made.graph), .wide = *wide});
  }
};

TEST_F(RandomGraphs, AreTheEvaluators) {
  const char* asked = std::getenv("KILN_RANDOM_GRAPHS");
  const uint64_t count = asked ? std::strtoull(asked, nullptr, 10) : 40;
  Client client(options());
  for (uint64_t seed = 0; seed < count; ++seed) {
    random_graph::Options options{.nodes = 3 + static_cast<int>(seed % 6), .bodies = false, .kernels = false};
    if (seed % 3 != 0) options.elements = {graph::f32, graph::i32, graph::i1};
    // Where a float is rounded otherwise, its bits and its order among others are other ones altogether; and nothing
    // says which sign a NaN has.
    options.may = [](TensorOp op) {
      return graph::info(op).family != graph::Family::kOrder && op != TensorOp::kBitcast && op != TensorOp::kQuantise &&
             op != TensorOp::kSignbit && op != TensorOp::kCopysign;
    };
    const auto made = random_graph::make(seed, options);
    ASSERT_TRUE(made) << made.error().message;
    EXPECT_EQ(check(client, *made, seed), "") << "seed " << seed << "\n" << graph::print(made->graph);
  }
}

// A dim that only what nothing needs mentions is gone from the plan; who gives its size does not have to know.
TEST_F(RandomGraphs, SizesOfDimsWithoutUseAreTaken) {
  const graph::Dim n = graph::dim("n", 1, 64), unused = graph::dim("unused", 1, 64);
  const auto both = graph::graph("both", {graph::input("x", graph::f32, {n})}, [&](graph::Tensor x) {
    static_cast<void>(graph::zeros(graph::f32, {unused}));
    return x + 1.0;
  });
  ASSERT_TRUE(both.ir()) << both.ir().error().message;
  Client client(options());
  const auto fn = client.compile(both, {.target = "cpu"});
  ASSERT_TRUE(fn) << fn.error().message;
  const std::vector<float> x(8, 1);
  const std::vector<ArrayView> inputs{array(x, {8})};
  const auto done = (*fn)(inputs, {.sizes = {{"unused", 5}}});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ((*done)[0].as<float>()[7], 2);
  EXPECT_FALSE((*fn)(inputs, {.sizes = {{"nobody", 5}}}));
}

// No launch writes a result without elements.
TEST_F(RandomGraphs, ResultsMayBeEmpty) {
  const auto empty = graph::graph("empty", {graph::input("x", graph::f32, {4, 0})}, [](graph::Tensor x) {
    return graph::Outputs{{"none", exp(x)}, {"sums", sum(x, {1})}};
  });
  Client client(options());
  const auto fn = client.compile(empty, {.target = "cpu"});
  ASSERT_TRUE(fn) << fn.error().message;
  const auto done = (*fn)({array(static_cast<const float*>(nullptr), {4, 0})});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ((*done)[0].count(), 0);
  EXPECT_EQ((*done)[1].as<float>()[3], 0);
}

}  // namespace
}  // namespace kiln

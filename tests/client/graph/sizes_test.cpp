// One plan for all sizes: an encoder's layer whose batch and sequence are dims. KILN_TEST_SIZES says at how many sizes.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <thread>

#include "graph/compare.h"
#include "graph/encoder_layer.h"
#include "graph/random_graph.h"
#include "graph_service.h"

namespace kiln {
namespace {

using graph::f32;
using test::encoder_layer;

class Sizes : public test::GraphService {
 protected:
  static std::vector<ArrayView> views_of(const std::vector<graph::Array>& inputs) {
    std::vector<ArrayView> out;
    for (const graph::Array& each : inputs) out.push_back({each.element, each.shape, each.strides, each.data});
    return out;
  }
};

// A row's bits are those that it has alone, whatever the batch, the threads, and what the code was made for.
TEST_F(Sizes, OfABatchDoNotChangeARow) {
  const auto layer = encoder_layer();
  ASSERT_TRUE(layer.ir()) << layer.ir().error().message;
  Client client(options());
  const auto fn = client.compile(layer, {.target = "cpu"});
  ASSERT_TRUE(fn) << fn.error().message;
  const random_graph::Case made{*layer.ir(), {{"n", 64}, {"s", 21}}};
  const auto all = random_graph::inputs(made, 4);
  std::vector<float> alone;
  for (const bool prepared : {false, true}) {
    for (const int64_t n : {1, 7, 64}) {
      std::vector<ArrayView> inputs = views_of(all);
      for (ArrayView& each : std::span(inputs).first(2)) each.shape[0] = n;  // the first rows of each
      if (prepared) {
        ASSERT_TRUE(fn->prepare(inputs));
      }
      for (const int threads : {1, 2, 5, 16}) {
        const auto done = (*fn)(inputs, {.threads = threads});
        ASSERT_TRUE(done) << done.error().message;
        const float* row = (*done)[0].as<float>().data();
        const size_t count = 21 * test::kEncoderWidth;
        if (alone.empty()) alone.assign(row, row + count);
        EXPECT_EQ(std::memcmp(row, alone.data(), count * sizeof(float)), 0)
            << "batch " << n << ", " << threads << " threads" << (prepared ? ", prepared" : "");
      }
    }
  }
}

// Any batch and any length, by one plan and three variants of a kernel at most, which come while it runs.
TEST_F(Sizes, AreServedByOnePlan) {
  const char* asked = std::getenv("KILN_TEST_SIZES");
  const int count = asked ? std::atoi(asked) : 12;
  const auto layer = encoder_layer();
  ASSERT_TRUE(layer.ir()) << layer.ir().error().message;
  ClientOptions specialising = options();
  specialising.specialise_in_background = true;
  Client client(specialising);
  const auto fn = client.compile(layer, {.target = "cpu"});
  ASSERT_TRUE(fn) << fn.error().message;
  const uint64_t kernels = fn->plan().kernels.size(), before = compiles();
  std::mt19937_64 random(1);
  for (int i = 0; i < count; ++i) {
    const auto draw = [&](int64_t most) { return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most)); };
    const random_graph::Case made{*layer.ir(), {{"n", draw(9)}, {"s", draw(70)}}};
    const auto inputs = random_graph::inputs(made, static_cast<uint64_t>(i));
    const auto expected = graph::evaluate(made.graph, inputs, made.sizes);
    const auto wide = graph::evaluate(made.graph, inputs, made.sizes, {.wide = true});
    ASSERT_TRUE(expected && wide);
    const auto done = (*fn)(views_of(inputs));
    ASSERT_TRUE(done) << done.error().message;
    graph::Array actual = graph::own(f32, (*done)[0].shape());
    std::memcpy(actual.storage->data(), (*done)[0].data(), (*done)[0].bytes());
    EXPECT_EQ(test::difference(std::vector{actual}, *expected, {.coarsest = f32, .wide = *wide}), "")
        << "n " << made.sizes.at("n") << ", s " << made.sizes.at("s");
  }
  uint64_t more = compiles();
  for (uint64_t last = ~uint64_t{0}; more != last; more = compiles()) {
    last = more;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_LE(more - before, 2 * kernels);  // beside the first of each, for any size
}

}  // namespace
}  // namespace kiln
